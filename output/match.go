package output

import "strings"

// How far a rule looks ahead before it decides: into a value, a token, a
// connection string.
const (
	peek       = 512
	vendorPeek = 64
	dsnPeek    = 256
)

// matcher applies the rules at one place after the other.
type matcher struct {
	s     string
	final bool
}

// open answers for a rule that came to the end of the text while it still
// could have matched.
func (m *matcher) open(v verdict) verdict {
	if m.final {
		return no
	}
	return v
}

// run tries all rules on the word s[i:j] and appends what they find.
func (m *matcher) run(spans []span, i, j int) ([]span, verdict) {
	s := m.s
	start := i
	if i > 0 && s[i-1] == '\\' && j-i > 1 && (s[i] == 'n' || s[i] == 'r' || s[i] == 't') {
		start++ // the n of a "\n" in a quoted text is not part of the word
	}
	bound := start > i || i == 0 || !word[s[i-1]]

	if bound {
		if sp, v := m.vendor(start); v != no {
			return m.answer(spans, sp, v, i)
		}
		if strings.HasPrefix(s[start:], "eyJ") {
			if sp, v := m.jwt(start, j); v != no {
				return m.answer(spans, sp, v, i)
			}
		}
	}
	if j == len(s) {
		// At the end of a text that goes on, a word is not known yet. At the
		// end of all there is nothing after it to be a secret.
		return spans, m.open(more)
	}

	var sp span
	v := no
	lineStart := i == 0 || s[i-1] == '\n' || s[i-1] == '\r'
	switch c := s[j]; c {
	case '=', ' ', '\t':
		if c != '=' && strings.EqualFold(s[start:j], "bearer") {
			sp, v = m.bearer(start, j)
		} else if c == ' ' && strings.HasSuffix(s[start:j], "-----BEGIN") {
			sp, v = m.pem(j - len("-----BEGIN"))
		} else if last := s[j-1]; last >= 'A' && last <= 'Z' || last >= '0' && last <= '9' || last == '_' {
			sp, v = m.assign(start, j)
		}
	case ':':
		sp, v = m.colon(start, j)
	case '+':
		sp, v = m.dsn(start, j)
	case '"', '\'', '\\':
		if i > 0 && (s[i-1] == '"' || s[i-1] == '\'') {
			sp, v = m.field(start, j)
		}
	}
	if v != no {
		return m.answer(spans, sp, v, i)
	}
	if lineStart && (s[j] == '=' || s[j] == '%' || s[j] == '.' || s[j] == '[') {
		return m.form(spans, i)
	}
	return spans, no
}

func (m *matcher) answer(spans []span, sp span, v verdict, anchor int) ([]span, verdict) {
	if v == yes {
		sp.anchor = anchor
		spans = append(spans, sp)
	}
	return spans, v
}

// while returns where the stretch of bytes in class, from i on, ends.
func (m *matcher) while(i int, class func(byte) bool) int { return m.upTo(i, class, len(m.s)) }

// upTo is while for at most n bytes.
func (m *matcher) upTo(i int, class func(byte) bool, n int) int {
	for n += i; i < len(m.s) && i < n && class(m.s[i]); {
		i++
	}
	return i
}

// spaces returns the first place from i on without a blank; a rule does not
// look past sixteen.
func (m *matcher) spaces(i int) int {
	for n := 0; n < 16 && i < len(m.s) && (m.s[i] == ' ' || m.s[i] == '\t'); n++ {
		i++
	}
	return i
}

// vendor is rule 1: tokens that tell by a prefix whose they are.
func (m *matcher) vendor(i int) (span, verdict) {
	s := m.s[i:]
	for _, t := range vendors[s[0]] {
		if !strings.HasPrefix(s, t.prefix) {
			if !m.final && len(s) < len(t.prefix) && strings.HasPrefix(t.prefix, s) {
				return span{}, more
			}
			continue
		}
		body := i + len(t.prefix)
		end := m.upTo(body, t.class, vendorPeek)
		if end-body == vendorPeek && t.accepts(m.s[body:end]) {
			end = m.while(end, t.class)
		}
		if end == len(m.s) && !m.final {
			return span{}, secret
		}
		for end > body && m.s[end-1] == '.' {
			end--
		}
		if end < len(m.s) && word[m.s[end]] {
			continue // longer than this kind of token can be
		}
		if b := m.s[body:end]; t.accepts(b) && !filler(b) {
			return span{start: i, end: end, mask: mask(m.s[i:end])}, yes
		}
	}
	return span{}, no
}

// jwt is rule 8: two or three parts of base64 of which the first is a JSON
// object, or one that is a JOSE header. Base64 of other JSON is data.
func (m *matcher) jwt(i, j int) (span, verdict) {
	s := m.s
	end, parts := j, 1
	for parts < 3 && end < len(s) && s[end] == '.' {
		e := m.while(end+1, isFernet)
		if e == len(s) && !m.final {
			return span{}, secret
		}
		if e-end-1 < 4 {
			break
		}
		end, parts = e, parts+1
	}
	if end == len(s) && !m.final {
		return span{}, secret
	}
	head := s[i:j]
	if len(head) < 13 || parts == 1 && !strings.HasPrefix(head, "eyJhbGciOi") && !strings.HasPrefix(head, "eyJ0eXAiOi") &&
		!strings.HasPrefix(head, "eyJraWQiOi") && !strings.HasPrefix(head, "eyJrIjoi") {
		return span{}, no
	}
	return span{start: i, end: end, mask: mask(s[i:end])}, yes
}

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

func isBase64(c byte) bool {
	return c != '-' && c != '_' && word[c] || c == '+' || c == '/' || c == '='
}
