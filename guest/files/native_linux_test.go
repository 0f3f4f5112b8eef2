package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// eachFiles runs a test with openat2, with the walk that stands in for it, and
// through a client and a server.
func eachFiles(t *testing.T, test func(*testing.T, sandbox.Files)) {
	t.Run("openat2", func(t *testing.T) {
		f := New()
		if _, err := f.Stat(context.Background(), "/"); err != nil || f.walk.Load() {
			t.Skip("no openat2 here:", err)
		}
		test(t, f)
	})
	t.Run("walk", func(t *testing.T) {
		f := New()
		f.walk.Store(true)
		test(t, f)
	})
	t.Run("client", func(t *testing.T) {
		c := remote(t, New())
		if _, err := c.Stat(context.Background(), "/"); err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
}

// TestFilesLease: a file somebody holds a lease on makes open(2) wait for up
// to 45 seconds.
func TestFilesLease(t *testing.T) {
	dir := filestest.TempTree(t)
	filestest.MustWrite(t, dir+"/file", "x")
	holder, err := os.OpenFile(dir+"/file", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here:", err)
	}
	filestest.Within(t, 10*time.Second, "Open of a leased file", func() {
		if _, err := New().Open(context.Background(), dir+"/file"); err == nil {
			t.Error("opened a leased file")
		}
	})
}

// deep makes a chain of directories too deep to have a name.
func deep(t *testing.T, dir string, depth int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	for i := 0; err == nil && i < depth; i++ {
		name := fmt.Sprintf("level-%d", i%10)
		if err = unix.Mkdirat(at, name, 0o755); err != nil {
			break
		}
		var next, file int
		if next, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
			break
		}
		unix.Close(at)
		at = next
		if file, err = unix.Openat(at, "file", unix.O_CREAT|unix.O_WRONLY, 0o644); err == nil {
			unix.Close(file)
		}
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
}

func TestFilesRemoveAllHostile(t *testing.T) {
	ctx, dir, f := context.Background(), filestest.TempTree(t), New()
	filestest.MustMkdir(t, dir+"/outside/sub")
	filestest.MustWrite(t, dir+"/outside/sub/canary", "alive")
	tree := dir + "/tree"
	filestest.MustMkdir(t, tree+"/a/b")
	deep(t, tree+"/a", 5000)
	for i := range 3000 {
		filestest.MustWrite(t, fmt.Sprintf("%s/a/b/f%d", tree, i), "")
	}
	for i := range 300 {
		filestest.MustMkdir(t, fmt.Sprintf("%s/wide/d%d/e", tree, i))
		filestest.MustWrite(t, fmt.Sprintf("%s/wide/d%d/e/f", tree, i), "")
	}
	filestest.MustLink(t, "../outside", tree+"/ln")
	filestest.MustLink(t, dir+"/outside/sub", tree+"/a/ln")
	filestest.MustLink(t, "/", tree+"/a/b/root")
	unix.Mkfifo(tree+"/fifo", 0o600)
	filestest.MustMkdir(t, tree+"/locked/in/side")
	filestest.MustWrite(t, tree+"/locked/in/file", "")
	os.Chmod(tree+"/locked/in", 0o500) // nothing in it can be removed
	os.Chmod(tree+"/locked", 0)        // nor read
	before := openFDs(t)
	if err := f.RemoveAll(ctx, tree); err != nil {
		t.Fatal(err)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if got := filestest.Names(t, dir); !slices.Equal(got, []string{"outside"}) {
		t.Errorf("left: %q", got)
	}
	if filestest.Content(t, dir+"/outside/sub/canary") != "alive" {
		t.Error("removed behind a link")
	}
}

// TestFilesRemoveAllTogether: that somebody else removes the same tree, or a part
// of it, is no failure of either.
func TestFilesRemoveAllTogether(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		dir := t.TempDir()
		for range 200 {
			for _, sub := range []string{"tree/a/b", "tree/a/c", "tree/d"} {
				if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, sub, "file"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var all sync.WaitGroup
			for _, name := range []string{"tree", "tree", "tree/a", "tree/a/b"} {
				all.Go(func() {
					if err := f.RemoveAll(context.Background(), filepath.Join(dir, name)); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			if _, err := os.Lstat(filepath.Join(dir, "tree")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("left: %v", err)
			}
		}
	})
}

// TestFilesRemoveAllStuck: what cannot be removed is named, and the rest goes.
func TestFilesRemoveAllStuck(t *testing.T) {
	dir := filestest.TempTree(t)
	for _, name := range []string{"a/b/stuck", "a/other", "z/other"} {
		filestest.MustMkdir(t, filepath.Dir(dir+"/tree/"+name))
		filestest.MustWrite(t, dir+"/tree/"+name, "")
	}
	file, err := os.Open(dir + "/tree/a/b/stuck")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip("cannot make a file immutable:", err)
	}
	defer unix.IoctlSetPointerInt(int(file.Fd()), unix.FS_IOC_SETFLAGS, 0)
	err = New().RemoveAll(context.Background(), dir+"/tree")
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir+"/tree/a/b/stuck") {
		t.Errorf("RemoveAll: %v", err)
	}
	if n := strings.Count(err.Error(), "\n"); n > 0 {
		t.Errorf("one cause, %d more errors: %v", n, err)
	}
	var left []string
	filepath.WalkDir(dir+"/tree", func(p string, d fs.DirEntry, _ error) error {
		left = append(left, strings.TrimPrefix(p, dir))
		return nil
	})
	if want := []string{"/tree", "/tree/a", "/tree/a/b", "/tree/a/b/stuck"}; !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
}

func openFDs(t *testing.T) int {
	t.Helper()
	return len(filestest.Names(t, "/proc/self/fd"))
}
