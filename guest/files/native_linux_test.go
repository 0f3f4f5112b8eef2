package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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

func TestFilesResolve(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		ctx, dir := context.Background(), tempTree(t)
		mustMkdir(t, dir+"/a/b")
		mustWrite(t, dir+"/a/b/file", "x")
		mustLink(t, "a/b", dir+"/rel")
		mustLink(t, dir+"/a", dir+"/abs")
		mustLink(t, "../../rel/file", dir+"/a/b/up")
		mustLink(t, "loop2", dir+"/loop1")
		mustLink(t, "loop1", dir+"/loop2")
		mustLink(t, "missing/deep", dir+"/dangling")
		for in, want := range map[string]string{
			"/a/b/file":            "/a/b/file",
			"/a//b/./file":         "/a/b/file",
			"/rel/file":            "/a/b/file",
			"/abs/b/up":            "/a/b/file",
			"/rel/../b/file":       "/a/b/file", // the parent of where the link led
			"/rel/../../rel/file":  "/a/b/file",
			"/new":                 "/new",
			"/rel/new":             "/a/b/new",
			"/rel/new/sub/x":       "/a/b/new/sub/x",
			"/dangling":            "/missing/deep",
			"/dangling/x":          "/missing/deep/x",
			"/none/../rel/x":       "/a/b/x",
			"/../../../../../../.": "",
		} {
			got, err := f.Resolve(ctx, dir+in)
			if strings.HasPrefix(in, "/..") {
				if err != nil || got != "/" {
					t.Errorf("Resolve(%q) = %q, %v", in, got, err)
				}
				continue
			}
			if err != nil || got != dir+want {
				t.Errorf("Resolve(%q) = %q, %v, want %q", in, strings.TrimPrefix(got, dir), err, want)
			}
		}
		for in, want := range map[string]error{
			dir + "/loop1":                      unix.ELOOP,
			dir + "/loop1/x":                    unix.ELOOP,
			dir + "/a/b/file/x":                 unix.ENOTDIR,
			dir + "/a/b/file/../":               unix.ENOTDIR,
			"rel":                               fs.ErrInvalid,
			"/a\x00b":                           fs.ErrInvalid,
			"/" + strings.Repeat("../a/", 1000): unix.ENAMETOOLONG,
		} {
			if got, err := f.Resolve(ctx, in); !errors.Is(err, want) {
				t.Errorf("Resolve(%.60q) = %q, %v, want %v", in, got, err, want)
			}
		}
	})
}

// TestFilesResolveAsKernel compares Resolve with the kernel on random names in
// a tree full of links.
func TestFilesResolveAsKernel(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		dir := tempTree(t)
		rnd := rand.New(rand.NewPCG(1, 2))
		comps := []string{"a", "b", "c", "l1", "l2", "l3", "..", "."}
		pick := func(n int) string {
			parts := make([]string, n)
			for i := range parts {
				parts[i] = comps[rnd.IntN(len(comps))]
			}
			return strings.Join(parts, "/")
		}
		for _, d := range []string{"a/b/c", "b/c", "c/a", "b/a"} {
			mustMkdir(t, dir+"/"+d)
		}
		for _, d := range []string{"", "a", "b", "c", "a/b"} {
			for _, l := range []string{"l1", "l2", "l3"} {
				mustLink(t, pick(1+rnd.IntN(3)), filepath.Join(dir, d, l))
			}
		}
		// 40 links in a row are followed, 41 are not: as the kernel has it.
		mustMkdir(t, dir+"/chain")
		mustWrite(t, dir+"/chain/0", "")
		for i := range 45 {
			mustLink(t, fmt.Sprint(i), fmt.Sprintf("%s/chain/%d", dir, i+1))
		}
		tried := []string{"chain/39", "chain/40", "chain/41", "chain/45"}
		for range 3000 {
			tried = append(tried, pick(1+rnd.IntN(6)))
		}
		agreed := 0
		for _, name := range tried {
			name = dir + "/" + name
			got, gotErr := f.Resolve(context.Background(), name)
			fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
			if err == unix.ELOOP {
				if gotErr == nil {
					t.Errorf("Resolve(%q) = %q, the kernel finds a loop", name, got)
				}
				continue
			}
			if err != nil {
				continue // missing: a question of taste
			}
			want, err := os.Readlink(procFD(fd))
			unix.Close(fd)
			if err != nil || gotErr != nil || got != want {
				t.Errorf("Resolve(%q) = %q, %v; the kernel says %q", name, got, gotErr, want)
			}
			agreed++
		}
		if agreed < 500 {
			t.Errorf("only %d names exist: a weak test", agreed)
		}
	})
}

