package patchtext

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// source is a file of n lines that looks like a program.
func source(n int) string {
	var b strings.Builder
	for i := range n / 5 {
		fmt.Fprintf(&b, "func handler%d(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(%d, r.URL.Path)\n\tif value > %d {\n\t\tlog.Printf(\"large: %%d\", value)\n\t}\n", i, i*7, i%13)
	}
	return b.String()
}

func BenchmarkReplace(b *testing.B) {
	text := source(10_000)
	line := "\tvalue := compute(6993, r.URL.Path)\n\tif value > 11 {"
	for _, bm := range []struct {
		name, old string
		strategy  Strategy
	}{
		{"exact", line, Exact},
		{"line_trimmed", strings.ReplaceAll(line, "\t", "    "), LineTrimmed},
		{"whitespace", strings.ReplaceAll(line, " :=", "  :="), WhitespaceNormalized},
		{"block", "func handler999(w http.ResponseWriter, r *http.Request) {\n\tval := compute(6993, r.URL)\n\tif value > 11 {", BlockAnchor},
		{"context", "func handler999(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(6993, r.URL.Path)\n\tif value > 12 {", ContextAware},
		{"miss", "func handlerX(w http.ResponseWriter, q *http.Request) error {\n\tv := compile(7, q.URL.Path)\n", ""},
	} {
		b.Run(bm.name, func(b *testing.B) {
			for b.Loop() {
				got, err := Replace(text, bm.old, "x\ny", false)
				if got.Strategy != bm.strategy {
					b.Fatalf("found by %q, want %q: %v", got.Strategy, bm.strategy, err)
				}
			}
		})
	}
}

func BenchmarkDiff(b *testing.B) {
	text := source(10_000)
	edited, err := Replace(text, "value", "amount", true)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		Diff(Change{OldPath: "f", NewPath: "f", Old: text, New: edited.Text})
	}
}

// Nothing a caller can send takes long: what is looked at is bounded. The test
// fails by the test binary's own timeout.
func TestHostile(t *testing.T) {
	million := strings.Repeat("same line\n", 1_000_000)
	same := million[:len(million)/5]
	many := strings.Repeat("x = 1\ny = 2\n", 50_000)
	long := strings.Repeat("ab", 500_000)
	tests := []struct{ name, text, old string }{
		{"a million lines, long passage", million, strings.Repeat("same  line\n", 90_000) + "other\n"},
		{"many lines, similar passage", same, strings.Repeat("same lime\n", 90_000)},
		{"half the lines the same", same, strings.Repeat("same line\nsome lime\n", 45_000)},
		{"anchors everywhere", many, "x = 1\n" + strings.Repeat("z = 3\n", 1000) + "y = 2\n"},
		{"one long line", long, long[:999_999] + "c"},
		{"one long similar line", long, strings.Repeat("ba", 400_000)},
		{"long lines", strings.Repeat(long[:100_000]+"\n", 20), strings.Repeat(long[:99_000]+"c\n", 20)},
		{"blanks", strings.Repeat(" ", 1_000_000), strings.Repeat("\t", 1_000_000)},
		{"wide blanks", strings.Repeat("a\u00a0", 500_000), strings.Repeat("a ", 499_999) + "b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := Replace(tt.text, tt.old, "new", false); err == nil && got.Text == tt.text {
				t.Error("a replacement that changed nothing")
			}
		})
	}
	t.Run("patch", func(t *testing.T) {
		patch := "*** Update File: f\n" + strings.Repeat("@@ same line\n-other\n+x\n", 10_000)
		ops, err := Parse(patch)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := ops[0].Apply(million); err == nil {
			t.Error("10,000 hunks in a file of 10 MB passed")
		}
	})
	t.Run("diff", func(t *testing.T) {
		if d := Diff(Change{OldPath: "f", NewPath: "f", Old: same, New: strings.ReplaceAll(same, "same", "other")}); d == "" {
			t.Error("no diff")
		}
	})
}

// Whatever is asked: no panic, errors change nothing, a success replaced the
// passages and nothing else.
func FuzzReplace(f *testing.F) {
	f.Add("a\nb\r\nc", "b", "x\ny", false)
	f.Add("    if x:\n        y()\n", "if x:\n  y()", "if x:\n  z()", true)
	f.Add("x\ty\n", `x\ty`, "q", false)
	f.Add("say “hi” …\n", "say \"hi\" ...", "", true)
	f.Add("\ufeff\r\n \xff\n", "\n", "\r\n", true)
	f.Add("aaaa", "aa", "b", true)
	f.Add("alpha 1\nbeta 2\ngamma 3\n", "alpha 1\nbeta 3\ngamma 3", "alpha 1\ngamma 3", false)
	f.Fuzz(func(t *testing.T, text, old, fresh string, all bool) {
		got, err := Replace(text, old, fresh, all)
		if err != nil {
			if got.Count != 0 || got.Strategy != "" {
				t.Fatalf("an error with a result: %+v", got)
			}
			return
		}
		if got.Count < 1 || got.Count > 1 && !all {
			t.Fatalf("%d replaced, all %v", got.Count, all)
		}
		if utf8.ValidString(text) && utf8.ValidString(fresh) && utf8.ValidString(old) && !utf8.ValidString(got.Text) {
			t.Fatalf("valid text became invalid: %q", got.Text)
		}
		plain := !strings.Contains(text+old+fresh, "\r") && !strings.Contains(text+old+fresh, "\ufeff") && !strings.Contains(fresh, `\t`)
		if got.Strategy == Exact && plain {
			if want := strings.Replace(text, old, fresh, -1); got.Text != want {
				t.Fatalf("got %q, want %q", got.Text, want)
			}
		}
		// What is before the first and after the last difference is less than
		// all of the text: some part of it was found.
		if !strings.Contains(text, "\r") && strings.Contains(got.Text, "\r") && !strings.Contains(fresh, "\r") && !strings.Contains(fresh, `\r`) {
			t.Fatalf("a carriage return from nowhere: %q", got.Text)
		}
	})
}

// No text makes Parse or Apply panic, and what was applied can be shown and
// undone.
func FuzzPatch(f *testing.F) {
	f.Add("a\nb\n", "*** Begin Patch\n*** Update File: f\n@@ a\n-b\n+c\n*** End of File\n*** End Patch\n")
	f.Add("a\nb\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n\\ No newline at end of file\n")
	f.Add("a\r\n\r\nb", "***Update File:f\n a\n\n-b\n+c\n***Move to: g\n")
	f.Add("", "diff --git \"a/x\" b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+x\n")
	f.Fuzz(func(t *testing.T, text, patch string) {
		ops, err := Parse(patch)
		if err != nil {
			return
		}
		for _, op := range ops {
			if op.Path == "" || len(op.Hunks) == 0 {
				continue
			}
			got, _, err := op.Apply(text)
			if err != nil {
				continue
			}
			diff := Diff(Change{OldPath: "f", NewPath: "f", Old: text, New: got})
			if diff == "" {
				continue
			}
			back, err := Parse(diff)
			if err != nil || len(back) != 1 {
				t.Fatalf("own diff not understood: %v\n%q", err, diff)
			}
			if again, _, err := back[0].Apply(text); err != nil || again != got {
				t.Fatalf("own diff gives %q, %v, want %q\n%q", again, err, got, diff)
			}
		}
	})
}
