package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"unicode/utf8"
)

// Variable is one assignment of a .env file.
type Variable struct {
	Name, Value string
	File        string
	Line        int
}

// LoadDotEnv reads a .env file: NAME=value lines, with "export " before them,
// comments, single quotes (taken as they are but for \' and \\), double quotes
// (with \n \r \t \" \\ \$) and quoted values of several lines. Nothing is run
// and nothing expanded: ${X} stays what it is. A name that is assigned twice
// keeps its last value, at the place of the first. No file means no variables.
//
// Warnings name file and line, never what is in it: a line that is no
// assignment, a ${…}, and permissions that let others read the file. The error
// is for a file that cannot be read.
func LoadDotEnv(path string) (vars []Variable, warnings []string, err error) {
	data, mode, err := readBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("config: %w", err)
	}
	if runtime.GOOS != "windows" && mode&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s can be read by others (mode %04o); chmod 600 it", path, mode))
	}
	vars, problems := parseDotEnv(data)
	for i := range vars {
		vars[i].File = path
	}
	for _, p := range problems {
		warnings = append(warnings, fmt.Sprintf("%s:%d: %s", path, p.line, p.what))
	}
	return vars, warnings, nil
}

type problem struct {
	line int
	what string
}

// parseDotEnv reads line by line; a quoted value may go on for several.
func parseDotEnv(data []byte) (vars []Variable, problems []problem) {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	rest := strings.ReplaceAll(string(data), "\r\n", "\n")
	at := map[string]int{}
	for number := 1; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		lines := 1
		fail := func(what string) { problems = append(problems, problem{number, what}) }

		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if export, found := strings.CutPrefix(name, "export"); found && strings.TrimLeft(export, " \t") != export {
			name = strings.TrimSpace(export)
		}
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "" || trimmed[0] == '#':
		case !ok:
			fail("not an assignment; ignored")
		case !identifier(name):
			fail("the name before = is no name of a variable; ignored")
		default:
			text, raw, used, err := dotEnvValue(value, rest[len(line)-len(value):])
			lines = 1 + used
			switch {
			case err != nil:
				fail(err.Error())
				lines = 1
			case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
				fail("the value is not text (NUL or invalid UTF-8); ignored")
			default:
				if !raw && strings.Contains(text, "${") {
					fail("${…} is taken as it stands, not expanded")
				}
				v := Variable{Name: name, Value: text, Line: number}
				if i, twice := at[name]; twice {
					vars[i] = v
				} else {
					at[name] = len(vars)
					vars = append(vars, v)
				}
			}
			for range lines - 1 {
				_, after, _ = strings.Cut(after, "\n")
			}
		}
		rest, number = after, number+lines
	}
	return vars, problems
}

// dotEnvValue reads what stands after =. line is the rest of the line, all the
// rest of the file; raw tells a single-quoted value, used the further lines it took.
func dotEnvValue(line, all string) (value string, raw bool, used int, err error) {
	trimmed := strings.TrimLeft(line, " \t")
	if trimmed == "" || trimmed[0] != '"' && trimmed[0] != '\'' {
		if i := comment(line); i >= 0 {
			line = line[:i]
		}
		return strings.TrimSpace(line), false, 0, nil
	}
	quote := trimmed[0]
	all = all[len(line)-len(trimmed)+1:]
	var b strings.Builder
	for i := 0; i < len(all); i++ {
		switch c := all[i]; {
		case c == quote:
			tail, _, _ := strings.Cut(all[i+1:], "\n")
			if t := strings.TrimSpace(tail); t != "" && t[0] != '#' {
				return "", false, 0, errors.New("something follows the closing quote; ignored")
			}
			return b.String(), quote == '\'', used, nil
		case c == '\\' && i+1 < len(all):
			i++
			if b.WriteString(unescape(quote, all[i])); all[i] == '\n' {
				used++
			}
		default:
			if c == '\n' {
				used++
			}
			b.WriteByte(c)
		}
	}
	return "", false, 0, errors.New("a quote is not closed; the line is ignored")
}

// unescape is what a backslash and the byte after it stand for.
func unescape(quote, c byte) string {
	switch {
	case c == quote || c == '\\':
		return string(rune(c))
	case quote == '\'':
	case c == 'n':
		return "\n"
	case c == 'r':
		return "\r"
	case c == 't':
		return "\t"
	case c == '$':
		return "$"
	}
	return string([]byte{'\\', c})
}

// comment is where " #" begins in an unquoted value, -1 for nowhere.
func comment(line string) int {
	for i := range len(line) {
		if line[i] == '#' && (i == 0 || line[i-1] == ' ' || line[i-1] == '\t') {
			return i
		}
	}
	return -1
}

func identifier(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
