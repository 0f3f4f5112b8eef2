package output

import "strings"

// value is a quoted or bare value, as far as it was looked at.
type value struct {
	start, end int  // the text, without quotes
	quote      byte // 0: bare
	escaped    bool // the quotes are written \"
	whole      bool // the end was seen
}

// value reads the value at i. It looks no further than peek bytes.
func (m *matcher) value(i int) (value, verdict) {
	s := m.s
	v := value{start: i}
	if i < len(s) && s[i] == '\\' {
		v.escaped = true
		i++
	}
	if i >= len(s) {
		return v, m.open(secret)
	}
	if c := s[i]; c == '"' || c == '\'' || c == '`' {
		v.quote, v.start = c, i+1
	} else {
		v.escaped = false
	}
	return v, m.seek(&v, peek)
}

// seek finds the end of v, at most limit bytes from its start.
func (m *matcher) seek(v *value, limit int) verdict {
	s := m.s
	v.whole = true
	for e := v.start; e < len(s); e++ {
		v.end = e
		if e-v.start >= limit {
			v.whole = false
			return yes
		}
		c := s[e]
		switch {
		case c == '\n' || c == '\r' || v.quote == 0 && c <= ' ' || v.quote != 0 && c == v.quote && !v.escaped:
			return yes
		case v.quote == 0 && (c == '"' || c == '\'' || c == '`'):
			// The end of a text around it, unless the value goes on.
			if e+1 == len(s) && !m.final {
				return secret
			}
			if e+1 == len(s) || !word[s[e+1]] {
				return yes
			}
		case c == '\\':
			if e+1 == len(s) && !m.final {
				return secret
			}
			if e+1 == len(s) {
				break
			}
			n := s[e+1]
			if v.escaped && n == v.quote || v.quote == 0 && (n == 'n' || n == 'r' || n == 't' || n == '"' || n == '\'') {
				return yes
			}
			if v.quote != 0 && n != '\n' && n != '\r' {
				e++ // an escaped character, perhaps a quote
			}
		}
	}
	v.end = len(s)
	if !m.final {
		return secret
	}
	return yes
}

// finish makes the span of a value that was found to be a secret.
func (m *matcher) finish(v value) (span, verdict) {
	if !v.whole {
		if r := m.seek(&v, len(m.s)); r != yes {
			return span{}, r
		}
	}
	text := m.s[v.start:v.end]
	if v.quote == 0 {
		text = strings.TrimRight(text, `,;)]}>`)
	}
	return span{start: v.start, end: v.start + len(text), mask: mask(text)}, yes
}

// assign is rule 2: NAME=value, the name in capitals. s[i:j] is the word that
// ends the name.
func (m *matcher) assign(i, j int) (span, verdict) {
	s := m.s
	k := j
	for k > i && (s[k-1] == '_' || isUpperID(s[k-1])) {
		k--
	}
	p := m.spaces(j)
	if p == len(s) {
		return span{}, m.open(more)
	}
	if s[p] != '=' {
		return span{}, no
	}
	name := s[k:j]
	if !secretName(name) {
		return span{}, no
	}
	spaced := p > j
	p++
	if p < len(s) && (s[p] == '=' || s[p] == '~' || s[p] == '>') { // a comparison
		return span{}, no
	}
	q := m.spaces(p)
	spaced = spaced || q > p
	v, r := m.value(q)
	if r != yes {
		return span{}, r
	}
	if !secretAssigned(name, s[v.start:v.end], spaced, v.quote != 0) {
		return span{}, no
	}
	return m.finish(v)
}

