package walk

import (
	"fmt"
	"regexp/syntax"
	"strings"
)

// maxTranslation bounds what is handed to ripgrep as one argument.
const maxTranslation = 64 << 10

// rust returns the pattern in the syntax of Rust's regex crate, spelled out
// so that its different defaults (Unicode classes, line ends, case) do not
// matter: ripgrep finds exactly the lines that the pattern finds here. ok is
// false when there is no such spelling of reasonable size.
func (p *Pattern) rust() (text string, ok bool) {
	var b strings.Builder
	ok = writeRust(&b, p.tree)
	return b.String(), ok
}

func writeRust(b *strings.Builder, re *syntax.Regexp) bool {
	if b.Len() > maxTranslation {
		return false
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			rustRune(b, r)
		}
	case syntax.OpCharClass:
		b.WriteByte('[')
		for i := 0; i+1 < len(re.Rune); i += 2 {
			rustRune(b, re.Rune[i])
			if re.Rune[i] != re.Rune[i+1] {
				b.WriteByte('-')
				rustRune(b, re.Rune[i+1])
			}
		}
		b.WriteByte(']')
	case syntax.OpBeginLine:
		b.WriteString("(?m:^)")
	case syntax.OpEndLine:
		b.WriteString("(?m:$)")
	case syntax.OpWordBoundary:
		b.WriteString(`(?-u:\b)`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`(?-u:\B)`)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if !writeRust(b, sub) {
				return false
			}
		}
	case syntax.OpAlternate:
		b.WriteString("(?:")
		for i, sub := range re.Sub {
			if i > 0 {
				b.WriteByte('|')
			}
			if !writeRust(b, sub) {
				return false
			}
		}
		b.WriteByte(')')
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		b.WriteString("(?:")
		if !writeRust(b, re.Sub[0]) {
			return false
		}
		b.WriteByte(')')
		b.WriteString(repetition(re))
	default: // OpNoMatch has no spelling that every version takes
		return false
	}
	return b.Len() <= maxTranslation
}

func repetition(re *syntax.Regexp) string {
	switch {
	case re.Op == syntax.OpStar:
		return "*"
	case re.Op == syntax.OpPlus:
		return "+"
	case re.Op == syntax.OpQuest:
		return "?"
	case re.Max < 0:
		return fmt.Sprintf("{%d,}", re.Min)
	}
	return fmt.Sprintf("{%d,%d}", re.Min, re.Max)
}

// rustRune writes one character so that it means itself.
func rustRune(b *strings.Builder, r rune) {
	if isWord(byte(r)) && r < 0x80 {
		b.WriteRune(r)
		return
	}
	fmt.Fprintf(b, `\x{%X}`, r)
}
