package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// shellWord is a word of a command with what it may be.
type shellWord struct {
	dir  string // where it may be, "" for where the command starts
	text string
	// role says how sure it is that the word is a program's name.
	role role
}

type role int

const (
	argument role = iota
	// option's: it may belong to the option before it.
	optional
	script  // what an interpreter runs
	program // what the shell runs
	module  // of Python's
	// given is a setting, name=value, for one command of git's.
	given
)

const (
	maxCommand = 16 << 10 // bytes: the parser recurses for each bracket
	maxWords   = 1000     // of a command
	maxNested  = 4        // commands in words of commands
	// expansion stands in a word for what only the shell knows.
	expansion = "\x00"
)

// shellWords makes words of a command, as far as that can be done without the
// values of variables, and says what they are; false for what is too long.
func shellWords(text string) ([]shellWord, bool) {
	if len(text) > maxCommand {
		return nil, false
	}
	var w words
	w.read(text)
	return w.list, len(w.list) <= maxWords
}

// aliasWords are those of an alias that no shell reads, divided as git does.
func aliasWords(text string) ([]shellWord, bool) {
	if len(text) > maxCommand {
		return nil, false
	}
	var w words
	c := call{words: &w, git: true, alias: true}
	word, quote, any := []byte(nil), byte(0), false
	for i := 0; i < len(text); i++ {
		ch := text[i]
		switch {
		case quote == 0 && strings.IndexByte(blanks, ch) >= 0:
			if any {
				c.word(string(word))
			}
			word, any = word[:0], false
			continue
		case quote == 0 && (ch == '\'' || ch == '"'):
			quote, any = ch, true
			continue
		case ch == quote:
			quote = 0
			continue
		case ch == '\\' && quote != '\'':
			if i++; i == len(text) {
				return nil, true // git refuses it
			}
			ch = text[i]
		}
		word, any = append(word, ch), true
	}
	if any && quote == 0 {
		c.word(string(word))
	}
	return w.list, len(w.list) <= maxWords
}

// words are those of a command that is being read.
type words struct {
	nested int
	dir    string // where a command before went; "" for nowhere
	list   []shellWord
}

// add adds a word, also as what it names where a command before went: whether
// that ran, and its subshell is over, is not looked at.
func (w *words) add(text string, r role) {
	if text == "" || len(w.list) > maxWords {
		return
	}
	w.list = append(w.list, shellWord{"", text, r})
	if w.dir != "" && r != module && r != given && (r != program || strings.Contains(text, "/")) && !isRooted(text) {
		w.list = append(w.list, shellWord{w.dir, text, r})
	}
}

func isRooted(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "~") || strings.HasPrefix(text, expansion)
}

// enter notes that a command goes to a directory.
func (w *words) enter(dir string) {
	if w.dir != "" && !isRooted(dir) {
		dir = w.dir + "/" + dir
	}
	w.dir = dir
}

func (w *words) read(text string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil { // no shell would run it; what does is not known
		r := optional
		if w.nested > 0 {
			r = argument // it is some other code
		}
		for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()<>\"'`$", r) }) {
			w.add(word, r)
		}
		return
	}
	w.walk(file)
}

func (w *words) walk(node syntax.Node) {
	syntax.Walk(node, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			for _, a := range n.Assigns {
				w.walk(a)
			}
			w.call(n.Args)
			return false
		case *syntax.Redirect:
			if n.Hdoc != nil {
				w.inner(w.flat(n.Hdoc))
			}
		case *syntax.Word:
			w.add(w.flat(n), argument)
		}
		return len(w.list) <= maxWords
	})
}

// call reads a program with its arguments.
func (w *words) call(args []*syntax.Word) {
	c := call{words: w, first: true}
	var texts []string
	for _, arg := range args {
		texts = append(texts, w.flat(arg))
		c.word(texts[len(texts)-1])
		for _, part := range arg.Parts {
			w.walk(part)
		}
	}
	if n := len(texts); n > 1 && (texts[0] == "cd" || texts[0] == "pushd") && texts[n-1] != "-" {
		w.enter(texts[n-1])
	}
}

