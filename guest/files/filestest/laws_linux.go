package filestest

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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func systemLaws() []law {
	return []law{
		{"links are followed by Resolve alone", resolve},
		{"Resolve goes where the kernel goes", resolveAsKernel},
		{"what is no regular file is refused without blocking", notRegular},
		{"a file keeps its owner", owner},
		{"a full disk is told and changes nothing", diskFull},
		{"a link that is swapped in leads nowhere", race},
		{"files are staged in a directory of their own", stages},
		{"what is looked for while files are staged is found", stagesAndFinds},
		{"the first of several names is found", finds},
	}
}

func resolve(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)
	MustMkdir(t, dir+"/a/b")
	MustWrite(t, dir+"/a/b/file", "x")
	MustLink(t, "a/b", dir+"/rel")
	MustLink(t, dir+"/a", dir+"/abs")
	MustLink(t, "../../rel/file", dir+"/a/b/up")
	MustLink(t, "loop2", dir+"/loop1")
	MustLink(t, "loop1", dir+"/loop2")
	MustLink(t, "missing/deep", dir+"/dangling")
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
}

// resolveAsKernel compares Resolve with the kernel on random names in
// a tree full of links.
func resolveAsKernel(t *testing.T, f sandbox.Files) {
	dir := TempTree(t)
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
		MustMkdir(t, dir+"/"+d)
	}
	for _, d := range []string{"", "a", "b", "c", "a/b"} {
		for _, l := range []string{"l1", "l2", "l3"} {
			MustLink(t, pick(1+rnd.IntN(3)), filepath.Join(dir, d, l))
		}
	}
	// 40 links in a row are followed, 41 are not: as the kernel has it.
	MustMkdir(t, dir+"/chain")
	MustWrite(t, dir+"/chain/0", "")
	for i := range 45 {
		MustLink(t, fmt.Sprint(i), fmt.Sprintf("%s/chain/%d", dir, i+1))
	}
	tried := []string{"chain/39", "chain/40", "chain/41", "chain/45"}
	for range 3000 {
		tried = append(tried, pick(1+rnd.IntN(6)))
	}
	slices.Sort(tried) // the short ones come often
	tried = slices.Compact(tried)
	var agreed atomic.Int64
	var all sync.WaitGroup
	for part := range slices.Chunk(tried, len(tried)/8+1) {
		all.Go(func() {
			for _, name := range part {
				agreed.Add(sameAsKernel(t, f, dir+"/"+name))
			}
		})
	}
	all.Wait()
	if n := agreed.Load(); n < 150 {
		t.Errorf("only %d names exist: a weak test", n)
	}
}

// sameAsKernel compares one name; it returns 1 if it exists.
func sameAsKernel(t *testing.T, f sandbox.Files, name string) int64 {
	got, gotErr := f.Resolve(context.Background(), name)
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP {
		if gotErr == nil {
			t.Errorf("Resolve(%q) = %q, the kernel finds a loop", name, got)
		}
		return 0
	}
	if err != nil {
		return 0 // missing: a question of taste
	}
	want, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	unix.Close(fd)
	if err != nil || gotErr != nil || got != want {
		t.Errorf("Resolve(%q) = %q, %v; the kernel says %q", name, got, gotErr, want)
	}
	return 1
}

func notRegular(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)
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
		Within(t, 10*time.Second, "Open "+name, func() {
			if file, err := f.Open(ctx, name); !errors.Is(err, sandbox.ErrNotRegular) {
				t.Errorf("Open(%q) = %v, %v", name, file, err)
			}
		})
		Within(t, 10*time.Second, "Create "+name, func() {
			if err := Put(f, name, "", sandbox.CreateOptions{}); !errors.Is(err, sandbox.ErrNotRegular) {
				t.Errorf("Create(%q): %v", name, err)
			}
		})
		if name != "/" && name != dir && strings.HasPrefix(name, dir) {
			Within(t, 10*time.Second, "ReadDir "+name, func() {
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
	if got := Names(t, dir); !slices.Equal(got, []string{"fifo", "sock"}) {
		t.Errorf("left behind: %q", got)
	}
}

func owner(t *testing.T, f sandbox.Files) {
	dir := TempTree(t)
	name := dir + "/file"
	MustWrite(t, name, "old")
	if os.Geteuid() != 0 {
		// Replacing asks nothing of the file's mode, but writing would.
		if err := os.Chmod(name, 0o444); err != nil {
			t.Fatal(err)
		}
		if err := Put(f, name, "new", sandbox.CreateOptions{}); !errors.Is(err, fs.ErrPermission) || Content(t, name) != "old" {
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
	if err := Put(f, name, "new", sandbox.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	if st.Uid != 12345 || st.Gid != 23456 || st.Mode&0o7777 != 0o755 {
		t.Errorf("owner %d:%d mode %o, want 12345:23456 755", st.Uid, st.Gid, st.Mode&0o7777)
	}
}

func diskFull(t *testing.T, f sandbox.Files) {
	dir := TempTree(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("cannot mount a small disk:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	MustWrite(t, dir+"/file", "old")
	err := Put(f, dir+"/file", strings.Repeat("x", 1<<20), sandbox.CreateOptions{})
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
	if got := Content(t, dir+"/file"); got != "old" {
		t.Errorf("the old file became %d bytes", len(got))
	}
	if got := Names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left behind: %q", got)
	}
}

// race flips a directory with a link that leads outside, while every
// operation runs below it: nothing may ever land, vanish or be read outside.
func race(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)
	outside := dir + "/outside"
	for _, d := range []string{outside, dir + "/in/d"} {
		MustMkdir(t, d+"/sub/deep")
		MustWrite(t, d+"/sub/deep/file", filepath.Base(d))
		MustWrite(t, d+"/file", filepath.Base(d))
		MustWrite(t, d+"/victim", filepath.Base(d))
	}
	MustLink(t, "../outside", dir+"/in/ln")
	snapshot := func() string {
		var s strings.Builder
		filepath.WalkDir(outside, func(p string, d fs.DirEntry, err error) error {
			info, _ := d.Info()
			fmt.Fprintln(&s, p, d.Type(), err)
			if d.Type().IsRegular() {
				fmt.Fprintln(&s, Content(t, p), info.ModTime())
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
		count(Put(f, d+"/landed", "x", sandbox.CreateOptions{}))
		count(Put(f, d+"/landed-new", "x", sandbox.CreateOptions{New: true}))
		count(Put(f, d+"/victim", "d", sandbox.CreateOptions{}))
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
	after := openFDs(t)
	for since := time.Now(); after > before && time.Since(since) < 10*time.Second; after = openFDs(t) { // a server closes what it has passed on after it did
		time.Sleep(time.Millisecond)
	}
	if after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
	filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if strings.HasSuffix(p, ".tmp") {
			t.Errorf("left behind: %s", p)
		}
		return nil
	})
}

func openFDs(t *testing.T) int {
	t.Helper()
	return len(Names(t, "/proc/self/fd"))
}
