package walk

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// write makes files below dir from name → content; a name that ends in a slash
// is a directory, content that starts with "-> " a link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		var err error
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o755)
		} else if err = os.MkdirAll(filepath.Dir(full), 0o755); err == nil {
			if target, ok := strings.CutPrefix(content, "-> "); ok {
				err = os.Symlink(target, full)
			} else {
				err = os.WriteFile(full, []byte(content), 0o644)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// sources fills dir with n files that look like source text, about 6 KB each.
func sources(t testing.TB, dir string, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(7, 7))
	words := strings.Fields(`server client request response handler context error buffer reader writer index value
		length offset parse encode decode open close read write start stop wait signal process session token config
		default option result status message header footer path file directory entry walk search pattern match line`)
	word := func() string { return words[random.IntN(len(words))] }
	for i := range n {
		var b bytes.Buffer
		fmt.Fprintf(&b, "// Package %s deals with %ss.\npackage %s\n\n", word(), word(), word())
		for range 24 {
			fmt.Fprintf(&b, "// %s%s returns the %s of a %s, or an error if there is none.\n", word(), word(), word(), word())
			fmt.Fprintf(&b, "func (s *%s) %s_%s(%s int, %s string) error {\n", word(), word(), word(), word(), word())
			fmt.Fprintf(&b, "\tif s.%s == nil || s.%s < %d {\n\t\treturn errors.New(\"%s %s\")\n\t}\n", word(), word(), random.IntN(100), word(), word())
			fmt.Fprintf(&b, "\tfor i := 0; i < len(s.%s); i++ {\n\t\ts.%s[i] = s.%s[i] + s.%s_%s(i)\n\t}\n\treturn nil\n}\n\n", word(), word(), word(), word(), word())
		}
		if i%100 == 0 {
			b.WriteString("func needleInHaystack() {}\n")
		}
		name := filepath.Join(dir, fmt.Sprintf("pkg%02d", i%40), fmt.Sprintf("sub%02d", i/40%25), fmt.Sprintf("%s_%d.go", word(), i))
		write(t, "", map[string]string{name: b.String()})
	}
}

// nasty makes a tree of all that trips a search up.
func nasty(t testing.TB, dir string) {
	t.Helper()
	long := strings.Repeat("x", 300_000) + " foo " + strings.Repeat("y", 300_000)
	write(t, dir, map[string]string{
		".git/config":         "foo\n",
		".git/info/exclude":   "excluded.txt\n*.exc\n!kept.exc\n",
		".gitignore":          "*.log\n!keep.log\n/top.txt\nbuild/\n**/deep/**/leaf.txt\ndocs/*.md\n\\#hash\n\\!bang\nsp ace \nesc\\ \ntmp?\n[ab].x\n*.{o,obj}\n/anchored/dir/\n# foo\n\ndir-only/\n!.shown\nsub/only-here\n",
		".ignore":             "ignored-by-dotignore\n!rescued.log\n",
		".rgignore":           "!ignored-by-dotignore-not\nrg-only\n",
		"a.log":               "foo\n",
		"keep.log":            "foo\n",
		"rescued.log":         "foo\n",
		"excluded.txt":        "foo\n",
		"x.exc":               "foo\n",
		"kept.exc":            "foo\n",
		"top.txt":             "foo\n",
		"sub/top.txt":         "foo\n",
		"sub/only-here":       "foo\n",
		"other/only-here":     "foo\n",
		"other/sub/only-here": "foo\n",
		"build/out.txt":       "foo\n", "sub/build/out.txt": "foo\n", "sub/build2": "foo\n",
		"deep/leaf.txt": "foo\n", "deep/a/b/leaf.txt": "foo\n", "q/deep/a/leaf.txt": "foo\n",
		"docs/a.md": "foo\n", "docs/sub/a.md": "foo\n", "sub/docs/a.md": "foo\n",
		"#hash": "foo\n", "!bang": "foo\n", "sp ace": "foo\n", "esc ": "foo\n", "tmp1": "foo\n", "tmp12": "foo\n",
		"a.x": "foo\n", "c.x": "foo\n", "m.o": "foo\n", "m.obj": "foo\n", "m.other": "foo\n",
		"anchored/dir/f": "foo\n", "p/anchored/dir/f": "foo\n", "dir-only": "foo\n", "z/dir-only/f": "foo\n",
		".shown": "foo\n", ".hidden": "foo\n", ".hiddendir/f": "foo\n", "sub/.shown": "foo\n", "sub/.hidden.go": "foo\n", ".shown.go": "foo\n",
		"rg-only": "foo\n", "ignored-by-dotignore": "foo\n",
		"nested/.gitignore": "!a.log\n*.txt\n!yes.txt\n/inner/\n", "nested/a.log": "foo\n", "nested/no.txt": "foo\n", "nested/yes.txt": "foo\n",
		"nested/inner/f": "foo\n", "nested/q/inner/f": "foo\n", "nested/q/no.txt": "foo\n", "nested/q/.gitignore": "!no.txt\n",
		"repo/.git/HEAD": "x", "repo/.gitignore": "*.own\n", "repo/a.log": "foo\n", "repo/a.own": "foo\n", "repo/excluded.txt": "foo\n", "repo/ignored-by-dotignore": "foo\n",
		"worktree/.git": "gitdir: " + dir + "/.git/worktrees/w\n", "submodule/.git": "gitdir: ../.git/modules/s\n", "submodule/w.exc": "foo\n", ".git/worktrees/w/commondir": "../..\n", "worktree/w.exc": "foo\n", "worktree/w.log": "foo\n",
		"names/with space.txt": "foo\n", "names/with:colon:1:x": "foo\n", "names/new\nline": "foo\nbar foo\n", "names/-e": "foo\n",
		"names/--pre=sh": "foo\n", "names/caf\xe9": "foo\n", "names/ünï": "foo\n", "names/tab\t": "foo\n", "names/quote\"'": "foo\n", "names/back\\slash": "foo\n",
		"names/a: WARNING: stopped searching binary file after match (found \"\\0\" byte around offset 1)\nb": "foo\n",
		"bin/early": "foo\x00bar\nfoo\n", "bin/late": strings.Repeat("foo bar\n", 40_000) + "\x00", "bin/exact": strings.Repeat("y", 65535) + "\n\x00 foo\n",
		"bin/png": "\x89PNG\r\n\x1a\n\x00foo", "bin/onlynul": "\x00",
		"text/crlf": "foo\r\nbar foo\r\n\r\nfoo bar\r\n", "text/cr": "foo\rbar\rfoo", "text/noeol": "x\nfoo", "text/empty": "", "text/blank": "\n\n\n",
		"text/bom": "\xef\xbb\xbffoo\nfoo\n", "text/utf16le": "\xff\xfef\x00o\x00o\x00\n\x00x\x00f\x00o\x00o\x00", "text/utf16be": "\xfe\xff\x00f\x00o\x00o\x00\r\x00\n\x00a",
		"text/utf16odd": "\xff\xfef\x00o\x00o\x00\n\x00\x3d\xd8\x00\xde\x3d\xd8f\x00x", "text/latin1": "caf\xe9 foo\nfoo\xff\n\xe9\n", "text/long": long + "\n" + long, "text/longline": long,
		"text/many": strings.Repeat("foo\nbar\n", 50_000), "text/unicode": "straße STRASSE\nſ k \u212a K\n日本 語\n😀 foo\n\ufffd\n",
		"text/edge":  strings.Repeat("z", 65534) + "\nfoo\n" + strings.Repeat("z", 131000) + "\nfoo",
		"links/file": "-> ../keep.log", "links/loop": "-> .", "links/up": "-> ..", "links/dangling": "-> nowhere", "links/dir": "-> ../text", "links/.gitignore": "-> ../nested/.gitignore", "links/no.txt": "foo\n",
		"empty/": "",
	})
}

// clock collects how long something took.
type clock []time.Duration

func (c *clock) time(fn func()) {
	start := time.Now()
	fn()
	*c = append(*c, time.Since(start))
}

// median is in milliseconds.
func (c clock) median() float64 {
	slices.Sort(c)
	return float64(c[len(c)/2].Microseconds()) / 1000
}
