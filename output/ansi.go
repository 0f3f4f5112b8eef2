package output

import (
	"strings"
	"unicode/utf8"
)

const esc = 0x1b

// StripANSI removes the control sequences of ECMA-48: CSI with private,
// colon-separated and intermediate bytes, OSC ended by BEL or ST, the strings
// DCS, SOS, PM and APC, two-byte and nF escapes, a lone ESC, and their 8-bit
// forms, which in UTF-8 are the code points U+0080 to U+009F. A control string
// without an end loses its introducer alone, so that nothing is hidden by a
// stray byte.
//
// The result is valid UTF-8 without ESC and C1: every byte that belongs to no
// valid sequence becomes U+FFFD (a terminal would not take a bare 0x9b for a
// CSI either). Tabs, carriage returns, backspaces and NUL are kept. StripANSI
// is idempotent and linear.
func StripANSI(s string) string {
	if isPlain(s) {
		return s
	}
	out, _ := strip(s)
	return out
}

// isPlain says that strip would change nothing.
func isPlain(s string) bool {
	if strings.IndexByte(s, esc) >= 0 || !utf8.ValidString(s) {
		return false
	}
	for rest := s; ; { // U+0080 to U+00BF begin with 0xC2
		i := strings.IndexByte(rest, 0xc2)
		if i < 0 {
			return true
		}
		if rest[i+1] < 0xa0 {
			return false
		}
		rest = rest[i+2:]
	}
}

// strip is StripANSI that also follows positions: for each of cuts, ascending
// offsets in s, it returns how much of the result comes from before the cut.
func strip(s string, cuts ...int) (string, []int) {
	at := make([]int, 0, len(cuts))
	if isPlain(s) {
		return s, append(at, cuts...)
	}
	var b strings.Builder
	b.Grow(len(s))
	noST := false // no string terminator ahead: keeps the scan linear
	for i := 0; i < len(s); {
		for len(at) < len(cuts) && cuts[len(at)] <= i {
			at = append(at, b.Len())
		}
		// A stretch of plain ASCII, up to the next cut at most.
		end := len(s)
		if len(at) < len(cuts) {
			end = min(end, cuts[len(at)])
		}
		j := i
		for j < end && s[j] != esc && s[j] < 0x80 {
			j++
		}
		if j > i {
			b.WriteString(s[i:j])
			i = j
			continue
		}
		if s[i] == esc {
			i = escape(s, i, &noST)
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString("\uFFFD")
			i++
		case r >= 0x80 && r < 0xa0:
			i = sequence(s, i+size, byte(r-0x40), &noST)
		default:
			b.WriteString(s[i : i+size])
			i += size
		}
	}
	for len(at) < len(cuts) {
		at = append(at, b.Len())
	}
	return b.String(), at
}

// escape returns where the sequence that begins with the ESC at i ends.
func escape(s string, i int, noST *bool) int {
	i++
	if i == len(s) {
		return i
	}
	switch c := s[i]; {
	case c >= 0x20 && c <= 0x2f: // nF: intermediates, then a final byte
		j := i
		for j < len(s) && s[j] >= 0x20 && s[j] <= 0x2f {
			j++
		}
		if j < len(s) && s[j] >= 0x30 && s[j] <= 0x7e {
			return j + 1
		}
		return i
	case c >= 0x30 && c <= 0x7e: // Fp, Fe, Fs
		return sequence(s, i+1, c, noST)
	}
	return i
}

// sequence returns where the sequence ends whose introducer, in its 7-bit
// form, was c and whose rest begins at i.
func sequence(s string, i int, c byte, noST *bool) int {
	switch c {
	case '[': // CSI
		j := i
		for j < len(s) && s[j] >= 0x30 && s[j] <= 0x3f {
			j++
		}
		for j < len(s) && s[j] >= 0x20 && s[j] <= 0x2f {
			j++
		}
		if j < len(s) && s[j] >= 0x40 && s[j] <= 0x7e {
			return j + 1
		}
	case ']': // OSC: BEL or ST, and no other ESC before it
		for j := i; j < len(s); j++ {
			switch {
			case s[j] == '\a':
				return j + 1
			case s[j] == esc && j+1 < len(s) && s[j+1] == '\\':
				return j + 2
			case s[j] == esc:
				return i
			case s[j] == 0xc2 && j+1 < len(s) && s[j+1] == 0x9c:
				return j + 2
			case s[j] == 0xc2 && j+1 < len(s) && s[j+1] == 0x9d: // another OSC
				return i
			}
		}
	case 'P', 'X', '^', '_': // DCS, SOS, PM, APC: up to ST
		if *noST {
			return i
		}
		for j := i; j+1 < len(s); j++ {
			if s[j] == esc && s[j+1] == '\\' || s[j] == 0xc2 && s[j+1] == 0x9c {
				return j + 2
			}
		}
		*noST = true
	}
	return i
}
