package output

import "strings"

// pem is rule 6: a private key from its first line to its last, also when the
// line ends are written as \n, and also when the last line is missing. i is at
// the dashes.
func (m *matcher) pem(i int) (span, verdict) {
	const begin, end = "-----BEGIN", "-----END"
	s := m.s
	e, ok := m.label(i + len(begin))
	if !ok {
		if e == len(s) {
			return span{}, m.open(secret)
		}
		return span{}, no
	}
	// The body: words of base64, between blanks, line ends, quotes and the
	// header lines of some keys. last is where it ends as far as is known.
	first, last, tail := e, e, false
	for e < len(s) {
		if c := s[e]; c <= ' ' || c == '"' || c == '\'' || c == ',' || c == '>' || c == '|' {
			e++
			continue
		} else if c == '\\' {
			e = min(e+2, len(s))
			continue
		}
		rest := s[e:]
		if strings.HasPrefix(rest, end) {
			if e, ok = m.label(e + len(end)); !ok && e == len(s) && !m.final {
				return span{}, secret
			}
			return span{start: i, end: e, mask: "[REDACTED PRIVATE KEY]"}, yes
		}
		if len(rest) < len(end) && strings.HasPrefix(end, rest) {
			if !m.final {
				return span{}, secret
			}
			break
		}
		if n := armorHeader(rest); n > 0 {
			e += n
			continue
		}
		w := m.while(e, isBase64)
		if w == len(s) && !m.final {
			return span{}, secret
		}
		if w-e >= 20 || w > e && (w == len(s) || m.endsPEM(w)) {
			e, last = w, w
			continue
		}
		if w > e && last > first && !tail && (s[w] == '\n' || s[w] == '\r' || s[w] == '\\') {
			e, last, tail = w, w, true // the last line of a body is short
			continue
		}
		if w > e && len(s)-w < 160 && !m.final {
			return span{}, secret
		}
		break
	}
	if e == len(s) && !m.final {
		return span{}, secret
	}
	if last == first { // a first line and no body is no key
		return span{}, no
	}
	return span{start: i, end: last, mask: "[REDACTED PRIVATE KEY]"}, yes
}

// label reads "… PRIVATE KEY…-----" and returns where it ends; if it is none,
// where that was clear.
func (m *matcher) label(i int) (int, bool) {
	const dashes = "-----"
	e := i
	for e < len(m.s) && e < i+64 && (m.s[e] == ' ' || m.s[e] >= 'A' && m.s[e] <= 'Z') {
		e++
	}
	rest := m.s[e:]
	if len(rest) < len(dashes) && strings.HasPrefix(dashes, rest) {
		return len(m.s), false
	}
	if !strings.HasPrefix(rest, dashes) || !strings.Contains(m.s[i:e], "PRIVATE KEY") {
		return e, false
	}
	return e + len(dashes), true
}

// armorHeader returns the length of a header line at the start of s, else 0.
func armorHeader(s string) int {
	s = s[:min(len(s), 100)]
	n := strings.IndexByte(s, '\n')
	if n < 0 {
		return 0
	}
	for _, h := range [...]string{"Proc-Type:", "DEK-Info:", "Version:", "Comment:"} {
		if strings.HasPrefix(s, h) {
			return n
		}
	}
	return 0
}

// endsPEM says whether only blanks, quotes and line ends are between i and the
// last line of a key.
func (m *matcher) endsPEM(i int) bool {
	for n := 0; n < 64 && i < len(m.s); n++ {
		switch c := m.s[i]; {
		case c <= ' ' || c == '"' || c == '\'' || c == ',':
			i++
		case c == '\\':
			i = min(i+2, len(m.s))
		default:
			return strings.HasPrefix(m.s[i:], "-----END")
		}
	}
	return false
}
