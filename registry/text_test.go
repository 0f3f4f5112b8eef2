package registry

import (
	"strings"
	"testing"
)

// What was quoted comes back, however it was quoted.
func FuzzUnquote(f *testing.F) {
	for _, seed := range []string{
		"", "plain", "eight by\"te", "\x00\x1f\x7f \b\f\n\r\t", "\u2027\u2028\u2029\u202a\u2128", "é😀\u00e2\u20ac", `\\\"`,
		strings.Repeat("abcdefg\n", 9) + "<&>", "\u0001long text\u0001", "1234567\x80", "\U00020000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "?")
		for _, raw := range [][]byte{marshal(s), []byte(escapeAll(s))} {
			if _, bad := loneSurrogate(raw); bad {
				t.Errorf("%s holds no lone surrogate", raw)
			}
			if got := unquote(raw); got != s {
				t.Errorf("%s became %q, want %q", raw, got, s)
			}
		}
	})
}

// escapeAll writes s as Python's json.dumps does, ASCII alone, and more: with
// every escape there is.
func escapeAll(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '/' {
			b.WriteString(`\/`)
			continue
		}
		units := []rune{r}
		if r > 0xFFFF {
			units = []rune{0xD800 + (r-0x10000)>>10, 0xDC00 + (r-0x10000)&0x3FF}
		}
		for _, u := range units {
			const hex = "0123456789abcdEF"
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(hex[u>>shift&0xF])
			}
		}
	}
	return `"` + b.String() + `"`
}
