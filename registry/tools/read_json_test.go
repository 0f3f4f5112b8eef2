package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

func FuzzReadResultJSON(f *testing.F) {
	f.Add("")
	f.Add("plain \"text\" with \\ and \n\r\t\x00\x1f\x20\x7f, é and \U0001F600")
	f.Add(strings.Repeat("0123456!\"", 9) + "\x1f")
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ToValidUTF8(s, "\uFFFD")
		var back string
		if err := json.Unmarshal(registry.AppendString(nil, s), &back); err != nil || back != s {
			t.Errorf("%q became %q: %v", s, back, err)
		}
		got := readResult{Content: s, Hint: "<h>", Warning: s}.AppendJSON([]byte("x"))
		var r readResult
		if err := json.Unmarshal(got[1:], &r); err != nil || r.Content != s || r.Warning != s || got[0] != 'x' {
			t.Errorf("%q became %s: %v", s, got, err)
		}
	})
}
