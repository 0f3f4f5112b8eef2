package policy

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Files do not end the search, however many there are, and depth does not soon.
func TestSearchIsNotCutShort(t *testing.T) {
	w := newWorld(t)
	for i := range 10_050 {
		w.file(fmt.Sprintf("home/work/f%d.o", i), "")
	}
	w.bareRepository("home/work/pkg/.git", "[core] hooksPath = tools/hk\n")
	w.bareRepository("home/work/src/github.com/org/repo/.git", "[core] hooksPath = tools/hk\n")
	w.bareRepository("home/work/"+strings.Repeat("d/", 60)+".git", "")
	p := w.make(Workspace)
	w.expect(p, map[string]string{
		"home/work/pkg/tools/hk/pre-commit": "r-", "home/work/pkg/.git/config": "r-", "home/work/pkg/x": "rw",
		"home/work/src/github.com/org/repo/tools/hk/x": "r-", "home/work/src/github.com/org/repo/x": "rw",
		"home/work/" + strings.Repeat("d/", 60) + ".git/hooks/x": "r-",
	})
	if len(p.Policy.Unsearched) > 0 {
		t.Errorf("unsearched: %q", p.Policy.Unsearched)
	}
}

// A directory that was made to look like a repository hides none.
func TestRepositoriesBelowRepositories(t *testing.T) {
	w := newWorld(t)
	for _, dir := range []string{"home/work", "home/work/a"} {
		w.bareRepository(dir, "")
	}
	w.bareRepository("home/work/a/b/.git", "[core] hooksPath = hk\n")
	w.expect(w.make(Workspace), map[string]string{"home/work/a/b/hk/x": "r-", "home/work/a/b/.git/config": "r-", "home/work/a/hooks": "r-", "home/work/a/x": "rw"})
}

// The search is bounded, breadth first, and the policy says when it did not see all.
func TestSearchIsBounded(t *testing.T) {
	defer func(dirs, repos int) { maxDirectories, maxRepositories = dirs, repos }(maxDirectories, maxRepositories)
	maxDirectories, maxRepositories = 100, 5
	unsearched := func(p Plan, want string) {
		t.Helper()
		if got := strings.Join(p.Policy.Unsearched, "\n"); (got != "") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("unsearched: %q, want %q", got, want)
		}
		if want != "" && !strings.Contains(strings.Join(p.Notes, "\n"), want) {
			t.Errorf("notes: %q", p.Notes)
		}
	}
	w := newWorld(t)
	w.dir("home/work/zz/.git")
	w.dir("home/work/1/2/3/4/5/.git")
	for i := range 10 {
		for k := range 10 {
			w.dir(fmt.Sprintf("home/work/many/%d/%d", i, k))
		}
	}
	p := w.make(Workspace)
	w.expect(p, map[string]string{"home/work/zz/.git/hooks": "r-", "home/work/1/2/3/4/5/.git/hooks": "rw"})
	unsearched(p, "too large to be searched (100 directories")
	if err := os.RemoveAll(w.at("home/work/many")); err != nil {
		t.Fatal(err)
	}
	p = w.make(Workspace)
	w.expect(p, map[string]string{"home/work/1/2/3/4/5/.git/hooks": "r-"})
	unsearched(p, "")
	w.dir("home/work/" + strings.Repeat("d/", maxDepth+1))
	unsearched(w.make(Workspace), "deeper than 64")
	w.c.Open = []string{"git"}
	unsearched(w.make(Workspace), "")

	w = newWorld(t)
	w.bareRepository("home/work/.git", "")
	w.dir("home/work/.git/modules/" + strings.Repeat("d/", maxDepth+1))
	unsearched(w.make(Workspace), "hooks of submodules")

	w = newWorld(t)
	for i := range 6 {
		w.bareRepository(fmt.Sprintf("home/work/%d/.git", i), "")
	}
	unsearched(w.make(Workspace), "more than 5 repositories")
}

// What a script has closed it can open again.
func TestClosedDirectories(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root looks everywhere")
	}
	w := newWorld(t)
	dir := w.dir("home/work/pkg")
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(dir, 0o700)
	if p := w.make(Workspace); len(p.Policy.Unsearched) != 1 || !strings.Contains(p.Policy.Unsearched[0], dir+" cannot be looked into (permission denied)") {
		t.Errorf("unsearched: %q", p.Policy.Unsearched)
	}
}

// BenchmarkSearch resolves a policy for a tree of so many directories, with ten
// files each.
func BenchmarkSearch(b *testing.B) {
	for _, dirs := range []int{1, 1000, 20_000, 90_000} {
		b.Run(fmt.Sprint(dirs), func(b *testing.B) {
			root := b.TempDir()
			work := root + "/home/work"
			for i := range dirs {
				dir := fmt.Sprintf("%s/%d/%d", work, i%(dirs/25+1), i)
				if err := os.MkdirAll(dir, 0o755); err != nil {
					b.Fatal(err)
				}
				for f := range 10 {
					if err := os.WriteFile(fmt.Sprintf("%s/%d.py", dir, f), nil, 0o600); err != nil {
						b.Fatal(err)
					}
				}
			}
			c := Context{Home: root + "/home", WorkDir: work, Environ: []string{"PATH=/usr/bin:/bin"}}
			for b.Loop() {
				if _, err := Make(Workspace, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
