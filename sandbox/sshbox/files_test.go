//go:build linux

package sshbox

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"sync"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The files keep the promises that the files of this machine keep.
func TestFiles(t *testing.T) {
	t.Run("guest", func(t *testing.T) {
		_, f := newServers(t, guestServer(t)...)
		filestest.Run(t, f, nil)
	})
	t.Run("stock", func(t *testing.T) {
		_, f := newServers(t, stockServer(t))
		filestest.Run(t, f, map[string]string{
			"a link that is swapped in leads nowhere": "a stock server follows links: a name is checked and then used",
		})
	})
}

func tempTree(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func left(t testing.TB, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func put(f sandbox.Files, name string, content []byte, opt sandbox.CreateOptions) error {
	w, err := f.Create(context.Background(), name, opt)
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := w.Write(content); err != nil {
		return err
	}
	return w.Commit()
}

// Another's server, with extensions of its own choice, serves as well.
func TestFilesOtherServer(t *testing.T) {
	var serving sync.WaitGroup
	f := newFiles(func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		server, err := sftp.NewServer(far)
		if err != nil {
			return nil, err
		}
		serving.Go(func() { server.Serve(); far.Close() })
		return near, nil
	})
	defer serving.Wait()
	defer f.Close()
	ctx, dir := t.Context(), tempTree(t)
	want := bytes.Repeat([]byte("0123456789"), 100_000)
	for _, opt := range []sandbox.CreateOptions{{New: true}, {}} {
		if err := put(f, dir+"/file", want, opt); err != nil {
			t.Fatal(err)
		}
	}
	if err := put(f, dir+"/file", nil, sandbox.CreateOptions{New: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("New where a file is: %v", err)
	}
	if err := put(f, dir+"/file", nil, sandbox.CreateOptions{Sync: true}); !errors.Is(err, sandbox.ErrUnsupported) {
		t.Errorf("Sync where there is none: %v", err)
	}
	r, err := f.Open(ctx, dir+"/file")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	r.Close()
	if err := os.Symlink("file", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(ctx, dir+"/link"); !errors.Is(err, sandbox.ErrSymlink) {
		t.Errorf("a link was opened: %v", err)
	}
	if real, err := f.Resolve(ctx, dir+"/none/../link"); err != nil || real != dir+"/file" {
		t.Errorf("Resolve: %q, %v", real, err)
	}
	if err := f.MkdirAll(ctx, dir+"/a/b", 0o755); err != nil {
		t.Error(err)
	}
	if err := f.Rename(ctx, dir+"/file", dir+"/a/b/file"); err != nil {
		t.Error(err)
	}
	if err := f.RemoveAll(ctx, dir+"/a"); err != nil {
		t.Error(err)
	}
	if got := left(t, dir); !slices.Equal(got, []string{"link"}) {
		t.Errorf("left: %q", got)
	}
}

// Content comes and goes whole, whatever its size and however it is read.
func TestFilesContent(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		ctx, dir := t.Context(), tempTree(t)
		rnd := rand.NewChaCha8([32]byte{1})
		sizes := []int{0, 1, 4095, openHead - 1, openHead, openHead + 1, stockChunk, stockChunk + 1, guestChunk - 1, guestChunk, guestChunk + 1, openHead + guestChunk, 3*guestChunk + 17, 9 << 20}
		for _, size := range sizes {
			want := make([]byte, size)
			rnd.Read(want)
			name := fmt.Sprint(dir, "/", size)
			if err := put(f, name, want, sandbox.CreateOptions{Sync: size == 1}); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes were written of %d: %v", len(got), size, err)
			}
			r, err := f.Open(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes were read of %d: %v", len(got), size, err)
			}
			for range 20 {
				at := int64(rand.IntN(size + 10))
				p := make([]byte, rand.IntN(3*guestChunk))
				n, err := r.ReadAt(p, at)
				wanted := want[min(at, int64(size)):]
				wanted = wanted[:min(len(wanted), len(p))]
				if !bytes.Equal(p[:n], wanted) || (n < len(p)) != (err == io.EOF) || err != nil && err != io.EOF {
					t.Fatalf("ReadAt(%d, %d) of %d = %d, %v", len(p), at, size, n, err)
				}
				if at, err := r.Seek(at, io.SeekStart); err != nil || at < 0 {
					t.Fatal(err)
				}
				if n, err := io.ReadFull(r, p); n != len(wanted) || !bytes.Equal(p[:n], wanted) {
					t.Fatalf("after Seek(%d): %d of %d, %v", at, n, len(wanted), err)
				}
			}
			if end, err := r.Seek(0, io.SeekEnd); end != int64(size) || err != nil {
				t.Errorf("Seek to the end of %d: %d, %v", size, end, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if _, err := r.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("Read after Close: %v", err)
			}
		}
	})
}

// Files that have no size, as the kernel's own, are read to their end.
func TestFilesKernel(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		r, err := f.Open(t.Context(), "/proc/cpuinfo")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || !bytes.Contains(got, []byte("processor")) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	})
}

