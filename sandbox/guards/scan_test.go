//go:build unix

package guards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// before sets up a tree that is older than the time it returns, for a file
// system's clock.
func before(t *testing.T, root string, names ...string) time.Time {
	t.Helper()
	for _, name := range names {
		put(t, root, name, "old")
	}
	return settle(t, root)
}

// settle returns when what is made in root from now on has a change time that
// is later than the time it returns, with the grain in between.
func settle(t *testing.T, root string) time.Time {
	t.Helper()
	since := time.Now().Add(2 * clockGrain)
	probe := filepath.Join(filepath.Dir(root), "probe")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err := os.WriteFile(probe, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := os.Stat(probe)
		if err != nil || time.Now().After(deadline) {
			t.Fatal("the file system's clock stands still", err)
		}
		if st.ModTime().After(since) {
			return since
		}
	}
}

func scanned(t *testing.T, root string, since time.Time, o ScanOptions) (names []string, whys map[string]string) {
	t.Helper()
	o.Budget = time.Minute
	list, complete, err := Scan(t.Context(), root, since, o)
	if err != nil || !complete {
		t.Fatal(complete, err)
	}
	whys = map[string]string{}
	for _, f := range list {
		rel, _ := filepath.Rel(root, f.Path)
		names, whys[rel] = append(names, rel), f.Why
	}
	if !slices.IsSorted(names) {
		t.Errorf("not sorted: %q", names)
	}
	return names, whys
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func scanRoot(t *testing.T) string {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root = filepath.Join(root, "ws")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestScanListsWhatIsMadeAndNothingElse(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "Makefile", "src/conftest.py", ".vscode/tasks.json", ".git/HEAD", ".git/config", "old.txt", "venv/pyvenv.cfg")
	counts := []string{
		".envrc", ".mcp.json", "sub/Makefile", "sub/package.json", "a/b/conftest.py", "x.code-workspace", "pyproject.toml",
		".github/workflows/ci.yml", ".claude/hooks/run.sh", ".idea/workspace.xml", ".husky/pre-commit", "Jenkinsfile",
		"venv/bin/python", "venv/lib/python3.12/site-packages/evil.pth", "venv/lib/python3.12/site-packages/sitecustomize.py",
		"node_modules/.bin/tsc", "nested/.git/config", "nested/.git/hooks/pre-commit", "link/.git",
		"bare/config", "bare/hooks/post-update", "nested/.git/modules/m/config", "nested/.git/worktrees/w/gitdir",
		"nested/.git/worktrees/w/commondir", ".git/commondir",
	}
	for _, name := range counts {
		put(t, root, name, "new")
	}
	for _, name := range []string{
		"out.txt", "model.pth", "bin/tool", ".github/dependabot.yml", "node_modules/left/package.json", "nested/.git/hooks/pre-push.sample",
		"nested/.git/HEAD", "nested/.git/index", ".git/index", "bare/HEAD", "bare/objects/x", "bare/refs/heads/main",
		"nested/.git/modules/m/HEAD", "nested/.git/modules/m/objects/x", "nested/.git/modules/m/refs/y", "nested/.git/worktrees/w/HEAD",
		"venv/lib/python3.12/site-packages/pkg/setup.py", "config", "hooks/x",
	} {
		put(t, root, name, "new")
	}
	got, whys := scanned(t, root, since, ScanOptions{})
	// These two changed beside a changed root: they may have been put there as they are.
	same(t, "scan", got, append(counts, ".git/config", "venv/pyvenv.cfg")...)
	for name, why := range map[string]string{"bare/config": whyGitConfig, "link/.git": whyGitPlace, "venv/bin/python": whyVenv} {
		if whys[name] != why {
			t.Errorf("%s: %q", name, whys[name])
		}
	}
	got, _ = scanned(t, root, time.Now().Add(time.Minute), ScanOptions{})
	same(t, "a later scan", got)
	got, _ = scanned(t, root, since, ScanOptions{Guarded: []string{root + "/.git/config", root + "/.git/commondir", root + "/nested", root + "/venv"}})
	if slices.ContainsFunc(got, func(s string) bool {
		return strings.HasPrefix(s, ".git/") || strings.HasPrefix(s, "nested") || strings.HasPrefix(s, "venv")
	}) {
		t.Errorf("listed although guarded: %q", got)
	}
	got, _ = scanned(t, root, since, ScanOptions{Deep: true})
	if !slices.Contains(got, "node_modules/left/package.json") {
		t.Errorf("a deep scan did not enter node_modules: %q", got)
	}
}

func TestScanGoesByTheChangeTime(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "a/Makefile", "b/Makefile", "c/evil", "d/tasks.json", "e/workflows/ci.yml", "f/x", "z/Makefile")
	long := time.Unix(1, 0)
	put(t, root, "a/Makefile", "new")
	err := errors.Join(
		os.Chtimes(filepath.Join(root, "a/Makefile"), long, long), // hides nothing
		os.Rename(filepath.Join(root, "c/evil"), filepath.Join(root, "c/Makefile")),
		os.Link(filepath.Join(root, "f/x"), filepath.Join(root, "f/.envrc")),
		os.Rename(filepath.Join(root, "d"), filepath.Join(root, ".vscode")), // the files in it keep their times
		os.Rename(filepath.Join(root, "e"), filepath.Join(root, ".github")),
		os.Chmod(filepath.Join(root, "z/Makefile"), 0o700),
	)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "a/Makefile", "c/Makefile", "f/.envrc", ".vscode/tasks.json", ".github/workflows/ci.yml", "z/Makefile")
}