func TestFilesNotRegular(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		ctx, dir := context.Background(), tempTree(t)
		if err := unix.Mkfifo(dir+"/fifo", 0o666); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir) // a socket's name is short
		l, err := net.Listen("unix", "sock")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, name := range []string{dir + "/fifo", dir + "/sock", dir, "/dev/null", "/dev/zero", "/"} {
			within(t, 10*time.Second, "Open "+name, func() {
				if file, err := f.Open(ctx, name); !errors.Is(err, sandbox.ErrNotRegular) {
					t.Errorf("Open(%q) = %v, %v", name, file, err)
				}
			})
			within(t, 10*time.Second, "Create "+name, func() {
				if err := put(f, name, "", sandbox.CreateOptions{}); !errors.Is(err, sandbox.ErrNotRegular) {
					t.Errorf("Create(%q): %v", name, err)
				}
			})
			if name != "/" && name != dir && strings.HasPrefix(name, dir) {
				within(t, 10*time.Second, "ReadDir "+name, func() {
					if _, err := f.ReadDir(ctx, name); err == nil {
						t.Errorf("ReadDir(%q) succeeded", name)
					}
				})
			}
		}
		// Magic links are links.
		if _, err := f.Open(ctx, "/proc/self/exe"); !errors.Is(err, sandbox.ErrSymlink) {
			t.Errorf("Open of a magic link: %v", err)
		}
		if got := names(t, dir); !slices.Equal(got, []string{"fifo", "sock"}) {
			t.Errorf("left behind: %q", got)
		}
	})
}

// TestFilesLease: a file somebody holds a lease on makes open(2) wait for up
// to 45 seconds.
func TestFilesLease(t *testing.T) {
	dir := tempTree(t)
	mustWrite(t, dir+"/file", "x")
	holder, err := os.OpenFile(dir+"/file", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	if _, err := unix.FcntlInt(holder.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here:", err)
	}
	within(t, 10*time.Second, "Open of a leased file", func() {
		if _, err := New().Open(context.Background(), dir+"/file"); err == nil {
			t.Error("opened a leased file")
		}
	})
}

func TestFilesOwner(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		dir := tempTree(t)
		name := dir + "/file"
		mustWrite(t, name, "old")
		if os.Geteuid() != 0 {
			// Replacing asks nothing of the file's mode, but writing would.
			if err := os.Chmod(name, 0o444); err != nil {
				t.Fatal(err)
			}
			if err := put(f, name, "new", sandbox.CreateOptions{}); !errors.Is(err, fs.ErrPermission) || content(t, name) != "old" {
				t.Errorf("write to a read-only file: %v", err)
			}
			return
		}
		if err := os.Chown(name, 12345, 23456); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(name, 0o6755); err != nil {
			t.Fatal(err)
		}
		if err := put(f, name, "new", sandbox.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Stat(name, &st); err != nil {
			t.Fatal(err)
		}
		if st.Uid != 12345 || st.Gid != 23456 || st.Mode&0o7777 != 0o755 {
			t.Errorf("owner %d:%d mode %o, want 12345:23456 755", st.Uid, st.Gid, st.Mode&0o7777)
		}
	})
}

func TestFilesDiskFull(t *testing.T) {
	dir := tempTree(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		mustWrite(t, dir+"/file", "old")
		err := put(f, dir+"/file", strings.Repeat("x", 1<<20), sandbox.CreateOptions{})
		if !errors.Is(err, unix.ENOSPC) {
			t.Errorf("write of too much: %v", err)
		}
		w, err := f.Create(context.Background(), dir+"/file", sandbox.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, strings.Repeat("x", 1<<20)) // not looked at
		if err := w.Commit(); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("Commit after a failed write: %v", err)
		}
		if got := content(t, dir+"/file"); got != "old" {
			t.Errorf("the old file became %d bytes", len(got))
		}
		if got := names(t, dir); !slices.Equal(got, []string{"file"}) {
			t.Errorf("left behind: %q", got)
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
	ctx, dir, f := context.Background(), tempTree(t), New()
	mustMkdir(t, dir+"/outside/sub")
	mustWrite(t, dir+"/outside/sub/canary", "alive")
	tree := dir + "/tree"
	mustMkdir(t, tree+"/a/b")
	deep(t, tree+"/a", 5000)
	for i := range 3000 {
		mustWrite(t, fmt.Sprintf("%s/a/b/f%d", tree, i), "")
	}
	for i := range 300 {
		mustMkdir(t, fmt.Sprintf("%s/wide/d%d/e", tree, i))
		mustWrite(t, fmt.Sprintf("%s/wide/d%d/e/f", tree, i), "")
	}
	mustLink(t, "../outside", tree+"/ln")
	mustLink(t, dir+"/outside/sub", tree+"/a/ln")
	mustLink(t, "/", tree+"/a/b/root")
	unix.Mkfifo(tree+"/fifo", 0o600)
	mustMkdir(t, tree+"/locked/in/side")
	mustWrite(t, tree+"/locked/in/file", "")
	os.Chmod(tree+"/locked/in", 0o500) // nothing in it can be removed
	os.Chmod(tree+"/locked", 0)        // nor read
	before := openFDs(t)
	if err := f.RemoveAll(ctx, tree); err != nil {
		t.Fatal(err)
	}
	if after := openFDs(t); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"outside"}) {
		t.Errorf("left: %q", got)
	}
	if content(t, dir+"/outside/sub/canary") != "alive" {
		t.Error("removed behind a link")
	}
}

