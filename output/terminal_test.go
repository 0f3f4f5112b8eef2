package output

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"
)

// through shows text in writes of n bytes.
func through(t testing.TB, text string, n int) string {
	t.Helper()
	var b bytes.Buffer
	w := NewTerminalWriter(&b)
	for rest := []byte(text); len(rest) > 0; {
		size := min(n, len(rest))
		if wrote, err := w.Write(rest[:size]); err != nil || wrote != size {
			t.Fatal(wrote, err)
		}
		rest = rest[size:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTerminalWriter(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\r\n":                        "plain\ttext\r\n",
		"50%\r\x1b[K100%\n":                      "50%\r\x1b[K100%\n",
		"\x1b[1;31mred\x1b[0m":                   "\x1b[1;31mred\x1b[0m",
		"\x1b[38:5:1mred":                        "\x1b[38:5:1mred\x1b[0m", // left on
		"\x1b]52;c;ZXZpbA==\a":                   "^[]52;c;ZXZpbA==\a",
		"\x1b]0;title\x1b\\":                     "^[]0;title^[\\",
		"\x1bP1$r\x1b\\":                         "^[P1$r^[\\",
		"\x1b[2J\x1b[1A\x1b[1K":                  "^[[2J^[[1A^[[1K",
		"\x1b[?1049h\x1b[>4m":                    "^[[?1049h^[[>4m",
		"\x1b[" + strings.Repeat("1;", 99) + "m": "^[[" + strings.Repeat("1;", 99) + "m",
		"\x0e\x00\x7f\x1b":                       "^N^@^?^[",
		"h\u00e9 \u009b31m \xff":                 "h\u00e9 \ufffd31m \ufffd",
		"\x9b31m":                                "\ufffd31m",
	} {
		for _, n := range []int{1, 2, 3, 1000} {
			if got := through(t, text, n); got != want {
				t.Errorf("%q in writes of %d: %q, want %q", text, n, got, want)
			}
		}
	}
}

// TestTerminalWriterAtOnce: a prompt is there before its answer.
func TestTerminalWriterAtOnce(t *testing.T) {
	var b bytes.Buffer
	w := NewTerminalWriter(&b)
	if _, _ = w.Write([]byte("name: ")); b.String() != "name: " {
		t.Errorf("%q", b.String())
	}
}

func FuzzTerminalWriter(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;c\a\u009bd", 2)
	f.Fuzz(func(t *testing.T, text string, n int) {
		whole := through(t, text, len(text)+1)
		if cut := through(t, text, max(n, 1)); cut != whole {
			t.Errorf("%q in writes of %d: %q, at once %q", text, n, cut, whole)
		}
		if !utf8.ValidString(whole) {
			t.Errorf("%q: %q is not valid UTF-8", text, whole)
		}
		for rest := whole; ; {
			_, after, found := strings.Cut(rest, "\x1b")
			if !found {
				break
			}
			if n, _ := colour([]byte("\x1b" + after)); n == 0 {
				t.Errorf("%q: %q has %q", text, whole, after)
			}
			rest = after
		}
	})
}