// A directory of any sensible size comes whole and sorted, and goes.
func TestFilesManyEntries(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		ctx, dir := t.Context(), tempTree(t)+"/many"
		if err := os.MkdirAll(dir+"/sub/deep", 0o755); err != nil {
			t.Fatal(err)
		}
		const n = 2000 // twenty answers of a stock server
		for i := range n {
			if err := os.WriteFile(fmt.Sprintf("%s/%d-%s", dir, i, strings.Repeat("x", i%100)), make([]byte, i%7), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		list, err := f.ReadDir(ctx, dir)
		if err != nil || len(list) != n+1 || !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
			t.Fatalf("%d entries, %v", len(list), err)
		}
		for _, e := range list {
			want, err := os.Lstat(dir + "/" + e.Name())
			if err != nil {
				t.Fatal(err)
			}
			if got, err := e.Info(); err != nil || got.Size() != want.Size() && !got.IsDir() || got.Mode() != want.Mode() || got.ModTime().Unix() != want.ModTime().Unix() {
				t.Fatalf("%s: %v, %v", e.Name(), got, err)
			}
		}
		if err := f.RemoveAll(ctx, dir); err != nil {
			t.Error(err)
		}
		if got := left(t, filepath.Dir(dir)); len(got) != 0 {
			t.Errorf("left: %q", got)
		}
	})
}

// A guest tells a file's time and inode as exactly as the kernel does.
func TestFilesExactInfo(t *testing.T) {
	_, f := newServers(t, guestServer(t)...)
	name := tempTree(t) + "/file"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	when := time.Unix(1_700_000_000, 123_456_789)
	if err := os.Chtimes(name, when, when); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat(t.Context(), name)
	if err != nil || !info.ModTime().Equal(when) {
		t.Errorf("%v, %v", info, err)
	}
	if sys, ok := info.Sys().(*struct{ Ino uint64 }); !ok || sys.Ino == 0 {
		t.Errorf("Sys: %v", info.Sys())
	}
}

// Of a server that dies, calls fail as lost, the next one gets a new server,
// and no temporary file outlives the files.
func TestFilesServerDies(t *testing.T) {
	run := func(t *testing.T, args ...string) {
		s, f := newServers(t, args...)
		ctx, dir := t.Context(), tempTree(t)
		w, err := f.Create(ctx, dir+"/file", sandbox.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		s.kill()
		if err := w.Commit(); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("Commit: %v, want ErrLost", err)
		}
		if _, err := f.Stat(ctx, dir); err != nil {
			t.Errorf("with another server: %v", err)
		}
		if !f.conn.guest { // a guest that is killed cannot clean up; its box does
			if got := left(t, dir); len(got) != 0 {
				t.Errorf("left: %q", got)
			}
		}
		for i := range 3 {
			if _, err := f.Create(ctx, fmt.Sprint(dir, "/open", i), sandbox.CreateOptions{New: i == 0}); err != nil {
				t.Fatal(err)
			}
		}
		before := f.conn
		f.Close()
		s.all.Wait()
		if got := left(t, dir); len(got) != 0 && !before.guest {
			t.Errorf("left after Close: %q", got)
		}
	}
	t.Run("guest", func(t *testing.T) { run(t, guestServer(t)...) })
	t.Run("stock", func(t *testing.T) { run(t, stockServer(t)) })
}

// A context that is done at any instant ends its own call and leaves nothing.
func TestFilesCancelStorm(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		dir := tempTree(t)
		if err := os.WriteFile(dir+"/file", make([]byte, 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
		why := errors.New("enough")
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				for n := range 100 {
					ctx, stop := context.WithTimeoutCause(t.Context(), time.Duration(n*10)*time.Microsecond, why)
					if r, err := f.Open(ctx, dir+"/file"); err == nil {
						io.Copy(io.Discard, r)
						r.Close()
					} else if !errors.Is(err, why) && !errors.Is(err, sandbox.ErrLost) {
						t.Errorf("Open: %v", err)
					}
					if w, err := f.Create(ctx, fmt.Sprint(dir, "/new", i), sandbox.CreateOptions{}); err == nil {
						w.Write(make([]byte, 50_000))
						w.Discard()
					}
					stop()
				}
			})
		}
		all.Wait()
		if _, err := f.Stat(t.Context(), dir); err != nil {
			t.Error(err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) { // late answers are cleaned up after
			got := left(t, dir)
			if slices.Equal(got, []string{"file"}) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("left: %q", got)
			}
		}
	})
}

