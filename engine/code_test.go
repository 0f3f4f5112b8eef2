package engine

import (
	"strings"
	"testing"
)

// Code that cannot be a script is refused before anything is started.
func TestCodeRefused(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.Limits.Code = 1000 })
	s := open(t, e, Task{})
	for _, row := range []struct{ name, code, want string }{
		{"empty", "", "No code provided."},
		{"white space", " \n\t", "No code provided."},
		{"not UTF-8", "x = 1\ny = '\xff'\n", "run: the script is not UTF-8: byte 11 (line 2) is 0xff"},
		{"NUL", "x = 1\n\x00", "run: the script has a NUL byte at 6 (line 2): Python cannot read it"},
		{"too long", strings.Repeat("#", 1001), "run: the script has 1001 bytes, the limit is 1000: put the data in a file and read it from there"},
	} {
		r, err := s.Run(t.Context(), Script{Code: row.code})
		if err == nil || r.Status != Failed || r.Error != row.want || r.ExitCode != nil || r.ToolCallsMade != 0 {
			t.Errorf("%s: got %s, %v", row.name, r.JSON(), err)
		}
	}
}
