package policy

import (
	"regexp"
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
