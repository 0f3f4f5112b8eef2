package registry

import "math/bits"

// AppendString appends s, which must be UTF-8, as a JSON string. It looks at eight
// bytes at a time and copies what needs no escape in one piece.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := special(s, 0); i < len(s); i = special(s, start) {
		dst = append(dst, s[start:i]...)
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		start = i + 1
	}
	return append(append(dst, s[start:]...), '"')
}

// special is the index of the next byte at or after i that a JSON string
// cannot hold as it is, len(s) if there is none.
func special(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		w := s[i : i+8] // the compiler makes one load of this
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		quote, slash := x^('"'*ones), x^('\\'*ones)
		// The lowest set top bit marks the first byte that is below 0x20 or has
		// become zero; bits above it may be borrows.
		if m := ((x-0x20*ones)&^x | (quote-ones)&^quote | (slash-ones)&^slash) & tops; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' {
			return i
		}
	}
	return i
}