// field is rule 3: "name": "value", in JSON, in Python's repr, and in JSON
// quoted in a string. s[i:j] is the name.
func (m *matcher) field(i, j int) (span, verdict) {
	s := m.s
	kind := fieldKind(s[i:j])
	if kind == plainField {
		return span{}, no
	}
	p := j
	if s[p] == '\\' {
		p++
	}
	if p == len(s) {
		return span{}, m.open(more)
	}
	if s[p] != s[i-1] {
		return span{}, no
	}
	p = m.spaces(p + 1)
	if p == len(s) {
		return span{}, m.open(more)
	}
	if s[p] != ':' {
		return span{}, no
	}
	v, r := m.value(m.spaces(p + 1))
	if r != yes {
		return span{}, r
	}
	if v.quote == 0 {
		return span{}, no
	}
	text := s[v.start:v.end]
	scheme := 0
	if kind == authField { // "Bearer …": the scheme stays
		if n := strings.IndexByte(text, ' '); n > 0 && n < 16 {
			scheme = n + 1
		}
	}
	if !secretInField(kind, text[scheme:]) {
		return span{}, no
	}
	sp, r := m.finish(v)
	if r == yes && scheme > 0 {
		sp.start += scheme
		sp.mask = mask(s[sp.start:sp.end])
	}
	return sp, r
}

// bearer is rule 4 without its header: a word, a blank and a token.
func (m *matcher) bearer(i, j int) (span, verdict) {
	start := m.spaces(j)
	end := m.while(start, isCredential)
	if end == len(m.s) && !m.final {
		return span{}, secret
	}
	tok := strings.TrimRight(m.s[start:end], ".")
	if len(tok) < 12 || placeholder(tok) || !random(tok) {
		return span{}, no
	}
	return span{start: start, end: start + len(tok), mask: mask(tok)}, yes
}

func isCredential(c byte) bool { return isBase64(c) || word[c] || c == '.' || c == '~' }

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

// header is rule 4: the credentials after a header's name, and those after its
// name alone where there is no scheme.
func (m *matcher) header(i, j int) (span, verdict) {
	s := m.s
	auth, ok := headerName(s[i:j])
	if !ok {
		return span{}, no
	}
	p := m.spaces(j + 1)
	if auth {
		e := m.while(p, isWord)
		if e == len(s) {
			return span{}, m.open(secret)
		}
		if e == p || s[e] != ' ' {
			return span{}, no
		}
		p = m.spaces(e)
	}
	end := m.while(p, isCredential)
	if end == len(s) && !m.final {
		return span{}, secret
	}
	tok := strings.TrimRight(s[p:end], ".")
	if len(tok) < 6 || placeholder(tok) || len(tok) < 16 && lettersOnly(tok) {
		return span{}, no
	}
	return span{start: p, end: p + len(tok), mask: mask(tok)}, yes
}

// headerName says whether a header of this name holds credentials, and whether
// they come after the name of a scheme.
func headerName(name string) (scheme, ok bool) {
	if c := name[0] | 0x20; c != 'a' && c != 'p' && c != 'x' || len(name) < 9 || len(name) > 20 {
		return false, false
	}
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization":
		return true, true
	case "x-api-key", "x-auth-token", "x-access-token", "x-goog-api-key", "x-amz-security-token", "private-token":
		return false, true
	}
	return false, false
}

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

// form is rule 9: a line that is nothing but name=value&name=value.
func (m *matcher) form(spans []span, i int) ([]span, verdict) {
	const longest = 8 << 10
	s, from, pairs := m.s, len(spans), 0
	if c := s[i]; c|0x20 < 'a' || c|0x20 > 'z' { // 10%... is progress
		return spans, no
	}
	p := i
	for {
		k := p
		for p < len(s) && p-k < 64 && (word[s[p]] || s[p] == '.' || s[p] == '%' || s[p] == '[' || s[p] == ']') {
			p++
		}
		if p == len(s) {
			return spans[:from], m.open(more)
		}
		if p == k || s[p] != '=' {
			return spans[:from], no
		}
		name := s[k:p]
		p++
		v := p
		for p < len(s) && s[p] > ' ' && s[p] != '&' && p-i < longest {
			p++
		}
		if p == len(s) && !m.final {
			return spans[:from], more
		}
		pairs++
		if formField(name) && p-v >= 4 && !placeholder(s[v:p]) {
			spans = append(spans, span{anchor: i, start: v, end: p, mask: mask(s[v:p])})
		}
		if p < len(s) && s[p] == '&' {
			p++
			continue
		}
		if pairs < 2 || p < len(s) && s[p] != '\n' && s[p] != '\r' {
			return spans[:from], no
		}
		return spans, no
	}
}
