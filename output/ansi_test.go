package output

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStripANSI(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "héllo, 世界\t\r\n", "héllo, 世界\t\r\n"},
		{"NUL, BEL, BS and CR stay", "a\x00b\ac\bd\re", "a\x00b\ac\bd\re"},
		{"CSI colours", "\x1b[1;31mred\x1b[0m", "red"},
		{"CSI private", "\x1b[?25lx\x1b[?2004h", "x"},
		{"CSI colon-separated", "\x1b[38:2::255:0:0mx\x1b[m", "x"},
		{"CSI intermediate", "\x1b[0 qx\x1b[!p", "x"},
		{"CSI without an end", "\x1b[12\nx", "12\nx"},
		{"OSC by BEL", "\x1b]0;title\ax", "x"},
		{"OSC by ST", "\x1b]8;;http://e.org\x1b\\link\x1b]8;;\x1b\\", "link"},
		{"OSC 52, the clipboard", "a\x1b]52;c;c2VjcmV0\ab", "ab"},
		{"OSC without an end hides nothing", "\x1b]0;all of this stays", "0;all of this stays"},
		{"OSC broken off by another escape", "\x1b]0;ti\x1b[1mtle", "0;title"},
		{"DCS", "\x1bP1$r0m\x1b\\x", "x"},
		{"DCS around an escape", "\x1bPtmux;\x1b\x1b]0;t\a\x1b\\x", "x"},
		{"SOS, PM, APC", "\x1bXa\x1b\\\x1b^b\x1b\\\x1b_c\x1b\\x", "x"},
		{"APC without an end", "\x1b_kept", "kept"},
		{"nF", "\x1b(B\x1b)0x\x1b#8", "x"},
		{"Fp, Fe, Fs", "\x1b7\x1b=\x1bMx\x1bc\x1b8", "x"},
		{"a lone ESC", "a\x1b\nb\x1b", "a\nb"},
		{"two ESC", "\x1b\x1b[31mx", "x"},
		{"8-bit CSI", "\u009b31mx", "x"},
		{"8-bit OSC and ST", "\u009d0;t\u009cx", "x"},
		{"8-bit DCS", "\u0090q\u009cx", "x"},
		{"other C1", "a\u0085b\u0080c", "abc"},
		{"U+00A0 is no control", "a\u00a0b", "a\u00a0b"},
		{"a raw 0x9b is no CSI", "a\x9b31mb", "a\uFFFD31mb"},
		{"a continuation byte 0x9b is text", "\u06db[31m", "\u06db[31m"},
		{"invalid bytes, one by one", "a\xff\xfeb\xe4\xb8", "a\uFFFD\uFFFDb\uFFFD\uFFFD"},
		{"an escape within a character", "\xc2\x1b[m\x9b31m", "\uFFFD\uFFFD31m"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := StripANSI(c.in); got != c.want {
				t.Errorf("StripANSI(%q)\n got %q\nwant %q", c.in, got, c.want)
			}
		})
	}
}

// TestStripANSILinear would not end if unfinished strings were looked for
// again and again.
func TestStripANSILinear(t *testing.T) {
	for _, unit := range []string{"\x1b]", "\x1bP", "\x1b[", "\u009d", "\u0090", "\x1b ", "\x1b[1;", "\x1b]\x1bP"} {
		StripANSI(strings.Repeat(unit, 1<<20))
	}
}

func FuzzStripANSI(f *testing.F) {
	for _, s := range []string{"", "a\x1b[31mb", "\x1b]0;x\a", "\xc2\x1b[m\x9b", "\u009b1m\u0085", "\x1bP\x1b\\", "\x1b(B", "\xe4\xb8"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out := StripANSI(s)
		if !utf8.ValidString(out) {
			t.Fatalf("%q: result is not valid UTF-8: %q", s, out)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r == esc || r >= 0x80 && r < 0xa0 }); i >= 0 {
			t.Fatalf("%q: a control is left: %q", s, out)
		}
		if again := StripANSI(out); again != out {
			t.Fatalf("%q: not idempotent: %q, then %q", s, out, again)
		}
		for cut := 0; cut <= len(s); cut++ {
			whole, at := strip(s, cut)
			if whole != out || at[0] < 0 || at[0] > len(out) {
				t.Fatalf("strip(%q, %d) = %q, %v; want %q", s, cut, whole, at, out)
			}
		}
	})
}