func TestScanOfLinksPipesAndSetuid(t *testing.T) {
	root := scanRoot(t)
	out := filepath.Join(filepath.Dir(root), "outside")
	put(t, out, ".bashrc", "")
	put(t, out, "dir/Makefile", "")
	since := before(t, root, "tool", "sub/x")
	err := errors.Join(
		os.Symlink(filepath.Join(out, ".bashrc"), filepath.Join(root, "notes.txt")),
		os.Symlink("../../outside/.git/hooks/pre-commit", filepath.Join(root, "sub/up")),
		os.Symlink("../sub/x", filepath.Join(root, "sub/inside")),
		os.Symlink("/usr/share/dict/words", filepath.Join(root, "harmless")),
		os.Symlink(out, filepath.Join(root, "dirlink")),
		os.Symlink(out, filepath.Join(root, ".vscode")),
		os.Symlink(out, filepath.Join(root, ".github")),
		unix.Mkfifo(filepath.Join(root, "Makefile"), 0o600),
		os.Symlink(".", filepath.Join(root, "sub/loop")),
		os.Chmod(filepath.Join(root, "tool"), 0o755|os.ModeSetuid),
	)
	if err != nil {
		t.Fatal(err)
	}
	got, whys := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "notes.txt", "sub/up", ".vscode", ".github", "dirlink", "tool")
	if whys["tool"] != whySetuid {
		t.Error(whys["tool"])
	}
	if !strings.Contains(whys["notes.txt"], out+"/.bashrc") {
		t.Error(whys["notes.txt"])
	}
}

func TestScanIsBounded(t *testing.T) {
	root := scanRoot(t)
	since := settle(t, root)
	for i := range 30 {
		put(t, root, fmt.Sprintf("d%02d/Makefile", i), "")
		put(t, root, fmt.Sprintf("venv/bin/tool%02d", i), "")
	}
	put(t, root, "venv/pyvenv.cfg", "")
	put(t, root, "deep/"+strings.Repeat("d/", 70)+"Makefile", "")
	list, complete, err := Scan(t.Context(), root, since, ScanOptions{Budget: time.Minute, List: 10})
	if err != nil || complete || len(list) != 11 {
		t.Fatalf("%d, %v, %v", len(list), complete, err)
	}
	// 30 + venv/bin as one + pyvenv.cfg - 10
	if list[0].Path != root || !strings.HasPrefix(list[0].Why, "22 more ") {
		t.Errorf("first is %v", list[0])
	}
	list, complete, err = Scan(t.Context(), root, since, ScanOptions{Budget: time.Minute})
	if err != nil || complete || len(list) != 32 {
		t.Fatalf("%d, %v, %v", len(list), complete, err)
	}
	if bin := list[len(list)-2]; bin.Path != root+"/venv/bin" || bin.Why != "30 files: "+whyVenv {
		t.Errorf("got %v", bin)
	}
	if _, complete, err := Scan(t.Context(), root, since, ScanOptions{Budget: time.Nanosecond}); complete || err != nil {
		t.Errorf("%v, %v", complete, err)
	}
	if _, complete, err := Scan(t.Context(), root, since, ScanOptions{Budget: time.Minute, Entries: 5}); complete || err != nil {
		t.Errorf("%v, %v", complete, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, _, err := Scan(ctx, root, since, ScanOptions{}); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Error(err)
	}
	if _, _, err := Scan(t.Context(), root+"/none", since, ScanOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestScanOfClosedDirectories(t *testing.T) {
	root := scanRoot(t)
	since := settle(t, root)
	put(t, root, "closed/Makefile", "")
	closed := filepath.Join(root, "closed")
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o755)
	_, complete, err := Scan(t.Context(), root, since, ScanOptions{Budget: time.Minute})
	if want := os.Geteuid() == 0; err != nil || complete != want {
		t.Errorf("complete %v, %v: an own directory that is closed is a gap", complete, err)
	}
}

// While it runs, directories are swapped for links that lead outside.
func TestScanIsNotLedOutside(t *testing.T) {
	root := scanRoot(t)
	out := filepath.Join(filepath.Dir(root), "outside")
	since := settle(t, root)
	for i := range 50 {
		put(t, out, fmt.Sprintf("s%d/SECRET/Makefile", i), "")
	}
	put(t, root, "a/b/c.txt", "")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			os.Rename(filepath.Join(root, "a"), filepath.Join(root, "moved"))
			os.Symlink(out, filepath.Join(root, "a"))
			os.Remove(filepath.Join(root, "a"))
			os.Rename(filepath.Join(root, "moved"), filepath.Join(root, "a"))
		}
	}()
	for range 300 {
		list, _, err := Scan(t.Context(), root, since, ScanOptions{})
		if err != nil {
			t.Error(err)
		}
		for _, f := range list {
			if strings.Contains(f.Path, "SECRET") {
				t.Errorf("seen: %v", f)
			}
		}
	}
	close(stop)
	<-done
}

// What becomes a submodule's repository bit by bit is listed before it is closed
// for having a HEAD: then it would not be any more.
func TestScanOfSubmodulesInParts(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, ".git/HEAD", ".git/modules/old/HEAD", ".git/modules/old/config")
	for _, name := range []string{"libs/a/HEAD", "libs/a/config", "libs/a/hooks/pre-commit", "libs/b/config", "old/HEAD"} {
		put(t, root, ".git/modules/"+name, "")
	}
	links(t, root, ".git/modules/libs/c", "../../../sub")
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, ".git/modules/libs/a/config", ".git/modules/libs/a/hooks/pre-commit", ".git/modules/libs/c", ".git/modules/old/config")
	since = settle(t, root)
	put(t, root, ".git/modules/libs/b/HEAD", "")
	got, _ = scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, ".git/modules/libs/b/config")
}