// TestFilesRemoveAllStuck: what cannot be removed is named, and the rest goes.
func TestFilesRemoveAllStuck(t *testing.T) {
	dir := tempTree(t)
	for _, name := range []string{"a/b/stuck", "a/other", "z/other"} {
		mustMkdir(t, filepath.Dir(dir+"/tree/"+name))
		mustWrite(t, dir+"/tree/"+name, "")
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
	return len(names(t, "/proc/self/fd"))
}

// TestFilesRace flips a directory with a link that leads outside, while every
// operation runs below it: nothing may ever land, vanish or be read outside.
func TestFilesRace(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		ctx, dir := context.Background(), tempTree(t)
		outside := dir + "/outside"
		for _, d := range []string{outside, dir + "/in/d"} {
			mustMkdir(t, d+"/sub/deep")
			mustWrite(t, d+"/sub/deep/file", filepath.Base(d))
			mustWrite(t, d+"/file", filepath.Base(d))
			mustWrite(t, d+"/victim", filepath.Base(d))
		}
		mustLink(t, "../outside", dir+"/in/ln")
		snapshot := func() string {
			var s strings.Builder
			filepath.WalkDir(outside, func(p string, d fs.DirEntry, err error) error {
				info, _ := d.Info()
				fmt.Fprintln(&s, p, d.Type(), err)
				if d.Type().IsRegular() {
					fmt.Fprintln(&s, content(t, p), info.ModTime())
				}
				return nil
			})
			return s.String()
		}
		want := snapshot()
		before := openFDs(t)

		stop, flipped := make(chan struct{}), make(chan int)
		go func() {
			n := 0
			for {
				select {
				case <-stop:
					flipped <- n
					return
				default:
				}
				if err := unix.Renameat2(unix.AT_FDCWD, dir+"/in/d", unix.AT_FDCWD, dir+"/in/ln", unix.RENAME_EXCHANGE); err == nil {
					n++
				}
			}
		}()
		ok, refused := 0, 0
		count := func(err error) {
			switch {
			case err == nil:
				ok++
			case errors.Is(err, sandbox.ErrSymlink):
				refused++
			}
		}
		d := dir + "/in/d"
		begin := time.Now()
		for time.Since(begin) < 700*time.Millisecond || (ok < 100 || refused < 100) && time.Since(begin) < 20*time.Second {
			file, err := f.Open(ctx, d+"/file")
			if err == nil {
				if b, _ := io.ReadAll(file); string(b) == "outside" {
					t.Fatal("read outside")
				}
				file.Close()
			}
			count(err)
			count(put(f, d+"/landed", "x", sandbox.CreateOptions{}))
			count(put(f, d+"/landed-new", "x", sandbox.CreateOptions{New: true}))
			count(put(f, d+"/victim", "d", sandbox.CreateOptions{}))
			count(f.Mkdir(ctx, d+"/made", 0o755))
			count(f.MkdirAll(ctx, d+"/made/all/of/it", 0o755))
			count(f.Rename(ctx, d+"/victim", d+"/moved"))
			count(f.Rename(ctx, d+"/moved", d+"/victim"))
			count(f.Remove(ctx, d+"/landed-new"))
			count(f.RemoveAll(ctx, d+"/made"))
			count(f.RemoveAll(ctx, d+"/sub/deep"))
			count(f.MkdirAll(ctx, d+"/sub/deep", 0o755))
			if list, err := f.ReadDir(ctx, d); err == nil {
				for _, e := range list {
					e.Info()
				}
			}
			if resolved, err := f.Resolve(ctx, d+"/file"); err == nil {
				if file, err := f.Open(ctx, resolved); err == nil {
					// Resolve may lead outside, and says so.
					if b, _ := io.ReadAll(file); string(b) == "outside" && !strings.HasPrefix(resolved, outside) {
						t.Fatalf("%q was read outside", resolved)
					}
					file.Close()
				}
			}
		}
		close(stop)
		n := <-flipped
		if got := snapshot(); got != want {
			t.Errorf("outside changed:\n%s\nwas:\n%s", got, want)
		}
		if n < 100 || ok < 100 || refused < 100 {
			t.Errorf("a weak race: %d flips, %d done, %d refused", n, ok, refused)
		}
		if after := openFDs(t); after > before {
			t.Errorf("%d descriptors before, %d after", before, after)
		}
		filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			if strings.HasSuffix(p, ".tmp") {
				t.Errorf("left behind: %s", p)
			}
			return nil
		})
	})
}
