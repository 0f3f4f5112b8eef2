//go:build unix

package guards

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A directory becomes a repository by three names that anybody can make: what
// else is in it counts as before.
func TestScanLooksBehindRepositories(t *testing.T) {
	root := scanRoot(t)
	before(t, root, "p/HEAD", "p/objects/ab/"+fmt.Sprintf("%038d", 1), "p/refs/heads/main", "p/logs/HEAD", "x/.git/HEAD", "x/.git/logs/refs/heads/main",
		"x/.git/objects/cd/old", "x/.git/objects/pack/pack-1.pack", "x/.git/objects/12/deep/old", "x/.git/refs/heads/main", "x/.git/logs/edited/.envrc")
	since := settle(t, root)
	counts := []string{
		"p/logs/proj/.envrc", "p/logs/proj/.vscode/tasks.json", "p/objects/proj/Makefile", "p/objects/ab/Makefile", "p/refs/heads/.envrc",
		"x/.git/logs/proj/.envrc", "x/.git/logs/refs/heads/Makefile", "x/.git/objects/cd/sub/package.json", "x/.git/objects/pack/.envrc",
		"x/.git/objects/12/deep/.envrc", "x/.git/refs/x/.git/hooks/pre-commit", "x/.git/logs/edited/.envrc",
		"new/logs/proj/.envrc", // made with the names
	}
	for _, name := range append(counts, "new/HEAD", "new/objects/x", "new/refs/y", "x/.git/objects/ef/"+fmt.Sprintf("%038d", 2), "x/.git/logs/HEAD", "x/.git/refs/heads/topic") {
		put(t, root, name, "new")
	}
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, counts...)
	got, _ = scanned(t, root, time.Now().Add(time.Minute), ScanOptions{})
	same(t, "a later scan", got)
}

// A whole repository's objects are moved, with something old among them.
func TestScanLooksIntoMovedObjects(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "x/objects/ab/Makefile", "x/.git/HEAD")
	if err := os.Rename(filepath.Join(root, "x/objects"), filepath.Join(root, "x/.git/objects")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "x/.git/refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "x/.git/objects/ab/Makefile")
}

// What a policy closes counts where the run could change it nevertheless.
func TestScanListsWhatWasToBeClosed(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "tools/hooks/pre-push", "node_modules/a/hk/x", ".git/HEAD", ".git/worktrees/w/HEAD", "p.yaml", "other/x",
		"tools/x", "tools/hooks/lib/x", "node_modules/a/package.json")
	for _, name := range []string{"tools/hooks/pre-commit", "tools/hooks/lib/x", "tools/x", "node_modules/a/hk/y", "node_modules/a/package.json", ".git/worktrees/w/index", "p.yaml", "other/y"} {
		put(t, root, name, "new")
	}
	closed := []string{root + "/tools/hooks", root + "/node_modules/a/hk", root + "/.git/worktrees/w", root + "/p.yaml", root + "/missing", filepath.Dir(root) + "/x"}
	got, whys := scanned(t, root, since, ScanOptions{Closed: closed})
	same(t, "scan", got, "tools/hooks/pre-commit", "tools/hooks/lib/x", "node_modules/a/hk/y", "p.yaml")
	for name, why := range whys {
		if why != whyClosed {
			t.Errorf("%s: %q", name, why)
		}
	}
	got, _ = scanned(t, root, since, ScanOptions{Closed: closed, Guarded: closed})
	same(t, "a scan of what is guarded", got)
	// By another directory with the same name.
	err := errors.Join(os.Rename(root+"/tools", root+"/was"), os.MkdirAll(root+"/tools/hooks", 0o755), os.Symlink("/etc/passwd", root+"/tools/hooks/pre-push"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _ = scanned(t, root, since, ScanOptions{Closed: closed}); !slices.Contains(got, "tools/hooks/pre-push") {
		t.Errorf("got %q", got)
	}
}

// BenchmarkScanRepository is a repository with all of its directories for
// objects.
func BenchmarkScanRepository(b *testing.B) {
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 256 {
		for k := range 20 {
			put(b, root, fmt.Sprintf(".git/objects/%02x/%038d", i, k), "")
		}
	}
	put(b, root, ".git/HEAD", "")
	put(b, root, ".git/refs/heads/main", "")
	since := time.Now().Add(time.Minute)
	for b.Loop() {
		if _, complete, err := Scan(b.Context(), root, since, ScanOptions{}); err != nil || !complete {
			b.Fatal(complete, err)
		}
	}
}
