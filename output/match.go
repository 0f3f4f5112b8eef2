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

// shortest is the length of the shortest token that is a secret by itself.
const shortest = 13

// boring says that no rule can match at the word s[i:j], as most words are: it
// is short, and what comes next belongs to no rule.
func (m *matcher) boring(i, j int) bool {
	if j-i >= shortest || j == len(m.s) {
		return false
	}
	switch m.s[j] {
	case '=', ':', '+', '"', '\'', '\\':
		return false
	case '.', '/', '%', '[':
		return !m.lineStart(i) && !m.longPrefix(i, j)
	case ' ', '\t':
		last := m.s[j-1]
		return last >= 'a' && last <= 'z' && (last != 'r' || j-i < len("bearer"))
	}
	return true
}

// longPrefix says that s[i:j] may be the first word of a vendor's prefix, or
// of a token, that goes on beyond its end: SG.…, 1//0…, fm2_…+….
func (m *matcher) longPrefix(i, j int) bool {
	switch m.s[j] {
	case '.':
		return j-i <= 4 && strings.IndexByte("Sdhxy", m.s[i]) >= 0
	case '/', '+':
		return m.s[i] == '1' || m.s[i] == 'f'
	}
	return false
}

func (m *matcher) lineStart(i int) bool {
	return i == 0 || m.s[i-1] == '\n' || m.s[i-1] == '\r'
}

// run tries all rules on the word s[i:j] and appends what they find.
func (m *matcher) run(spans []span, i, j int) ([]span, verdict) {
	s := m.s
	start := i
	if i > 0 && s[i-1] == '\\' && j-i > 1 && (s[i] == 'n' || s[i] == 'r' || s[i] == 't') {
		start++ // the n of a "\n" in a quoted text is not part of the word
	}
	bound := start > i || i == 0 || !word[s[i-1]]

	if bound && (j-start >= shortest || j == len(s) || m.longPrefix(start, j)) {
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
	if m.lineStart(i) && (s[j] == '=' || s[j] == '%' || s[j] == '.' || s[j] == '[') {
		return m.form(spans, i)
	}
	return spans, no
}

// colon tries the rules for a word before a colon: connection strings (7), bot
// tokens (5) and headers (4).
func (m *matcher) colon(i, j int) (span, verdict) {
	if sp, v := m.dsn(i, j); v != no {
		return sp, v
	}
	if sp, v := m.bot(i, j); v != no {
		return sp, v
	}
	return m.header(i, j)
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

func isBase64(c byte) bool {
	return c != '-' && c != '_' && word[c] || c == '+' || c == '/' || c == '='
}
