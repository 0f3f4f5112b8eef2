package policy

import (
	"path"
	"slices"
	"strings"
)

// call is a program that is being read, and its arguments.
type call struct {
	*words
	first   bool     // the next word is a program
	codes   string   // of an interpreter that was named: letters of options that take code
	options []string // and those that take a word; nil: any may
	running bool     // an interpreter was named, its script was not
	sure    bool     // it is one, and no other word: find . -name node
	python  bool     // that is one of Python's
	shell   bool     // its code is a command
	before  bool     // a program that starts another was named
	pending role     // of the word after an option
	code    bool     // that word is a command
	git     bool     // git was named
	verb    string   // what it is to do
	alias   bool     // no shell has read it
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
	shell := false
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "source":
		c.codes, c.options, shell = "c", []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}, true
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
	c.running, c.sure, c.pending, c.python, c.shell = true, first, argument, strings.HasPrefix(name, "py"), shell
}
