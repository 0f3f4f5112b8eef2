package tools

import "strings"

// parseExports reads what `export -p` prints, in bash (declare -x N="v"), in
// bash's POSIX mode (export -i N="v") and in other shells (export N='v'), up
// to a line that is the end mark. Arrays and variables without a value are skipped; anything
// else that is not exactly of this form makes it give up: values are never
// guessed.
func parseExports(text, end string) (map[string]string, bool) {
	exports := map[string]string{}
	for !strings.HasPrefix(text, end) {
		rest, declared := strings.CutPrefix(text, "declare ")
		if !declared {
			var ok bool
			if rest, ok = strings.CutPrefix(text, "export "); !ok {
				return nil, false
			}
		}
		flags := ""
		if strings.HasPrefix(rest, "-") {
			flags, rest, _ = strings.Cut(rest, " ")
		}
		if declared && !strings.Contains(flags, "x") {
			return nil, false
		}
		at := strings.IndexAny(rest, "=\n")
		if at < 0 || !variableName(rest[:at]) {
			return nil, false
		}
		name := rest[:at]
		if rest[at] == '\n' { // exported, but without a value
			text = rest[at+1:]
			continue
		}
		array := strings.ContainsAny(flags, "aA")
		value, rest, ok := shellValue(rest[at+1:], array)
		if !ok {
			return nil, false
		}
		if !array {
			exports[name] = value
		}
		text = rest
	}
	return exports, true
}

// shellValue reads a quoted word up to the end of its line. An array's value
// has blanks and brackets outside of quotes.
func shellValue(text string, array bool) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); {
		switch ch := text[i]; {
		case ch == '\n':
			return b.String(), text[i+1:], true
		case ch == '\'':
			n := strings.IndexByte(text[i+1:], '\'')
			if n < 0 {
				return "", "", false
			}
			b.WriteString(text[i+1 : i+1+n])
			i += n + 2
		case ch == '"':
			n := doubleQuoted(&b, text[i+1:])
			if n < 0 {
				return "", "", false
			}
			i += n + 1
		case ch == '$' && strings.HasPrefix(text[i+1:], "'"):
			n := ansiQuoted(&b, text[i+2:])
			if n < 0 {
				return "", "", false
			}
			i += n + 2
		case ch == '\\' && i+1 < len(text) && text[i+1] != '\n':
			b.WriteByte(text[i+1])
			i += 2
		case strings.IndexByte("\\$`;&|<>", ch) >= 0, !array && strings.IndexByte(" \t()", ch) >= 0:
			return "", "", false
		default:
			b.WriteByte(ch)
			i++
		}
	}
	return "", "", false
}

// doubleQuoted writes what stands before the closing quote and returns how
// much it read, the quote included; -1 if there is none.
func doubleQuoted(b *strings.Builder, text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '$', '`':
			return -1 // would be expanded: not printed by export -p
		case '\\':
			if i+1 < len(text) && strings.IndexByte("\"\\$`", text[i+1]) >= 0 {
				i++
			}
		}
		b.WriteByte(text[i])
	}
	return -1
}

// ansiQuoted is doubleQuoted for $'…', with the escapes that bash prints.
func ansiQuoted(b *strings.Builder, text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\'':
			return i + 1
		case '\\':
			if i++; i == len(text) {
				return -1
			}
			if at := strings.IndexByte("abeEfnrtv\\'\"", text[i]); at >= 0 {
				b.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\""[at])
				continue
			}
			if i+2 >= len(text) {
				return -1
			}
			n := 0
			for _, digit := range []byte(text[i : i+3]) {
				if digit < '0' || digit > '7' {
					return -1
				}
				n = n*8 + int(digit-'0')
			}
			if n == 0 || n > 255 {
				return -1
			}
			b.WriteByte(byte(n))
			i += 2
		default:
			b.WriteByte(text[i])
		}
	}
	return -1
}
