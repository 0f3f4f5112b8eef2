package policy

import (
	"path"
	"slices"
	"strings"
)

// shellWord is a word of a command with what it may be.
type shellWord struct {
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
)

const (
	maxWords  = 1000 // of a command
	maxNested = 4    // commands in words of commands
	// expansion stands in a word for what only the shell knows.
	expansion = "\x00"
)

// shellWords makes words of a command, as far as that can be done without the
// values of variables, and says what they are.
func shellWords(text string) []shellWord {
	p := &words{rest: text}
	p.command()
	return p.list
}

// words is a command that is being read.
type words struct {
	rest   string
	nested int
	list   []shellWord

	word    strings.Builder
	quoted  bool     // the word has quotes, and may be empty or a command of its own
	first   bool     // the next word is a program
	codes   string   // of an interpreter that was named: letters of options that take code
	options []string // and those that take a word; nil: any may
	running bool     // an interpreter was named, its script was not
	python  bool
	pending role // of the word after an option
}

func (p *words) command() {
	p.first = true
	for p.rest != "" && len(p.list) <= maxWords {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch c {
		case ' ', '\t':
			p.end()
		case '<', '>':
			p.end()
			p.pending = argument
		case ';', '|', '&', '(', ')', '\n':
			p.end()
			p.begin()
		case '\'':
			p.quoted = true
			var in string
			in, p.rest, _ = strings.Cut(p.rest, "'")
			p.word.WriteString(in)
		case '"':
			p.quoted = true
			p.double()
		default:
			p.plain(c)
		}
	}
	p.end()
}

// plain takes a character that ends no word.
func (p *words) plain(c byte) {
	switch c {
	case '\\':
		if p.rest != "" {
			p.word.WriteByte(p.rest[0])
			p.rest = p.rest[1:]
		}
	case '$':
		p.expand()
	case '`':
		in, rest, _ := strings.Cut(p.rest, "`")
		p.rest = rest
		p.inner(in)
		p.word.WriteString(expansion)
	default:
		p.word.WriteByte(c)
	}
}

func (p *words) double() {
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		if c == '"' {
			return
		}
		p.plain(c)
	}
}

// expand goes over what follows a dollar.
func (p *words) expand() {
	name := ""
	switch {
	case strings.HasPrefix(p.rest, "("):
		in, rest := p.rest[1:], ""
		for i, depth := 0, 1; i < len(in); i++ {
			switch in[i] {
			case '(':
				depth++
			case ')':
				depth--
			}
			if depth == 0 {
				in, rest = in[:i], in[i+1:]
				break
			}
		}
		p.rest = rest
		p.inner(in)
	case strings.HasPrefix(p.rest, "{"):
		name, p.rest, _ = strings.Cut(p.rest[1:], "}")
	default:
		n := 0
		for n < len(p.rest) && (isKey(p.rest[n]) && p.rest[n] != '-' || p.rest[n] == '_') {
			n++
		}
		if n == 0 && p.rest != "" {
			n = 1 // such as $@
		}
		name, p.rest = p.rest[:n], p.rest[n:]
	}
	switch {
	case name == "HOME" && p.word.Len() == 0:
		p.word.WriteByte('~')
	case name == "GIT_DIR":
		p.word.WriteString(".git")
	default:
		p.word.WriteString(expansion)
	}
}

// inner reads a command in the command.
func (p *words) inner(text string) {
	if p.nested < maxNested {
		in := &words{rest: text, nested: p.nested + 1}
		in.command()
		p.list = append(p.list, in.list...)
	}
}

// begin is the start of another command.
func (p *words) begin() {
	p.first, p.running, p.pending = true, false, argument
}

// end ends a word.
func (p *words) end() {
	text, quoted := p.word.String(), p.quoted
	p.word.Reset()
	p.quoted = false
	if text == "" {
		return
	}
	if quoted && strings.ContainsAny(text, " \t\n;|&()<>") {
		p.inner(text)
	}
	if name, value, ok := strings.Cut(text, "="); ok && value != "" { // a variable, or an option with its value
		p.list = append(p.list, shellWord{value, argument})
		if p.first && !strings.ContainsAny(name, "/.-") {
			return
		}
	}
	switch {
	case text[0] == '-' || text[0] == '+' && p.running:
		p.option(text)
		return
	case p.pending == module:
		p.pending = argument
		p.list = append(p.list, shellWord{text, module})
		return
	}
	w := shellWord{text, argument}
	switch {
	case p.first:
		w.role = program
		p.first = slices.Contains(strings.Fields(before), text)
	case p.running:
		if w.role = script; p.pending == optional {
			w.role = optional
		}
		p.running, p.pending = w.role == optional, argument
	}
	p.list = append(p.list, w)
	p.interpreter(text)
}

// before are words before a program's name.
const before = `! { if then elif else do while until exec command env time nice nohup sudo xargs builtin`

// option goes over an option, which of an interpreter may take a word.
func (p *words) option(text string) {
	if !p.running {
		return
	}
	letters, short := text[1:], len(text) > 1 && text[1] != '-'
	if i := strings.IndexByte(letters, 'm'); p.python && short && i >= 0 && strings.Trim(letters[:i], "bBdEhiIOPqsSuvVx") == "" {
		p.running = false
		if i+1 < len(letters) {
			p.list = append(p.list, shellWord{letters[i+1:], module})
		} else {
			p.pending = module
		}
		return
	}
	switch {
	case short && letters != "" && strings.IndexByte(p.codes, letters[len(letters)-1]) >= 0:
		p.running = false // what follows is code, or for it
	case p.options == nil || slices.Contains(p.options, text):
		p.pending = optional
	}
}

// interpreter notes that a word is one.
func (p *words) interpreter(text string) {
	name := strings.TrimRight(strings.TrimSuffix(strings.ToLower(path.Base(text)), ".exe"), "0123456789.")
	if text == "." {
		name = "source"
	}
	shell := []string{"-o", "+o", "-O", "+O", "--rcfile", "--init-file"}
	switch name {
	case "sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "source":
		p.codes, p.options = "c", shell
	case "python", "pypy", "pythonw", "py":
		p.codes, p.options = "c", []string{"-W", "-X", "--check-hash-based-pycs"}
	case "perl":
		p.codes, p.options = "eE", []string{"-I"}
	case "node", "nodejs", "bun", "deno", "tsx", "ts-node":
		p.codes, p.options = "ep", nil
	case "ruby", "lua", "luajit", "Rscript", "rscript", "osascript", "guile", "groovy":
		p.codes, p.options = "e", nil
	case "php":
		p.codes, p.options = "r", nil
	case "pwsh", "powershell", "tclsh", "expect", "java", "wine", "mono", "dotnet", "busybox":
		p.codes, p.options = "c", nil
	case "awk", "gawk", "mawk", "nawk", "sed", "jq":
		return // the first word is code; files of theirs exist or have a slash
	default:
		return
	}
	p.running, p.pending, p.python = true, argument, strings.HasPrefix(name, "py")
}