// flat is a word as one text. A quoted one can be a command of its own, which is
// read as well.
func (w *words) flat(word *syntax.Word) string {
	var b strings.Builder
	quoted := false
	var write func(parts []syntax.WordPart, escapes func(string) string)
	write = func(parts []syntax.WordPart, escapes func(string) string) {
		for _, part := range parts {
			switch p := part.(type) {
			case *syntax.Lit:
				b.WriteString(escapes(p.Value))
			case *syntax.SglQuoted:
				quoted = true
				b.WriteString(p.Value)
			case *syntax.DblQuoted:
				quoted = true
				write(p.Parts, quotedEscapes.Replace)
			case *syntax.ParamExp:
				b.WriteString(value(p, b.Len() == 0))
			default:
				b.WriteString(expansion)
			}
		}
	}
	write(word.Parts, func(text string) string { return escape.ReplaceAllString(text, "$1") })
	text := b.String()
	if quoted && strings.ContainsAny(text, parted) {
		w.inner(text)
	}
	return text
}

// parted is what a word has in it that is a command of several.
const parted = " \t\n;|&()<>"

// inner reads a command in the command.
func (w *words) inner(text string) {
	if w.nested < maxNested {
		w.nested++
		w.read(text)
		w.nested--
	}
}

var (
	escape        = regexp.MustCompile(`\\(.)`)
	quotedEscapes = strings.NewReplacer(`\\`, `\`, `\$`, `$`, "\\`", "`", `\"`, `"`)
)

// value is what a parameter stands for, where the same in every shell.
func value(p *syntax.ParamExp, first bool) string {
	switch {
	case p.Param == nil || p.Exp != nil:
	case p.Param.Value == "HOME" && first:
		return "~"
	case p.Param.Value == "GIT_DIR":
		return ".git"
	}
	return expansion
}

// call is a program that is being read, and its arguments.
type call struct {
	*words
	first   bool     // the next word is a program
	codes   string   // of an interpreter that was named: letters of options that take code
	options []string // and those that take a word; nil: any may
	running bool     // an interpreter was named, its script was not
	sure    bool     // it is one, and no other word: find . -name node
	python  bool
	shell   bool
	before  bool   // a program that starts another was named
	pending role   // of the word after an option
	code    bool   // that word is a command
	git     bool   // git was named
	verb    string // what it is to do
	alias   bool   // no shell has read it
}

func (c *call) word(text string) {
	if text == "" {
		return
	}
	if parts := strings.ContainsAny(text, parted); c.code && !parts || c.alias && parts && (c.code || c.first) {
		c.inner(text) // else it was read as a quoted one
	}
	if c.code {
		c.code = false
		c.add(text, argument)
		return
	}
	if c.git {
		c.gits(text)
		return
	}
	if name, value, ok := strings.Cut(text, "="); ok && value != "" { // a variable of env's, or an option with its value
		c.add(value, argument)
		if c.first && !strings.ContainsAny(name, "/.-") {
			return
		}
	}
	switch {
	case text[0] == '-' || text[0] == '+' && c.running:
		c.option(text)
		return
	case c.pending == module:
		c.pending = argument
		c.add(text, module)
		return
	}
	r := argument
	switch {
	case c.first:
		// Its options may have words: nice -n 5 tool.
		another := slices.Contains(strings.Fields(before), text)
		c.first = another || c.before && (text[0] >= '0' && text[0] <= '9' || c.pending == optional && !strings.Contains(text, "/"))
		c.before = c.before || another
		c.git = !c.first && path.Base(text) == "git"
		r, c.pending = program, argument
	case c.running:
		c.running = c.pending == optional
		if r = script; c.running || !c.sure {
			r = optional
		}
		c.pending = argument
	}
	c.add(text, r)
	c.interpreter(text, r == program)
}

// before are words before a program's name, and optionsBefore options of theirs
// that take a word.
const (
	before        = `exec command env time nice nohup sudo doas xargs builtin timeout stdbuf setsid ionice taskset`
	optionsBefore = `-n -u -g -s -k -d -a -c -f -o -e -i -C -D -E -I -L -P -S -U`
)

// gitCode are options of git's commands that take a command.
var gitCode = map[string]string{
	"rebase": "-x --exec", "difftool": "-x --extcmd",
	"filter-branch": "--setup --env-filter --tree-filter --index-filter --parent-filter --msg-filter --commit-filter --tag-name-filter",
}

// gits goes over a word for git.
func (c *call) gits(text string) {
	option, value, joined := strings.Cut(text, "=")
	takes := slices.Contains(strings.Fields(gitCode[c.verb]), option)
	switch {
	case c.pending == given:
		c.pending = argument
		c.add(text, given)
	case c.pending == optional: // where to go
		c.pending = argument
	case c.verb == "" && text == "-c":
		c.pending = given
	case c.verb == "" && text == "-C":
		c.pending = optional
	case takes && !joined:
		c.code = true
	case takes:
		c.code = true
		c.word(value)
	case text[0] == '-' && joined:
		c.add(value, argument)
	case text[0] == '-':
	case c.verb == "":
		c.verb = text
	case c.verb == "bisect" && text == "run", c.verb == "submodule" && text == "foreach":
		c.git, c.first = false, true
	default:
		c.add(text, argument)
	}
}

// option goes over an option, which of an interpreter may take a word.
func (c *call) option(text string) {
	if c.first && c.before && slices.Contains(strings.Fields(optionsBefore), text) {
		c.pending = optional
	}
	if !c.running {
		return
	}
	letters, short := text[1:], len(text) > 1 && text[1] != '-'
	if i := strings.IndexByte(letters, 'm'); c.python && short && i >= 0 && strings.Trim(letters[:i], "bBdEhiIOPqsSuvVx") == "" {
		c.running = false
		if i+1 < len(letters) {
			c.add(letters[i+1:], module)
		} else {
			c.pending = module
		}
		return
	}
	switch {
	case short && letters != "" && strings.IndexByte(c.codes, letters[len(letters)-1]) >= 0:
		c.running, c.code = false, c.shell // what follows is code, or for it
	case c.options == nil || slices.Contains(c.options, text):
		c.pending = optional
	}
}

// interpreter notes that a word, first says whether a program's, is one.
func (c *call) interpreter(text string, first bool) {
	name := strings.TrimRight(strings.TrimSuffix(strings.ToLower(path.Base(text)), ".exe"), "0123456789.")
	if text == "." {
		name = "source"
	}
	if name == "source" && !first {
		return
	}
	shell := []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "source":
		c.codes, c.options = "c", shell
	case "python", "pypy", "pythonw", "py":
		c.codes, c.options = "c", []string{"-W", "-X", "--check-hash-based-pycs"}
	case "perl":
		c.codes, c.options = "eE", []string{"-I"}
	case "node", "nodejs", "bun", "deno", "tsx", "ts-node":
		c.codes, c.options = "ep", nil
	case "ruby", "lua", "luajit", "Rscript", "rscript", "osascript", "guile", "groovy":
		c.codes, c.options = "e", nil
	case "php":
		c.codes, c.options = "r", nil
	case "pwsh", "powershell", "tclsh", "expect", "java", "wine", "mono", "dotnet", "busybox":
		c.codes, c.options = "c", nil
	case "awk", "gawk", "mawk", "nawk", "sed", "jq":
		return // the first word is code; files of theirs exist or have a slash
	default:
		return
	}
	c.running, c.sure, c.pending, c.python, c.shell = true, first, argument, strings.HasPrefix(name, "py"), slices.Equal(c.options, shell)
}
