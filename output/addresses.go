package output

import "strings"

// bot is rule 5: the id of a bot, a colon, its token. The id stays.
func (m *matcher) bot(i, j int) (span, verdict) {
	s := m.s
	digits := strings.TrimPrefix(s[i:j], "bot")
	if len(digits) < 8 || len(digits) > 16 || strings.Trim(digits, "0123456789") != "" {
		return span{}, no
	}
	end := m.while(j+1, isWord)
	if end == len(s) && !m.final {
		return span{}, secret
	}
	body := s[j+1 : end]
	// Digests come after numbers, too, but in lower case.
	if len(body) < 30 || strings.ToLower(body) == body {
		return span{}, no
	}
	return span{start: j + 1, end: end, mask: "***"}, yes
}

// dsn is rule 7: scheme://user:password@host. s[i:j] is the scheme, without
// the "+driver" that may follow.
func (m *matcher) dsn(i, j int) (span, verdict) {
	s := m.s
	if !dsnScheme(s[i:j]) {
		return span{}, no
	}
	p := j
	if s[p] == '+' {
		p = m.while(p+1, func(c byte) bool { return word[c] || c == '+' })
		if p-j > 32 {
			return span{}, no
		}
	}
	if rest := s[p:]; !strings.HasPrefix(rest, "://") {
		if len(rest) < 3 && strings.HasPrefix("://", rest) {
			return span{}, m.open(more)
		}
		return span{}, no
	}
	stop := func(c byte) bool {
		return c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '\\'
	}
	start, slash, at := -1, -1, -1
	p += len("://")
	limit := min(len(s), p+dsnPeek)
	e := p
	for ; e < limit && !stop(s[e]); e++ {
		switch c := s[e]; {
		case start < 0 && c == ':':
			start = e + 1
		case start < 0 && (c == '/' || c == '@'), e == start && c == '/': // no password, another scheme
			return span{}, no
		case c == '@' && (slash < 0 || at < 0): // the last of the authority, else the first
			at = e
		case slash < 0 && (c == '/' || c == '?' || c == '#'):
			slash = e
		}
	}
	if e == len(s) && !m.final {
		return span{}, secret
	}
	if start < 0 || at <= start {
		return span{}, no
	}
	pw := s[start:at]
	if placeholder(pw) || strings.HasPrefix(pw, "*") {
		return span{}, no
	}
	return span{start: start, end: at, mask: "***"}, yes
}

// phone is rule 10, for numbers in prose: after a blank that follows a word or
// the end of a clause, not in code, data or at the start of a line, where a
// diff has its plus.
func (m *matcher) phone(i int) (span, verdict) {
	s := m.s
	if i == 0 {
		return span{}, no
	}
	p := i - 1
	switch s[p] {
	case ' ', '\t', '(':
	case ':':
		if p < 3 || !strings.EqualFold(s[p-3:p], "tel") {
			return span{}, no
		}
	default:
		return span{}, no
	}
	for n := 0; p > 0 && n < 16 && (s[p] == ' ' || s[p] == '\t' || s[p] == '('); n++ {
		p--
	}
	if c := s[p]; !(c|0x20 >= 'a' && c|0x20 <= 'z' || c == ':' || c == '.' || c == ',' || c == ';' || c == '!' || c == '?') {
		return span{}, no
	}
	end := i + 1
	for end < len(s) && end < i+18 && s[end] >= '0' && s[end] <= '9' {
		end++
	}
	if end >= len(s)-1 && !m.final {
		return span{}, more
	}
	if n := end - i - 1; n < 10 || n > 15 || s[i+1] == '0' {
		return span{}, no
	}
	if end < len(s) {
		switch c := s[end]; c {
		case ' ', '\t', '\n', '\r', ',', ';', ')', '!', '?':
		case '.':
			if end+1 < len(s) && word[s[end+1]] {
				return span{}, no
			}
		default:
			return span{}, no
		}
	}
	return span{anchor: i, start: i, end: end, mask: s[i:i+4] + "****" + s[end-4:end]}, yes
}
