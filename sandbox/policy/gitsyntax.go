package policy

import "strings"

// gitText is a text of git's configuration that is being read.
type gitText struct {
	rest string
	end  bool
}

// next is the next character; the end is a line's end as well.
func (t *gitText) next() byte {
	if t.rest == "" {
		t.end = true
		return '\n'
	}
	if strings.HasPrefix(t.rest, "\r\n") {
		t.rest = t.rest[1:]
	}
	c := t.rest[0]
	t.rest = t.rest[1:]
	return c
}

// skipLine ends the line that c, just read, is in.
func (t *gitText) skipLine(c byte) {
	for c != '\n' {
		c = t.next()
	}
}

// parseGit reads a configuration as git does, and calls visit for each variable:
// section and name in lower case, a subsection as it is written between them.
// Where git gives up it goes on with the next line: what another program makes
// of such a file is not known.
func parseGit(text string, visit func(name, value string)) {
	t := &gitText{rest: strings.TrimPrefix(text, "\xef\xbb\xbf")}
	section := ""
	for !t.end {
		switch c := t.next(); {
		case c == '\n' || isBlank(c):
		case c == '[':
			section = t.section()
		case isLetter(c):
			t.variable(c, section, visit)
		default:
			t.skipLine(c)
		}
	}
}

func (t *gitText) section() string {
	var name strings.Builder
	c := t.next()
	for ; isKey(c) || c == '.'; c = t.next() {
		name.WriteByte(lower(c))
	}
	for isBlank(c) {
		c = t.next()
	}
	if c == '"' {
		name.WriteByte('.')
		for c = t.next(); c != '"' && c != '\n'; c = t.next() {
			if c == '\\' {
				c = t.next()
			}
			if c == '\n' {
				break
			}
			name.WriteByte(c)
		}
		if c == '"' {
			c = t.next()
		}
	}
	if c != ']' {
		t.skipLine(c)
	}
	return name.String()
}

func (t *gitText) variable(c byte, section string, visit func(name, value string)) {
	var name strings.Builder
	for ; isKey(c); c = t.next() {
		name.WriteByte(lower(c))
	}
	for c == ' ' || c == '\t' {
		c = t.next()
	}
	if c != '=' { // true, or no variable
		t.skipLine(c)
		return
	}
	key, _, _ := strings.Cut(section+"."+name.String(), "\x00") // git's strings end there
	value, _, _ := strings.Cut(t.value(), "\x00")
	visit(key, value)
}

// value is what follows the equals sign, without quotes, escapes and comments.
func (t *gitText) value() string {
	var value strings.Builder
	quoted, blanks := false, 0
	for {
		c := t.next()
		switch {
		case c == '\n':
			return value.String()
		case isBlank(c) && !quoted:
			if value.Len() > 0 {
				blanks++
			}
			continue
		case (c == ';' || c == '#') && !quoted:
			t.skipLine(c)
			return value.String()
		}
		for ; blanks > 0; blanks-- {
			value.WriteByte(' ')
		}
		switch c {
		case '"':
			quoted = !quoted
			continue
		case '\\':
			switch c = t.next(); c {
			case '\n':
				if t.end {
					return value.String()
				}
				continue
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'n':
				c = '\n'
			}
		}
		value.WriteByte(c)
	}
}

func isBlank(c byte) bool  { return c == ' ' || c == '\t' || c == '\r' }
func isLetter(c byte) bool { return lower(c) >= 'a' && lower(c) <= 'z' }
func isKey(c byte) bool    { return isLetter(c) || c >= '0' && c <= '9' || c == '-' }

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
