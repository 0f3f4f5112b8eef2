package policy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// gitVariables are the settings that variables of the environment stand for.
const gitVariables = `GIT_SSH core.sshcommand GIT_SSH_COMMAND core.sshcommand GIT_PROXY_COMMAND core.gitproxy GIT_ASKPASS core.askpass
 SSH_ASKPASS core.askpass GIT_EDITOR core.editor VISUAL core.editor EDITOR core.editor GIT_SEQUENCE_EDITOR sequence.editor
 GIT_PAGER core.pager PAGER core.pager GIT_EXTERNAL_DIFF diff.external GIT_TEMPLATE_DIR init.templatedir GIT_EXEC_PATH core.hookspath`

// readEnviron reads what the user's environment sets in every repository.
func (b *builder) readEnviron(guard string) (err error) {
	var all []setting
	variables := strings.Fields(gitVariables)
	for i := 0; i < len(variables); i += 2 {
		if value := getenv(b.c.Environ, variables[i]); value != "" {
			all = append(all, setting{"$" + variables[i], variables[i+1], value})
		}
	}
	for _, read := range []func() ([]setting, error){b.countedSettings, b.quotedSettings} {
		more, err := read()
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	b.git.global, err = b.keep(guard, b.git.global, all, "/", 0)
	return err
}

// badVariable is about a variable of the environment that git fails to read, or
// could read otherwise.
func badVariable(name string, err error) error {
	return refuse("policy: git reads the variable %s, and what it runs by that cannot be guarded: %v; correct it, unset it, or open the guard: open_guards: [git]", name, err)
}

// countedSettings are those of GIT_CONFIG_COUNT.
func (b *builder) countedSettings() (list []setting, err error) {
	const name = "GIT_CONFIG_COUNT"
	text := getenv(b.c.Environ, name)
	if text == "" {
		return nil, nil
	}
	count, err := strconv.ParseUint(text, 10, 31)
	if err == nil && count > uint64(len(b.c.Environ)) {
		err = fmt.Errorf("there are no %d settings", count)
	}
	if err != nil {
		return nil, badVariable(name, err)
	}
	environ := map[string]string{}
	for _, entry := range b.c.Environ {
		if key, value, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(key, "GIT_CONFIG_") {
			environ[key] = value
		}
	}
	for i := range count {
		variable := fmt.Sprintf("GIT_CONFIG_KEY_%d", i)
		key, err := keyOf(environ[variable])
		if err != nil {
			return nil, badVariable(variable, err)
		}
		list = append(list, setting{"$" + variable, key, environ[fmt.Sprintf("GIT_CONFIG_VALUE_%d", i)]})
	}
	return list, nil
}

// quotedSettings are those of GIT_CONFIG_PARAMETERS, by which git hands on its
// options -c: 'key'='value' or, from before 2.31, 'key=value', with blanks between
// them.
func (b *builder) quotedSettings() (list []setting, err error) {
	const name = "GIT_CONFIG_PARAMETERS"
	rest := getenv(b.c.Environ, name)
	for rest != "" && err == nil {
		var key, value string
		key, rest, err = unquote(rest)
		isNew := strings.HasPrefix(rest, "=")
		switch {
		case err != nil:
		case isNew && len(rest) > 1 && rest[1] == '\'':
			value, rest, err = unquote(rest[1:])
		case isNew:
			rest = rest[1:] // it is true
		default:
			key, value, _ = strings.Cut(key, "=")
			key = strings.TrimSpace(key)
		}
		if err == nil && rest != "" && !strings.ContainsRune(blanks, rune(rest[0])) {
			err = errors.New("it is not quoted as git does")
		}
		if err == nil {
			key, err = keyOf(key)
		}
		list = append(list, setting{"$" + name, key, value})
		rest = strings.TrimLeft(rest, blanks)
	}
	if err != nil {
		return nil, badVariable(name, err)
	}
	return list, nil
}

const blanks = " \t\n\v\f\r"

// unquote takes one quoted word off a text. Between two parts in quotes there
// may be one escaped quote or exclamation mark.
func unquote(text string) (word, rest string, err error) {
	rest, ok := strings.CutPrefix(text, "'")
	for ok {
		var part string
		if part, rest, ok = strings.Cut(rest, "'"); !ok {
			break
		}
		word += part
		if len(rest) < 3 || rest[0] != '\\' || rest[1] != '\'' && rest[1] != '!' || rest[2] != '\'' {
			return word, rest, nil
		}
		word, rest = word+rest[1:2], rest[3:]
	}
	return "", "", errors.New("it is not quoted as git does")
}

// keyOf is the name of a setting as files have it: section and name in lower case.
func keyOf(name string) (string, error) {
	first, last := strings.IndexByte(name, '.'), strings.LastIndexByte(name, '.')
	if first <= 0 || last == len(name)-1 {
		return "", fmt.Errorf("%q is no setting's name", clip(name))
	}
	return strings.ToLower(name[:first]) + name[first:last] + strings.ToLower(name[last:]), nil
}
