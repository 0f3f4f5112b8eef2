package output

import (
	"strings"
	"unicode/utf8"
)

// Redactor masks secrets by their form: vendor prefixes (sk-…, ghp_…, AKIA…),
// NAME=value of secret names in capitals, JSON fields, authorization headers,
// bot tokens, PEM private keys, passwords in connection strings, JSON web
// tokens, form bodies and telephone numbers.
//
// A masked value of fewer than 18 characters is "***", a longer one keeps its
// first six and last four. A private key becomes "[REDACTED PRIVATE KEY]".
// User and password in http addresses, and their queries, are left alone: a
// program that prints a link means it to work.
//
// The zero value is ready, holds no state and is safe for concurrent use. A
// nil Redactor redacts nothing.
type Redactor struct{}

// NewRedactor returns a Redactor.
func NewRedactor() *Redactor { return new(Redactor) }

// Redact returns s with its secrets masked; s itself when there are none. It
// takes time linear in s.
func (r *Redactor) Redact(s string) string {
	spans := r.spans(s)
	if len(spans) == 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	render(&b, s, spans, 0, len(s))
	return b.String()
}

func (r *Redactor) spans(s string) []span {
	if r == nil {
		return nil
	}
	spans, _, _ := find(s, 0, true)
	return spans
}

// span is a piece of text to mask. It was recognised from anchor on: the part
// up to start is the name or header before the secret, which stays.
type span struct {
	anchor, start, end int
	mask               string
}

// verdict is what a rule says about one place in the text.
type verdict int

const (
	no     verdict = iota
	yes            // a secret
	more           // cannot be told before more text is known
	secret         // as more, but the text so far may well be part of a secret
)

// word holds the characters that names and most tokens are made of.
var word = [256]bool{
	'0': true, '1': true, '2': true, '3': true, '4': true, '5': true, '6': true, '7': true, '8': true, '9': true,
	'A': true, 'B': true, 'C': true, 'D': true, 'E': true, 'F': true, 'G': true, 'H': true, 'I': true, 'J': true,
	'K': true, 'L': true, 'M': true, 'N': true, 'O': true, 'P': true, 'Q': true, 'R': true, 'S': true, 'T': true,
	'U': true, 'V': true, 'W': true, 'X': true, 'Y': true, 'Z': true, '_': true, '-': true,
	'a': true, 'b': true, 'c': true, 'd': true, 'e': true, 'f': true, 'g': true, 'h': true, 'i': true, 'j': true,
	'k': true, 'l': true, 'm': true, 'n': true, 'o': true, 'p': true, 'q': true, 'r': true, 's': true, 't': true,
	'u': true, 'v': true, 'w': true, 'x': true, 'y': true, 'z': true,
}

// find returns the secrets of s from offset from on; what comes before is only
// looked back at. Every rule starts at the first byte of a word or at a '+',
// looks forward a bounded distance, and only goes on beyond it over text that
// it consumes; that keeps find linear.
//
// If s is not final, more text may follow: then hold is the offset from which
// on nothing can be said yet, and v says whether what is held looks like the
// beginning of a secret. Else hold is len(s).
func find(s string, from int, final bool) (spans []span, hold int, v verdict) {
	m := matcher{s: s, final: final}
	for i := from; i < len(s); {
		c := s[i]
		if !word[c] {
			if c != '+' {
				i++
				continue
			}
			sp, v := m.phone(i)
			switch v {
			case yes:
				spans = append(spans, sp)
				i = sp.end
			case no:
				i++
			default:
				return spans, i, v
			}
			continue
		}
		j := i + 1
		for j < len(s) && word[s[j]] {
			j++
		}
		if m.boring(i, j) {
			i = j
			continue
		}
		n := len(spans)
		spans, v = m.run(spans, i, j)
		if v == more || v == secret {
			return spans[:n], i, v
		}
		i = j
		if len(spans) > n {
			i = spans[len(spans)-1].end
		}
	}
	return spans, len(s), no
}

// mask hides a secret and lets a person still tell two of them apart.
func mask(v string) string {
	if n := utf8.RuneCountInString(v); n < 18 {
		return "***"
	}
	head, tail := 0, len(v)
	for range 6 {
		_, size := utf8.DecodeRuneInString(v[head:])
		head += size
	}
	for range 4 {
		_, size := utf8.DecodeLastRuneInString(v[:tail])
		tail -= size
	}
	return v[:head] + "..." + v[tail:]
}
