package walk

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// needRipgrep skips without ripgrep, or fails where it must be there.
func needRipgrep(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("rg"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "rg") {
			t.Fatal("ripgrep is required: ", err)
		}
		t.Skip("no ripgrep here: ", err)
	}
}

// ripgrep runs the real one.
func ripgrep(t testing.TB, p *Pattern, root string, opt Options) map[string]int {
	t.Helper()
	args, ok := Ripgrep(p, root, opt)
	if !ok {
		t.Fatal("not for ripgrep")
	}
	cmd := exec.Command("rg", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Dir = t.TempDir() // where it runs must not matter
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 {
		err = nil // nothing found
	}
	if err != nil {
		t.Fatalf("rg %q: %v %s", args, err, &stderr)
	}
	hits := map[string]int{}
	err = RipgrepHits(t.Context(), bytes.NewReader(out), Disk{}, root, opt, func(h Hit) { hits[h.Path] = h.Count })
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

func native(t testing.TB, p *Pattern, root string, opt Options) map[string]int {
	t.Helper()
	hits := map[string]int{}
	_, err := Search(t.Context(), Disk{}, root, opt, p, func(h Hit) { hits[h.Path] = h.Count })
	if err != nil {
		t.Fatal(err)
	}
	return hits
}

// trees returns places to search: name → an absolute path without links.
func trees(t testing.TB) map[string]string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	nasty(t, filepath.Join(dir, "nasty"))
	sources(t, filepath.Join(dir, "sources"), 100)
	copyTree(t, "..", filepath.Join(dir, "module")) // a copy: other tests may write there
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{
		"nasty":    filepath.Join(dir, "nasty"),
		"nested":   filepath.Join(dir, "nasty/nested/q"), // rules come from above
		"repo":     filepath.Join(dir, "nasty/repo"),
		"hidden":   filepath.Join(dir, "nasty/.hiddendir"),
		"sources":  filepath.Join(dir, "sources"),
		"module":   filepath.Join(dir, "module"),
		"strings":  filepath.Join(goroot, "src/strings"),
		"encoding": filepath.Join(goroot, "src/encoding"),
	}
}

// copyTree copies files, ignore files included, and makes the copy look like a
// repository. What vanishes meanwhile is left out.
func copyTree(t testing.TB, from, to string) {
	t.Helper()
	write(t, to, map[string]string{".git/": ""})
	err := filepath.WalkDir(from, func(name string, e os.DirEntry, err error) error {
		if err == nil && e.IsDir() && (e.Name() == ".git" || e.Name() == "bin") {
			return filepath.SkipDir
		}
		if err == nil && e.Type().IsRegular() {
			if text, err := os.ReadFile(name); err == nil {
				write(t, to, map[string]string{strings.TrimPrefix(name, from): string(text)})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestSearchFindsWhatRipgrepFinds(t *testing.T) {
	needRipgrep(t)
	all := trees(t)
	globs := func(texts ...string) (out []*Glob) {
		for _, text := range texts {
			g, err := ParseGlob(text)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, g)
		}
		return out
	}
	options := map[string]Options{
		"default":   {},
		"hidden":    {Hidden: true},
		"noignore":  {NoIgnore: true},
		"depth":     {MaxDepth: 2},
		"glob":      {Globs: globs("*.go")},
		"glob path": {Globs: globs("text/*")},
		"braces":    {Globs: globs("*.{log,txt}")},
		"not":       {Globs: globs("!*.txt")},
		"shown":     {Globs: globs("*.go", "**/.*")},
		"skip": {Skip: func(name string, dir bool) bool {
			return strings.Contains(name, "text") || !dir && strings.HasSuffix(name, ".txt")
		}},
		"one": {Workers: 1},
	}
	compare := func(t *testing.T, pattern, root string, opt Options) int {
		t.Helper()
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got, want := native(t, p, root, opt), ripgrep(t, p, root, opt)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: ripgrep (-) and this package (+) differ:\n%s", pattern, diff)
		}
		return len(got)
	}
	for _, tree := range slices.Sorted(maps.Keys(all)) {
		for name, opt := range options {
			t.Run(fmt.Sprint(tree, "/", name), func(t *testing.T) {
				t.Parallel()
				compare(t, "foo|func", all[tree], opt)
			})
		}
		if tree == "nested" || tree == "repo" || tree == "hidden" {
			continue
		}
		t.Run(tree+"/patterns", func(t *testing.T) {
			t.Parallel()
			found := 0
			some := patterns
			if tree != "nasty" || testing.Short() { // where the odd lines are
				some = some[:12]
			}
			for _, pattern := range some {
				found += compare(t, pattern, all[tree], Options{})
			}
			if found == 0 {
				t.Error("nothing was found by any pattern: the test tests nothing")
			}
		})
	}
}

func TestRipgrepOutputIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	for _, out := range []string{
		"/etc/passwd\x003\n", dir + "/../x\x001\n", dir + "/a\x00-1\n", dir + "/a\x00x\n", dir + "/a\x001", dir + "/a",
		dir + "\x001\n", dir + "/\x001\n", strings.Repeat("x", 1<<20), dir + "/a\x00" + strings.Repeat("9", 1<<20) + "\n",
	} {
		err := RipgrepHits(t.Context(), strings.NewReader(out), Disk{}, dir, Options{}, func(h Hit) { t.Errorf("hit %v", h) })
		if err == nil {
			t.Errorf("%.40q was taken", out)
		}
	}
}
