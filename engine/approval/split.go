package approval

import "strings"

// split is the second look at a text the parser does not understand: it cuts
// at every operator, removes quotes, and has each piece judged as a command.
// It sees too much rather than too little.
func (s *Script) split(src string, c context) {
	c.stdin, c.last, c.function = nil, false, true
	if strings.Contains(strings.Join(strings.Fields(src), ""), ":|:&") {
		s.forkBombs = append(s.forkBombs, ":()")
	}
	var (
		argv   []string
		word   strings.Builder
		inWord bool
		quote  byte
		write  bool // the next word is a redirection's target
	)
	endWord := func() {
		if !inWord {
			return
		}
		text := fold(word.String())
		word.Reset()
		inWord = false
		switch {
		case write:
			s.Writes = append(s.Writes, text)
		case len(argv) == 0 && (keyword(text) || assignment(text)):
		default:
			argv = append(argv, text)
		}
		write = false
	}
	endCommand := func() {
		endWord()
		s.command(argv, c)
		argv, write = nil, false
	}
	put := func(text string) { word.WriteString(text); inWord = true }
	for i := 0; i < len(src); i++ {
		ch := src[i]
		next := byte(0)
		if i+1 < len(src) {
			next = src[i+1]
		}
		switch {
		case quote == '\'' && ch != '\'':
			put(string(ch))
		case ch == '\\' && next != 0:
			if i++; next != '\n' {
				put(string(next))
			}
		case quote != 0 && ch == quote:
			quote = 0
		case quote == 0 && (ch == '\'' || ch == '"'):
			quote = ch
			inWord = true
		case ch == '`', ch == '$' && next == '(':
			endCommand()
		case quote != 0:
			put(string(ch))
		case ch == '$' && (strings.HasPrefix(src[i:], "$HOME") || strings.HasPrefix(src[i:], "${HOME}")):
			put(home)
			if i += len("HOME"); next == '{' {
				i += len("{}")
			}
		case ch == '$' && (strings.HasPrefix(src[i:], "${IFS}") || strings.HasPrefix(src[i:], "$IFS")):
			endWord()
			if i += len("IFS"); next == '{' {
				i += len("{}")
			}
		case ch == '$' && next != '\'' && next != '"':
			put(Unknown)
		case ch == '$':
		case ch == '~' && !inWord && (next == '/' || strings.IndexByte(" \t\n;|&", next) >= 0 || next == 0):
			put(home)
		case ch == ' ' || ch == '\t':
			endWord()
		case ch == '>' || ch == '<':
			endWord()
			write = ch == '>'
		case strings.IndexByte(";|&\n()", ch) >= 0:
			if ch == '|' && write && !inWord { // >|
				continue
			}
			endCommand()
		case ch == '#' && !inWord:
			for i+1 < len(src) && src[i+1] != '\n' {
				i++
			}
		default:
			put(string(ch))
		}
	}
	endCommand()
}

func keyword(word string) bool {
	switch word {
	case "if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "time", "coproc", "fi", "done", "esac":
		return true
	}
	return false
}

// assignment tells NAME=value.
func assignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	if !ok || name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	return strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}
