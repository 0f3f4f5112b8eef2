package rpc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// maxDepth bounds how deeply objects and arrays may nest, in both directions:
// no more than a Python that stands in a few hundred frames can decode.
const maxDepth = 500

// A syntaxError says what is wrong with a text that should be JSON, and where.
type syntaxError struct {
	offset int
	what   string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.what, e.offset) }

func wrong(offset int, what string) error { return &syntaxError{offset, what} }

// The skip functions walk over strict JSON (RFC 8259 and, of RFC 7493, that no
// escape is half of a surrogate pair). They look at every byte once and copy
// nothing. They do not check that the text is UTF-8: utf8.Valid does that
// faster for the whole of it.

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns the index after the value that starts at b[i]. depth is
// how many containers are open around it.
func skipValue(b []byte, i, depth int) (int, error) {
	if i >= len(b) {
		return i, wrong(i, "unexpected end")
	}
	switch c := b[i]; {
	case c == '"':
		return skipString(b, i)
	case c == '{':
		return skipObject(b, i, depth+1, nil)
	case c == '[':
		return skipArray(b, i, depth+1)
	case c == '-' || '0' <= c && c <= '9':
		return skipNumber(b, i)
	case c == 't':
		return skipWord(b, i, "true")
	case c == 'f':
		return skipWord(b, i, "false")
	case c == 'n':
		return skipWord(b, i, "null")
	}
	return i, wrong(i, "unexpected character")
}

// skipObject walks over an object. member, unless nil, is told each member's
// raw key, quotes included, and raw value.
func skipObject(b []byte, i, depth int, member func(key, value []byte)) (int, error) {
	if depth > maxDepth {
		return i, wrong(i, "nested too deeply")
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return i, wrong(i, "expected a member name")
		}
		keyEnd, err := skipString(b, i)
		if err != nil {
			return keyEnd, err
		}
		key := b[i:keyEnd]
		if i = skipSpace(b, keyEnd); i >= len(b) || b[i] != ':' {
			return i, wrong(i, "expected ':'")
		}
		i = skipSpace(b, i+1)
		end, err := skipValue(b, i, depth)
		if err != nil {
			return end, err
		}
		if member != nil {
			member(key, b[i:end:end])
		}
		i = skipSpace(b, end)
		if i < len(b) && b[i] == '}' {
			return i + 1, nil
		}
		if i >= len(b) || b[i] != ',' {
			return i, wrong(i, "expected ',' or '}'")
		}
		i = skipSpace(b, i+1)
	}
}

func skipArray(b []byte, i, depth int) (int, error) {
	if depth > maxDepth {
		return i, wrong(i, "nested too deeply")
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return i + 1, nil
	}
	for {
		end, err := skipValue(b, i, depth)
		if err != nil {
			return end, err
		}
		i = skipSpace(b, end)
		if i < len(b) && b[i] == ']' {
			return i + 1, nil
		}
		if i >= len(b) || b[i] != ',' {
			return i, wrong(i, "expected ',' or ']'")
		}
		i = skipSpace(b, i+1)
	}
}

// skipString walks over a string, eight plain bytes at a time: a large result
// is mostly one string.
func skipString(b []byte, i int) (int, error) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	i++
	for {
		for len(b)-i >= 8 {
			x := binary.LittleEndian.Uint64(b[i:])
			quote, slash := x^(ones*'"'), x^(ones*'\\')
			// The lowest set bit marks the first byte that is a quote, a
			// backslash or below 0x20.
			found := ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & tops
			if found != 0 {
				i += bits.TrailingZeros64(found) / 8
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, wrong(i, "unexpected end in a string")
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\' && i+1 < len(b) && (b[i+1] == 'n' || b[i+1] == '"' || b[i+1] == '\\'):
			i += 2 // by far the most frequent
		case c == '\\':
			end, err := skipEscape(b, i)
			if err != nil {
				return end, err
			}
			i = end
		case c < 0x20:
			return i, wrong(i, "control character in a string")
		default:
			i++
		}
	}
}

func skipEscape(b []byte, i int) (int, error) {
	if i+1 >= len(b) {
		return i, wrong(i, "unexpected end in a string")
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, nil
	case 'u':
		unit, ok := hex4(b, i+2)
		if !ok {
			return i, wrong(i, "invalid \\u escape")
		}
		switch {
		case unit < 0xD800 || unit > 0xDFFF:
			return i + 6, nil
		case unit < 0xDC00 && i+7 < len(b) && b[i+6] == '\\' && b[i+7] == 'u':
			if low, ok := hex4(b, i+8); ok && 0xDC00 <= low && low <= 0xDFFF {
				return i + 12, nil
			}
		}
		return i, wrong(i, "lone surrogate (not representable in UTF-8)")
	}
	return i, wrong(i, "invalid escape")
}

func hex4(b []byte, i int) (unit rune, ok bool) {
	if i+4 > len(b) {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		unit = unit<<4 | rune(c)
	}
	return unit, true
}

func skipNumber(b []byte, i int) (int, error) {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	case i < len(b) && '1' <= b[i] && b[i] <= '9':
		i = skipDigits(b, i)
	default:
		return i, wrong(i, "invalid number")
	}
	if i < len(b) && b[i] == '.' {
		end := skipDigits(b, i+1)
		if end == i+1 {
			return i, wrong(i, "invalid number")
		}
		i = end
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		end := skipDigits(b, i)
		if end == i {
			return i, wrong(i, "invalid number")
		}
		i = end
	}
	return i, nil
}

func skipDigits(b []byte, i int) int {
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) (int, error) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, wrong(i, "unexpected character")
	}
	return i + len(word), nil
}
