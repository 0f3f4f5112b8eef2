package output

import "strings"

// vendor is rule 1: tokens that tell by a prefix whose they are.
func (m *matcher) vendor(i int) (span, verdict) {
	s := m.s[i:]
	for k := range vendors[s[0]] {
		t := &vendors[s[0]][k]
		if len(s) > 1 && s[1] != t.prefix[1] {
			continue
		}
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
