package walk

import (
	"errors"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	for _, c := range []struct {
		glob string
		yes  string
		no   string
	}{
		{"*.go", "a.go b/c.go .go .x.go", "a.goo go a.go/x"},
		{"main.py", "main.py a/b/main.py", "domain.py main.pyc"},
		{"dir/*.py", "dir/a.py", "a.py x/dir/a.py dir/sub/a.py"},
		{"**/dir/*.py", "dir/a.py x/dir/a.py", "dir/sub/a.py"},
		{"src/**/*.go", "src/a.go src/x/y/a.go", "a.go lib/src/a.go"},
		{"src/**", "src/a src/b/c", "src x/src/a"},
		{"**/x", "x a/x a/b/x", "ax x/a"},
		{"/top", "top", "a/top"},
		{"*.{ts,tsx}", "a.ts b/c.tsx", "a.tsy a.js"},
		{"{a,b{c,d}}.x", "a.x bc.x bd.x", "b.x abc.x"},
		{"test_*", "test_a x/test_", "atest_a"},
		{"[ab]?", "ax x/bé", "a cx"},
		{"[!a]", "b", "a bb"},
		{`\*`, "*", "a"},
		{`\{a,b\}`, "{a,b}", "a"},
		{"[{]a", "{a", "a"},
		{"!*.go", "a.py go", "a.go x/b.go"},
		{"*", "a b/c", ""},
		{"a**b", "ab axb", "a/b"},
	} {
		g, err := ParseGlob(c.glob)
		if err != nil {
			t.Errorf("%s: %v", c.glob, err)
			continue
		}
		for _, path := range strings.Fields(c.yes) {
			if !g.Match(path) {
				t.Errorf("%s does not match %s", c.glob, path)
			}
		}
		for _, path := range strings.Fields(c.no) {
			if g.Match(path) {
				t.Errorf("%s matches %s", c.glob, path)
			}
		}
	}
	for _, bad := range []string{"", "!", "/", "[", "a[", "{", "{a", `\`, strings.Repeat("x", 5000), strings.Repeat("{a,b}", 7)} {
		if _, err := ParseGlob(bad); !errors.Is(err, ErrGlob) {
			t.Errorf("%.20q: error %v", bad, err)
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, glob := range []string{"*.go", "**/a/**/b", "{a,b{c,d}}", "[!a-z]", `\`, "a/**", "!x", "[a", "}{", "[]a]"} {
		f.Add(glob, "a/b/c.go")
	}
	f.Fuzz(func(t *testing.T, glob, path string) {
		g, err := ParseGlob(glob)
		if err != nil {
			return
		}
		match := g.Match(path)
		if !match || g.exclude {
			return
		}
		// Whoever asks for candidates by name must not lose one.
		names := g.basenames()
		for _, name := range names {
			if n, err := ParseGlob(name); err == nil && n.Match(path) {
				return
			}
		}
		if names != nil {
			t.Errorf("%q matches %q, but none of %q does", glob, path, names)
		}
	})
}

func FuzzIgnoreFile(f *testing.F) {
	f.Add("*.log\n!keep.log\n/top\nbuild/\n\\#x\n{a,b}\n", "a/b.log")
	f.Fuzz(func(t *testing.T, text, path string) {
		if path == "" {
			return
		}
		frame := &frame{base: 1, inRepo: true}
		frame.rules[gitignore] = parseRules(text)
		frame.judge("/"+path, path[strings.LastIndexByte(path, '/')+1:], false)
	})
}
