package policy

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"
)

// scripts are how names of scripts end.
const scripts = ".sh .bash .zsh .py .pl .rb .js .mjs .cjs .ts .lua .php .awk .sed .exe .cmd .bat .ps1 "

// guardCommand closes what a command of a setting runs in a working tree. What
// of it is a file is told by its place in the command, by its name, or by a file
// that is there. What is missing here may be there on another branch.
func (b *builder) guardCommand(guard string, s setting, root string) error {
	// Words of an alias are mostly git's: revisions and names of any file.
	alias := strings.HasPrefix(s.name, "alias.")
	command := s.value
	if rest, ok := strings.CutPrefix(s.name, "url."); ok {
		command = rest // what its value is replaced by
	}
	command = strings.TrimPrefix(strings.TrimPrefix(command, "!"), "ext::")
	words, err := b.commandWords(s, command)
	if err != nil {
		return err
	}
	if strings.ContainsAny(command, " \t") && strings.Contains(command, "/") && !alias {
		words = append(words, shellWord{"", command, argument}) // some take it as one name
	}
	if err := b.look(s.file, len(words)); err != nil {
		return err
	}
	for _, w := range words {
		if w.role == given {
			if err := b.guardGiven(guard, s, w.text, root); err != nil {
				return err
			}
			continue
		}
		for _, p := range b.programs(w, alias, root) {
			if err := b.guardNamed(guard, s, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardGiven closes what a setting names that a command of git's is given.
func (b *builder) guardGiven(guard string, s setting, text, root string) error {
	name, value, _ := strings.Cut(text, "=")
	key, err := keyOf(name)
	if err != nil {
		return nil // git fails
	}
	if s = (setting{s.file, key, value}); s.isOne(gitDirs()) || s.isCommand() {
		return b.guardSetting(guard, s, root)
	}
	return nil
}

// commandWords are the words of a setting's command.
func (b *builder) commandWords(s setting, command string) ([]shellWord, error) {
	read, key := shellWords, command
	if strings.HasPrefix(s.name, "alias.") && !strings.HasPrefix(s.value, "!") {
		read, key = aliasWords, "\x00"+command
	}
	if words, ok := b.git.commands[key]; ok {
		return words, nil
	}
	b.git.commandBytes += len(command)
	words, ok := read(command)
	switch {
	case !ok:
		return nil, &unread{s.file, errors.New(s.name + " is too long")}
	case b.git.commandBytes > maxCommands:
		return nil, &unread{s.file, errors.New("with it there are too many commands")}
	case b.git.commands == nil:
		b.git.commands = map[string][]shellWord{}
	}
	b.git.commands[key] = slices.Clip(words)
	return b.git.commands[key], nil
}

// programs are the files that a word of a command may name and that are to be
// closed.
func (b *builder) programs(w shellWord, alias bool, root string) (names []string) {
	text := known(w.text)
	if strings.Trim(text, "./") == "" || alias && w.role == argument {
		return nil
	}
	if w.role == module {
		return b.moduleFiles(text, root)
	}
	slash := strings.Contains(text, "/")
	named := strings.Contains(scripts, path.Ext(text)+" ") && path.Ext(text) != ""
	place := text
	if dir := known(w.dir); dir != "" {
		place = dir + "/" + text
	}
	for _, name := range b.pathsOf(place, root) {
		// A directory with something in it is none that is run; but an empty one may
		// be a reservation.
		there := b.links.exists(name) && !b.isFull(name)
		if w.role == script {
			names = append(names, b.mainFiles(name)...)
		}
		gone := !b.links.exists(name) && isPlain(text)
		switch {
		case w.role == program && slash: // may be put in place of anything
			names = append(names, name)
		case w.role == program:
			// It is looked for in PATH.
		case w.role == script && (there || gone),
			there && (named || slash || w.role == optional || isFile(name)),
			gone && (named || slash):
			names = append(names, name)
		}
	}
	return names
}

// known is what of a text is known; what is not is most often the root.
func known(text string) string {
	if i := strings.LastIndex(text, expansion); i >= 0 {
		return strings.TrimLeft(text[i+len(expansion):], "/")
	}
	return text
}

// moduleFiles are what python -m runs of the directory that it is started in: what
// is there. Most modules are installed, and their names in a working tree are free.
func (b *builder) moduleFiles(module, root string) (names []string) {
	dir := root + "/" + strings.ReplaceAll(module, ".", "/")
	if !isPlain(module) || strings.Contains(module, "/") {
		return nil
	}
	if b.links.exists(dir + ".py") {
		names = append(names, dir+".py")
	}
	if b.isFull(dir) {
		names = append(names, dir+"/__main__.py", dir+"/__init__.py")
	}
	return names
}

// mainFiles are what interpreters run of a directory, or of a name without its
// ending, that is there.
func (b *builder) mainFiles(name string) (names []string) {
	for _, end := range []string{"/__main__.py", "/index.js", "/index.mjs", "/index.cjs", "/package.json", ".js", ".mjs", ".cjs"} {
		if isFile(name + end) {
			names = append(names, name+end)
		}
	}
	return names
}

// isPlain tells whether a word can be the name of a program, and not a pattern, an
// address or an expression.
func isPlain(word string) bool {
	for _, c := range []byte(word) {
		if !isKey(c) && !strings.ContainsRune("./_+~@,", rune(c)) && c < 0x80 {
			return false
		}
	}
	expression := len(word) > 2 && (word[0] == 's' || word[0] == 'y') && word[1] == '/' && strings.Count(word, "/") > 2
	return !expression
}

func isFile(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}
