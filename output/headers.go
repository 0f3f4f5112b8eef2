package output

import "strings"

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
	if len(tok) < 6 || placeholder(tok) || len(tok) < 16 && lettersOnly(strings.TrimRight(tok, "=")) {
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
