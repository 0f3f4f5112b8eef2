package approval

import (
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxFields = 256     // of one word after brace expansion and splitting
	maxParts  = 1 << 18 // pieces of all words one word expands to
	maxWord   = 1 << 20 // bytes a word may grow to by what is in it
)

// fields are what the shell makes of a word: quotes removed, braces expanded,
// split where an unquoted expansion has blanks. What it cannot know is Unknown.
func (s *Script) fields(w *syntax.Word, c context) []string {
	if w == nil {
		return nil
	}
	var all []string
	for _, parts := range braces(w) {
		b := builder{s: s, c: c}
		for i, part := range parts {
			b.part(part, false, i == 0 && len(parts) == 1, i == 0)
		}
		b.end()
		all = append(all, b.done...)
	}
	return all[:min(len(all), maxFields)]
}

// flat is a word as one text.
func (s *Script) flat(w *syntax.Word, c context, quoted bool) string {
	if w == nil {
		return ""
	}
	b := builder{s: s, c: c}
	for i, part := range w.Parts {
		b.part(part, quoted, false, i == 0)
	}
	return b.current.String()
}

// builder makes the fields of one word.
type builder struct {
	s       *Script
	c       context
	done    []string
	current strings.Builder
	started bool // the current field exists, even if it is empty
}

func (b *builder) write(text string) {
	if b.current.Len()+len(text) <= maxWord {
		b.current.WriteString(text)
	}
	b.started = true
}

// end closes the current field.
func (b *builder) end() {
	if b.started {
		b.done = append(b.done, fold(b.current.String()))
	}
	b.current.Reset()
	b.started = false
}

// split writes the value of an unquoted expansion.
func (b *builder) split(value string) {
	for value != "" {
		at := strings.IndexAny(value, " \t\n")
		if at < 0 {
			b.write(value)
			return
		}
		if at > 0 {
			b.write(value[:at])
		}
		b.end()
		value = value[at+1:]
	}
}

func (b *builder) part(part syntax.WordPart, quoted, alone, first bool) {
	switch p := part.(type) {
	case *syntax.Lit:
		text := p.Value
		if !quoted && first {
			if rest, ok := strings.CutPrefix(text, "~"); ok && (rest == "" && alone || strings.HasPrefix(rest, "/")) {
				b.write(home)
				text = rest
			} else if user, rest, _ := strings.Cut(text, "/"); user == "~root" {
				b.write("/root/")
				text = rest
			}
		}
		b.write(unescape(clean(text), quoted))
	case *syntax.SglQuoted:
		if p.Dollar {
			b.write(clean(unescapeC(p.Value)))
		} else {
			b.write(clean(p.Value))
		}
	case *syntax.DblQuoted:
		b.started = true
		for _, inner := range p.Parts {
			b.part(inner, true, false, false)
		}
	case *syntax.ParamExp:
		value, known := b.param(p)
		switch {
		case !known:
			b.write(Unknown)
		case quoted:
			b.write(value)
		default:
			b.split(value)
		}
	case *syntax.CmdSubst:
		text := b.s.output(p.Stmts, b.c)
		switch {
		case text == nil:
			b.write(Unknown)
		case quoted:
			b.write(strings.TrimRight(*text, "\n"))
		default:
			b.split(strings.TrimRight(*text, "\n"))
		}
	case *syntax.ExtGlob:
		b.write("*")
	default:
		b.write(Unknown)
	}
}

// param is the value of a parameter that is the same in every shell.
func (b *builder) param(p *syntax.ParamExp) (value string, known bool) {
	if p.Param == nil || p.Excl || p.Length || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 {
		return "", false
	}
	switch name := p.Param.Value; name {
	case "HOME":
		if p.Exp != nil {
			switch p.Exp.Op {
			case syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull,
				syntax.AssignUnset, syntax.AssignUnsetOrNull:
			case syntax.RemSmallSuffix, syntax.RemLargeSuffix:
				if p.Exp.Word == nil || p.Exp.Word.Lit() != "/" {
					return "", false
				}
			default:
				return "", false
			}
		}
		return home, true
	case "IFS": // also ${IFS%??}: some blank of it
		return " ", true
	case "@", "*", "1", "2", "3", "4", "5", "6", "7", "8", "9":
		return "", !b.c.function && p.Exp == nil
	}
	return "", false
}

