package pdftext

import (
	"bytes"
	"strconv"
)

// An object is nil, bool, float64, text, name, array, dict or ref.
type (
	object any
	name   string
	text   string // the bytes of a string, as they are
	array  []object
	dict   map[name]object
	ref    int     // an object's number
	word   string  // an operator, or what else stands there
	ending [1]byte // a closing bracket, as it comes
)

const (
	maxNesting = 64
	maxItems   = 1 << 20 // of one array or dictionary
)

// lexer reads objects from bytes.
type lexer struct {
	b   []byte
	pos int
	// operators says that this is a page's content, where "1 0 R" is no
	// reference.
	operators bool
	// work, if not nil, is what may still be spent; see maxWork.
	work *int
}

func isSpace(c byte) bool {
	return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\f' || c == 0
}

func isDelimiter(c byte) bool { return bytes.IndexByte([]byte("()<>[]{}/%"), c) >= 0 }

func (l *lexer) skipSpace() {
	for l.pos < len(l.b) {
		c := l.b[l.pos]
		if c == '%' {
			for l.pos < len(l.b) && l.b[l.pos] != '\n' && l.b[l.pos] != '\r' {
				l.pos++
			}
		} else if !isSpace(c) {
			return
		} else {
			l.pos++
		}
	}
}

// next reads one object; ok is false at the end. Brackets that close nothing
// come as an ending, so that every call gets further.
func (l *lexer) next(depth int) (o object, ok bool) {
	if l.work != nil {
		if *l.work <= 0 {
			return nil, false
		}
		*l.work -= objectWork
		if depth == 0 {
			start := l.pos
			defer func() { *l.work -= l.pos - start }()
		}
	}
	l.skipSpace()
	if l.pos >= len(l.b) {
		return nil, false
	}
	switch c := l.b[l.pos]; c {
	case '/':
		l.pos++
		return l.name(), true
	case '(':
		return l.literal(), true
	case '[':
		l.pos++
		return l.array(depth), true
	case '<':
		if l.pos+1 < len(l.b) && l.b[l.pos+1] == '<' {
			l.pos += 2
			return l.dict(depth), true
		}
		return l.hex(), true
	case '>':
		l.pos++
		if l.pos < len(l.b) && l.b[l.pos] == '>' {
			l.pos++
		}
		return ending{'>'}, true
	case ']', ')', '{', '}':
		l.pos++
		return ending{c}, true
	}
	from := l.pos
	for l.pos < len(l.b) && !isSpace(l.b[l.pos]) && !isDelimiter(l.b[l.pos]) {
		l.pos++
	}
	return l.plain(string(l.b[from:l.pos])), true
}

// plain is a number, a reference or a word.
func (l *lexer) plain(s string) object {
	switch s {
	case "true":
		return true
	case "false":
		return false
	case "null":
		return nil
	}
	if c := s[0]; c != '+' && c != '-' && c != '.' && (c < '0' || c > '9') || len(s) > 64 {
		return word(s)
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n > 1e15 || n < -1e15 {
		return word(s)
	}
	if !l.operators && n >= 0 && n < 1e8 && n == float64(int(n)) && s[0] >= '0' && s[0] <= '9' {
		if after, ok := l.reference(); ok {
			l.pos = after
			return ref(n)
		}
	}
	return n
}

// reference looks for " 0 R" behind a number.
func (l *lexer) reference() (after int, ok bool) {
	p, b := l.pos, l.b
	space := func() bool {
		start := p
		for p < len(b) && isSpace(b[p]) && p-start < 16 {
			p++
		}
		return p > start
	}
	if !space() {
		return 0, false
	}
	start := p
	for p < len(b) && b[p] >= '0' && b[p] <= '9' && p-start < 6 {
		p++
	}
	if p == start || !space() || p >= len(b) || b[p] != 'R' || p+1 < len(b) && !isSpace(b[p+1]) && !isDelimiter(b[p+1]) {
		return 0, false
	}
	return p + 1, true
}

func (l *lexer) name() name {
	var out []byte
	for ; l.pos < len(l.b) && !isSpace(l.b[l.pos]) && !isDelimiter(l.b[l.pos]) && len(out) < 256; l.pos++ {
		c := l.b[l.pos]
		if c == '#' && l.pos+2 < len(l.b) {
			if n, err := strconv.ParseUint(string(l.b[l.pos+1:l.pos+3]), 16, 8); err == nil {
				c = byte(n)
				l.pos += 2
			}
		}
		out = append(out, c)
	}
	return name(out)
}

// literal is a string in parentheses.
func (l *lexer) literal() text {
	var out []byte
	depth := 0
	for l.pos < len(l.b) {
		c := l.b[l.pos]
		l.pos++
		switch c {
		case '(':
			if depth++; depth == 1 {
				continue
			}
		case ')':
			if depth--; depth == 0 {
				return text(out)
			}
		case '\\':
			if l.pos >= len(l.b) {
				return text(out)
			}
			c = l.b[l.pos]
			l.pos++
			switch c {
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case '\r':
				if l.pos < len(l.b) && l.b[l.pos] == '\n' {
					l.pos++
				}
				continue
			case '\n':
				continue
			case '0', '1', '2', '3', '4', '5', '6', '7':
				n := int(c - '0')
				for i := 0; i < 2 && l.pos < len(l.b) && l.b[l.pos] >= '0' && l.b[l.pos] <= '7'; i++ {
					n = n*8 + int(l.b[l.pos]-'0')
					l.pos++
				}
				c = byte(n)
			}
		}
		out = append(out, c)
	}
	return text(out)
}

func (l *lexer) hex() text {
	var out []byte
	half, n := false, byte(0)
	for l.pos++; l.pos < len(l.b) && l.b[l.pos] != '>'; l.pos++ {
		d := digit(l.b[l.pos])
		if d < 0 {
			continue
		}
		if n = n<<4 | byte(d); half {
			out = append(out, n)
			n = 0
		}
		half = !half
	}
	l.pos = min(l.pos+1, len(l.b))
	if half {
		out = append(out, n<<4)
	}
	return text(out)
}

func digit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (l *lexer) array(depth int) array {
	var out array
	for len(out) < maxItems && depth < maxNesting {
		o, ok := l.next(depth + 1)
		if _, end := o.(ending); end || !ok {
			break
		}
		if w, bad := o.(word); bad && !l.operators && (w == "endobj" || w == "obj") { // its end is missing
			break
		}
		out = append(out, o)
	}
	return out
}

func (l *lexer) dict(depth int) dict {
	out := dict{}
	for len(out) < maxItems && depth < maxNesting {
		k, ok := l.next(depth + 1)
		if _, end := k.(ending); end || !ok {
			break
		}
		if w, bad := k.(word); bad && (w == "endobj" || w == "stream") {
			break
		}
		key, isName := k.(name)
		if !isName {
			continue
		}
		v, ok := l.next(depth + 1)
		if _, end := v.(ending); end || !ok {
			break
		}
		out[key] = v
	}
	return out
}
