package patchtext

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDiff(t *testing.T) {
	tests := []struct {
		name  string
		in    Change
		want  string
		wrong string
	}{
		{name: "nothing", in: Change{OldPath: "f", NewPath: "f", Old: "a\n", New: "a\n"}, want: ""},
		{name: "change", in: Change{OldPath: "f", NewPath: "f", Old: "a\nb\n", New: "a\nc\n"}, want: "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"},
		{name: "no final break", in: Change{OldPath: "f", NewPath: "f", Old: "old", New: "new"},
			want:  "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old\n\\ No newline at end of file\n+new\n\\ No newline at end of file\n",
			wrong: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-old+new"},
		{name: "new file", in: Change{NewPath: "sub/n.py", New: "x = 1\n"}, want: "--- /dev/null\n+++ b/sub/n.py\n@@ -0,0 +1 @@\n+x = 1\n"},
		{name: "deleted file", in: Change{OldPath: "f", Old: "x\ny\n"}, want: "--- a/f\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-x\n-y\n"},
		{name: "name", in: Change{OldPath: "a \"b\"\n", NewPath: "a \"b\"\n", Old: "x\n", New: "y\n"},
			want: "--- \"a/a \\\"b\\\"\\n\"\n+++ \"b/a \\\"b\\\"\\n\"\n@@ -1 +1 @@\n-x\n+y\n"},
		{name: "rename", in: Change{OldPath: "a", NewPath: "b", Old: "x\n", New: "x\n"},
			want: "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Diff(tt.in)
			if tt.wrong != "" && got == tt.wrong {
				t.Fatalf("gave the known wrong answer %q", got)
			}
			if got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// pieces are what random texts are made of: endings of all kinds, bytes that
// are no text, lines that look like a diff's.
var pieces = [...]string{"a", "b", "}", "", "-- x", "++ y", " lead", "\ttab", "ä", "\xff\xfe", "\x00", "foo(1)", "@@ -1 +1 @@", "\\ No newline"}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(30) {
		b.WriteString(pieces[r.IntN(len(pieces))])
		b.WriteString([]string{"\n", "\n", "\r\n", "\r\r\n", " \n"}[r.IntN(5)])
	}
	if r.IntN(3) == 0 {
		b.WriteString(pieces[r.IntN(len(pieces))])
	}
	return b.String()
}

func randomEdit(r *rand.Rand, s string) string {
	ls := strings.SplitAfter(s, "\n")
	for range 1 + r.IntN(3) {
		i := r.IntN(len(ls))
		switch r.IntN(4) {
		case 0:
			ls = append(ls[:i:i], ls[i+1:]...)
		case 1:
			ls = append(ls[:i:i], append([]string{randomText(r)}, ls[i:]...)...)
		case 2:
			ls = append(ls[:i:i], append([]string{pieces[r.IntN(len(pieces))] + "\n"}, ls[i:]...)...)
		default:
			ls = append([]string{}, ls...)
			ls[i] = strings.TrimRight(ls[i], "\r\n")
		}
		if len(ls) == 0 {
			ls = []string{""}
		}
	}
	return strings.Join(ls, "")
}

// gitApply runs git apply in dir on diff.
func gitApply(t *testing.T, dir, diff string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"apply", "--whitespace=nowarn"}, args...)...)
	cmd.Dir = dir
	// No repository around dir, no configuration.
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1", "HOME="+dir)
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply %v: %v\n%s\n%q", args, err, out, diff)
	}
}

func needGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

// What Diff says, git does: forward from the old bytes to the new, in reverse
// back, also for files created, deleted and renamed.
func TestGitAgrees(t *testing.T) {
	needGit(t)
	names := []string{"f", "dir/f g.txt", "ä\"\\\tx", "-x", "a/b"}
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := Change{OldPath: names[r.IntN(len(names))], Old: randomText(r)}
		c.NewPath, c.New = c.OldPath, randomEdit(r, c.Old)
		switch r.IntN(6) {
		case 0:
			c.OldPath, c.Old = "", ""
		case 1:
			c.NewPath, c.New = "", ""
		case 2:
			c.NewPath = "elsewhere/" + c.NewPath
		}
		diff := Diff(c)
		if diff == "" {
			continue
		}
		dir := t.TempDir()
		put := func(name, s string) {
			if name == "" {
				return
			}
			p := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte(s), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		check := func(when, name, want, gone string) {
			t.Helper()
			if name != "" {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil || !bytes.Equal(got, []byte(want)) {
					t.Fatalf("seed %d, %s: %q is %q, %v; want %q\n%s", seed, when, name, got, err, want, diff)
				}
			}
			if gone != "" && gone != name {
				if _, err := os.Lstat(filepath.Join(dir, gone)); err == nil {
					t.Fatalf("seed %d, %s: %q is still there", seed, when, gone)
				}
			}
		}
		put(c.OldPath, c.Old)
		gitApply(t, dir, diff)
		check("forward", c.NewPath, c.New, c.OldPath)
		gitApply(t, dir, diff, "-R")
		check("in reverse", c.OldPath, c.Old, c.NewPath)
	}
}

// Parse and Apply understand what Diff writes.
func FuzzDiffAndBack(f *testing.F) {
	f.Add("a\nb\n", "a\nc")
	f.Add("a\r\n", "a\n")
	f.Add("\ufeffx\n\xff", "\ufeffx\n\xfe\n")
	f.Add("", "x")
	f.Add("-- x\n", "++ y\n")
	f.Fuzz(func(t *testing.T, old, fresh string) {
		for _, c := range []Change{
			{OldPath: "f", NewPath: "f", Old: old, New: fresh},
			{NewPath: "f", New: fresh},
			{OldPath: "f", NewPath: "g", Old: old, New: fresh},
		} {
			diff := Diff(c)
			if diff == "" {
				continue
			}
			ops, err := Parse(diff)
			if err != nil || len(ops) != 1 {
				t.Fatalf("%d operations, %v:\n%q", len(ops), err, diff)
			}
			if ops[0].Kind == Add {
				if ops[0].Content != c.New {
					t.Fatalf("content %q, want %q:\n%q", ops[0].Content, c.New, diff)
				}
				continue
			}
			got, strategy, err := ops[0].Apply(c.Old)
			if err != nil || got != c.New || strategy != Exact {
				t.Fatalf("got %q (%s), %v; want %q:\n%q", got, strategy, err, c.New, diff)
			}
		}
	})
}

// A diff of many scattered changes shows them, not the whole file.
func TestDiffOfManyChanges(t *testing.T) {
	var old, fresh strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&old, "line %d\n", i)
		if i%10 == 0 {
			fmt.Fprintf(&fresh, "LINE %d\n", i)
		} else {
			fmt.Fprintf(&fresh, "line %d\n", i)
		}
	}
	diff := Diff(Change{OldPath: "f", NewPath: "f", Old: old.String(), New: fresh.String()})
	if n := strings.Count(diff, "\n-"); n > 501 {
		t.Errorf("%d lines removed, want 500", n)
	}
}
