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