// clean removes what would be taken for a placeholder.
func clean(text string) string {
	if strings.Contains(text, home) {
		text = strings.ReplaceAll(text, home, "\x02")
	}
	return text
}

// unescape removes backslashes as the shell does, inside double quotes or not.
func unescape(text string, quoted bool) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			next := text[i+1]
			switch {
			case next == '\n':
				i++
				continue
			case !quoted || strings.IndexByte("$`\"\\", next) >= 0:
				i++
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// unescapeC decodes the escapes of $'…'. A NUL ends the text, as in bash.
func unescapeC(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		base, digits, r := 16, 0, rune(0)
		switch text[i] {
		case 'a', 'b', 'e', 'E', 'f', 'n', 'r', 't', 'v':
			b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v"[strings.IndexByte("abeEfnrtv", text[i])])
			continue
		case 'c':
			if i+1 < len(text) {
				i++
				b.WriteByte(text[i] & 0x1f)
			}
			continue
		case 'x':
			digits = 2
		case 'u':
			digits = 4
		case 'U':
			digits = 8
		case '0', '1', '2', '3', '4', '5', '6', '7':
			base, digits = 8, 3
			i--
		default: // \\ \' \" \?, and unknown ones without their backslash
			b.WriteByte(text[i])
			continue
		}
		long := text[i] == 'u' || text[i] == 'U'
		from := i + 1
		for i+1 < len(text) && i+1-from < digits {
			d := strings.IndexByte("0123456789abcdef", text[i+1]|0x20)
			if text[i+1] >= '0' && text[i+1] <= '9' {
				d = int(text[i+1] - '0')
			}
			if d < 0 || d >= base {
				break
			}
			r = r*rune(base) + rune(d)
			i++
		}
		switch {
		case r == 0:
			return b.String()
		case long && utf8.ValidRune(r):
			b.WriteRune(r)
		default:
			b.WriteByte(byte(r))
		}
	}
	return b.String()
}

// fold turns full-width forms into what they look like: no shell runs them as
// such, but whoever writes them means to slip past somebody.
func fold(text string) string {
	if !strings.ContainsRune(text, '\uff0f') && !strings.ContainsFunc(text, fullWidth) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if fullWidth(r) {
			return r - 0xfee0
		}
		return r
	}, text)
}

func fullWidth(r rune) bool { return r >= '\uff01' && r <= '\uff5e' }

// braces expands {a,b} to words, at most maxFields. Sequences such as {1..9}
// stay unknown.
func braces(w *syntax.Word) [][]syntax.WordPart {
	syntax.SplitBraces(w)
	words := [][]syntax.WordPart{nil}
	for _, part := range w.Parts {
		var alternatives [][]syntax.WordPart
		if b, ok := part.(*syntax.BraceExp); ok && !b.Sequence {
			for _, elem := range b.Elems {
				alternatives = append(alternatives, braces(elem)...)
			}
		} else {
			alternatives = [][]syntax.WordPart{{part}}
		}
		switch {
		case len(words)*len(alternatives) > maxFields, len(words)*len(words[0]) > maxParts:
			return [][]syntax.WordPart{{&syntax.BraceExp{}}} // unknown
		case len(alternatives) == 1:
			for i := range words {
				words[i] = append(words[i], alternatives[0]...)
			}
			continue
		}
		var next [][]syntax.WordPart
		for _, head := range words {
			for _, tail := range alternatives {
				next = append(next, append(append([]syntax.WordPart(nil), head...), tail...))
			}
		}
		words = next
	}
	return words
}

// joined is what echo prints and what eval runs.
func joined(args []string) string { return strings.Join(args, " ") }

// printf is what the command of this name prints, as far as %s, %b and %%.
func printf(format string, args []string) string {
	format = unescapeC(format)
	var b strings.Builder
	for {
		before := len(args)
		for i := 0; i < len(format); i++ {
			if format[i] != '%' || i+1 == len(format) {
				b.WriteByte(format[i])
				continue
			}
			i++
			switch format[i] {
			case '%':
				b.WriteByte('%')
			case 's', 'b', 'q':
				if len(args) > 0 {
					b.WriteString(args[0])
					args = args[1:]
				}
			default:
				b.WriteString(Unknown)
			}
		}
		// The format is used again while there are arguments left.
		if len(args) == 0 || len(args) == before || b.Len() > maxWord {
			return b.String()
		}
	}
}