// A call that is given up does not overtake the next one.
func TestFilesOrder(t *testing.T) {
	_, f := newServers(t, guestServer(t)...)
	dir := tempTree(t)
	for i := range 500 {
		name := fmt.Sprint(dir, "/", i)
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Duration(i%50)*time.Microsecond)
		err := f.Remove(ctx, name)
		stop()
		if err == nil {
			continue
		}
		if err := put(f, name, []byte("new"), sandbox.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Stat(t.Context(), name); err != nil { // after all that was asked
			t.Fatalf("what was made after it was removed: %v", err)
		}
	}
}

// turns counts the round trips of a connection: a request after an answer is
// another one. On a busy machine an answer may come between two requests that
// do not wait for it, so it may count too many, never too few.
type turns struct {
	io.ReadWriteCloser
	mu    sync.Mutex
	heard bool
	n     int
}

func (c *turns) Write(p []byte) (int, error) {
	c.mu.Lock()
	if c.heard {
		c.heard = false
		c.n++
	}
	c.mu.Unlock()
	return c.ReadWriteCloser.Write(p)
}

func (c *turns) Read(p []byte) (int, error) {
	n, err := c.ReadWriteCloser.Read(p)
	c.mu.Lock()
	c.heard = true
	c.mu.Unlock()
	return n, err
}

// Small files are read and written in few round trips.
func TestFilesRoundTrips(t *testing.T) {
	for _, c := range []struct {
		name                        string
		args                        func(testing.TB) []string
		read, write, overwrite, dir int
	}{
		{"guest", guestServer, 2, 3, 3, 2},
		{"stock", func(t testing.TB) []string { return []string{stockServer(t)} }, 5, 6, 7, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &servers{args: c.args(t)}
			var count *turns
			f := newFiles(func(ctx context.Context) (io.ReadWriteCloser, error) {
				rw, err := s.open(ctx)
				count = &turns{ReadWriteCloser: rw}
				return count, err
			})
			defer s.all.Wait()
			defer f.Close()
			dir := tempTree(t)
			name := dir + "/file"
			trips := func(what string, most int, call func() error) {
				t.Helper()
				fewest := 1 << 30
				for range 20 {
					if _, err := f.Stat(t.Context(), "/"); err != nil {
						t.Fatal(err)
					}
					count.mu.Lock()
					count.n = 0
					count.mu.Unlock()
					if err := call(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
					count.mu.Lock()
					fewest = min(fewest, count.n)
					count.mu.Unlock()
					if fewest <= most {
						t.Logf("%s: %d", what, fewest)
						return
					}
				}
				t.Errorf("%s took %d round trips, not %d", what, fewest, most)
			}
			write := func() error { return put(f, name, []byte("content"), sandbox.CreateOptions{}) }
			n := 0
			trips("write", c.write, func() error {
				n++
				return put(f, fmt.Sprint(dir, "/", n), []byte("content"), sandbox.CreateOptions{})
			})
			if err := write(); err != nil {
				t.Fatal(err)
			}
			trips("overwrite", c.overwrite, write)
			trips("read", c.read, func() error {
				r, err := f.Open(t.Context(), name)
				if err != nil {
					return err
				}
				defer r.Close()
				_, err = io.ReadAll(r)
				return err
			})
			trips("list", c.dir, func() error { _, err := f.ReadDir(t.Context(), dir); return err })
		})
	}
}

// Many calls at once, of all kinds, do not mix.
func TestFilesConcurrent(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) {
		dir := tempTree(t)
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				name := fmt.Sprint(dir, "/", i)
				content := bytes.Repeat([]byte{byte(i)}, 1000+i*40_000)
				for range 4 {
					if err := put(f, name, content, sandbox.CreateOptions{}); err != nil {
						t.Error(err)
						return
					}
					r, err := f.Open(t.Context(), name)
					if err != nil {
						t.Error(err)
						return
					}
					h := sha256.New()
					if _, err := io.Copy(h, r); err != nil || [32]byte(h.Sum(nil)) != sha256.Sum256(content) {
						t.Errorf("%d is not what was written: %v", i, err)
					}
					r.Close()
				}
			})
		}
		all.Wait()
		if got := left(t, dir); len(got) != 16 {
			t.Errorf("left: %q", got)
		}
	})
}
