package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestClientTellsTheSame compares every answer with that of the files
// themselves: values, errors and their texts.
func TestClientTellsTheSame(t *testing.T) {
	ctx, dir, n := context.Background(), filestest.TempTree(t), New()
	c := remote(t, n)
	filestest.MustMkdir(t, dir+"/d/sub")
	filestest.MustWrite(t, dir+"/file", "content")
	filestest.MustLink(t, "file", dir+"/link")
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Chmod(dir+"/d", 0o1750); err != nil {
		t.Fatal(err)
	}
	const missing = "/there-is-no-such-entry"
	for _, name := range []string{
		dir, dir + "/file", dir + "/link", dir + "/fifo", dir + "/d", dir + "/none", dir + "/none/none", dir + "/file/x",
		dir + "/link/x", "/", "/dev/null", "/proc/self/exe", "relative", "", "/a\x00b", dir + "/d/../file",
		dir + "/" + strings.Repeat("a", 300), dir + strings.Repeat("/aa", 3000),
	} {
		for what, call := range map[string]func(sandbox.Files) (any, error){
			"Resolve": func(f sandbox.Files) (any, error) { return f.Resolve(ctx, name) },
			"Stat": func(f sandbox.Files) (any, error) {
				i, err := f.Stat(ctx, name)
				if err != nil {
					return nil, err
				}
				sys := *i.Sys().(*syscall.Stat_t)
				sys.Atim = syscall.Timespec{}
				return fmt.Sprint(i.Name(), i.Size(), i.Mode(), i.ModTime(), i.IsDir(), sys), nil
			},
			"Open": func(f sandbox.Files) (any, error) {
				r, err := f.Open(ctx, name)
				if err != nil {
					return nil, err
				}
				defer r.Close()
				b, err := io.ReadAll(r)
				return string(b), err
			},
			"ReadDir": func(f sandbox.Files) (any, error) {
				if name == "/" {
					return nil, nil // it may change
				}
				list, err := f.ReadDir(ctx, name)
				var s []string
				for _, e := range list {
					s = append(s, fmt.Sprint(e.Name(), e.Type(), e.IsDir()))
				}
				return strings.Join(s, "\n"), err
			},
			"Create": func(f sandbox.Files) (any, error) {
				w, err := f.Create(ctx, name, sandbox.CreateOptions{New: true})
				if err != nil {
					return nil, err
				}
				defer w.Discard()
				return nil, nil
			},
			"Mkdir":    func(f sandbox.Files) (any, error) { return nil, f.Mkdir(ctx, name+"/file", 0o700) },
			"MkdirAll": func(f sandbox.Files) (any, error) { return nil, f.MkdirAll(ctx, name+"/fifo", 0o700) },
			"Rename":   func(f sandbox.Files) (any, error) { return nil, f.Rename(ctx, name+missing, dir+"/d") },
			"Rename to": func(f sandbox.Files) (any, error) {
				return nil, f.Rename(ctx, dir+"/file", name+missing+"/x")
			},
			"Remove":    func(f sandbox.Files) (any, error) { return nil, f.Remove(ctx, name+missing) },
			"RemoveAll": func(f sandbox.Files) (any, error) { return nil, f.RemoveAll(ctx, name+missing) },
		} {
			if what == "MkdirAll" && strings.HasSuffix(name, "none") || (what == "MkdirAll" || what == "Mkdir") && (name == "/" || strings.HasSuffix(name, "/d") || name == "") {
				continue // it would succeed
			}
			want, wantErr := call(n)
			got, gotErr := call(c)
			if got != want || fmt.Sprint(gotErr) != fmt.Sprint(wantErr) {
				t.Errorf("%s(%.70q) = %v, %v\nwant %v, %v", what, name, got, gotErr, want, wantErr)
			}
			for _, s := range []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrInvalid, sandbox.ErrSymlink, sandbox.ErrNotRegular, unix.ENOTDIR, unix.ENAMETOOLONG} {
				if errors.Is(gotErr, s) != errors.Is(wantErr, s) {
					t.Errorf("%s(%.70q): is %v: %v, want %v", what, name, s, errors.Is(gotErr, s), errors.Is(wantErr, s))
				}
			}
		}
	}
}

// TestClientManyEntries: a directory of any sensible size comes whole.
func TestClientManyEntries(t *testing.T) {
	dir, c := filestest.TempTree(t), remote(t, New())
	const n = 100_000
	filestest.MustWrite(t, dir+"/first", "")
	at := opened(t, dir, unix.O_RDONLY)
	for i := range n - 1 { // links are cheaper than files; nlink may be bounded
		var err error
		if i%10_000 == 0 {
			filestest.MustWrite(t, fmt.Sprintf("%s/%08d-%s", dir, i, "first"), "")
			continue
		}
		err = unix.Linkat(at, fmt.Sprintf("%08d-first", i/10_000*10_000), at, fmt.Sprintf("%08d-%s", i, strings.Repeat("x", i%40)), 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	list, err := c.ReadDir(t.Context(), dir)
	if err != nil || len(list) != n {
		t.Fatalf("%d entries, %v", len(list), err)
	}
	if !slices.IsSortedFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) }) {
		t.Error("not sorted")
	}
	if err := c.RemoveAll(t.Context(), dir); err != nil {
		t.Error(err)
	}
}

// TestClientConnections: calls run side by side, on four connections at most,
// and one that does not end holds up nobody.
func TestClientConnections(t *testing.T) {
	dir := filestest.TempTree(t)
	filestest.MustWrite(t, dir+"/file", "x")
	var serving sync.WaitGroup
	var dialled atomic.Int32
	silent, other, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	c := NewClient(func(context.Context) (*os.File, error) {
		if dialled.Add(1) == 1 {
			return silent, nil
		}
		return serve(t, &serving, New())
	})
	var stuck sync.WaitGroup
	stuck.Go(func() {
		if _, err := c.Stat(context.Background(), "/"); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("on a connection that is closed: %v", err)
		}
	})
	if n, err := unix.Read(int(other.Fd()), make([]byte, maxRequest)); n == 0 || err != nil {
		t.Fatal(n, err)
	}
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for range 50 {
				f, err := c.Open(context.Background(), dir+"/file")
				if err != nil {
					t.Error(err)
					return
				}
				f.Close()
			}
		})
	}
	filestest.Within(t, time.Minute, "a call beside a silent one", all.Wait)
	other.Close()
	stuck.Wait()
	if n := dialled.Load(); n > maxConns {
		t.Errorf("%d connections", n)
	}
	c.Close()
	serving.Wait()
}

// TestClientCancelKeepsFiles: files begun on a connection survive the end of
// somebody else's call there; nobody else uses that connection any more.
func TestClientCancelKeepsFiles(t *testing.T) {
	dir := filestest.TempTree(t)
	client, end, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { // a server that answers Stat only when it is asked for something else
		defer end.Close()
		s := &server{fd: int(end.Fd()), files: New(), open: map[uint32]*atomicFile{}, in: make([]byte, maxRequest+1)}
		var late []request
		for {
			n, err := s.receive()
			if err != nil || n == 0 {
				return
			}
			r, err := parseRequest(s.in[:n])
			if err != nil {
				t.Error(err)
				return
			}
			if r.op == opStat {
				late = append(late, r)
				continue
			}
			for _, r := range append(late, r) {
				if err := s.answer(&r); err != nil {
					t.Error(err)
				}
			}
			late = nil
		}
	})
	first := true
	c := NewClient(func(context.Context) (*os.File, error) {
		if first {
			first = false
			return client, nil
		}
		return serve(t, &serving, New())
	})
	ctx := context.Background()
	w, err := c.Create(ctx, dir+"/file", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w2, err := c.Create(ctx, dir+"/file2", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bounded, cancel := context.WithTimeoutCause(ctx, 10*time.Millisecond, errMoved)
	defer cancel()
	if _, err := c.Stat(bounded, dir); !errors.Is(err, errMoved) {
		t.Errorf("Stat: %v", err)
	}
	filestest.Within(t, 10*time.Second, "the next call", func() {
		if _, err := c.Stat(ctx, dir); err != nil {
			t.Error(err)
		}
	})
	if _, err := io.WriteString(w, "kept"); err != nil {
		t.Error(err)
	}
	if err := w.Commit(); err != nil || filestest.Content(t, dir+"/file") != "kept" {
		t.Errorf("Commit: %v", err)
	}
	if err := w2.Discard(); err != nil {
		t.Errorf("Discard: %v", err)
	}
	if got := filestest.Names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left: %q", got)
	}
	c.mu.Lock()
	open := len(c.all)
	c.mu.Unlock()
	if open != 1 {
		t.Errorf("%d connections are open, want the second alone", open)
	}
	c.Close()
	serving.Wait()
}

// TestClientCancelStorm: a context that is done at any instant ends its own
// call and no other.
func TestClientCancelStorm(t *testing.T) {
	dir, c := filestest.TempTree(t), remote(t, New())
	filestest.MustWrite(t, dir+"/file", "x")
	why := errors.New("enough")
	var all sync.WaitGroup
	var cancelled atomic.Int32
	for i := range 8 {
		all.Go(func() {
			for n := range 300 {
				ctx := context.Background()
				if i > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(n)*time.Microsecond, why)
					defer cancel()
				}
				f, err := c.Open(ctx, dir+"/file")
				if err == nil {
					f.Close()
				} else if cancelled.Add(1); i == 0 || !errors.Is(err, why) {
					t.Errorf("Open: %v", err)
				}
				if n%10 > 0 {
					continue
				}
				err = filestest.Put(c, fmt.Sprint(dir, "/", i), "x", sandbox.CreateOptions{})
				if err != nil {
					t.Errorf("a file beside cancelled calls: %v", err)
				}
			}
		})
	}
	all.Wait()
	if cancelled.Load() == 0 {
		t.Error("no call was cancelled: no storm")
	}
	if got := filestest.Names(t, dir); len(got) != 9 {
		t.Errorf("in the directory: %q", got)
	}
}

// TestClientServerGone: every call fails, none hangs, and a server that comes
// back is used.
func TestClientServerGone(t *testing.T) {
	dir := filestest.TempTree(t)
	ctx := context.Background()
	var serving sync.WaitGroup
	var mu sync.Mutex
	var sockets []*os.File
	gone := false
	c := NewClient(func(context.Context) (*os.File, error) {
		mu.Lock()
		defer mu.Unlock()
		if gone {
			return nil, unix.ECONNREFUSED
		}
		sock, err := serve(t, &serving, New())
		if err == nil {
			var fd int
			fd, err = unix.FcntlInt(sock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			sockets = append(sockets, os.NewFile(uintptr(fd), "dup"))
		}
		return sock, err
	})
	w, err := c.Create(ctx, dir+"/file", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "x"); err != nil {
		t.Fatal(err)
	}
	end := func() {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range sockets { // as the kernel does when a process ends
			unix.Shutdown(int(s.Fd()), unix.SHUT_RDWR)
			s.Close()
		}
		sockets = nil
	}
	end()
	serving.Wait()
	if got := filestest.Names(t, dir); len(got) != 0 {
		t.Errorf("left by a client that has gone: %q", got)
	}
	if err := w.Commit(); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("Commit: %v, want ErrLost", err)
	}
	if _, err := c.Stat(ctx, dir); err != nil {
		t.Errorf("with another server: %v", err)
	}
	mu.Lock()
	gone = true
	mu.Unlock()
	end()
	serving.Wait()
	for range 3 {
		for what, err := range everyCall(ctx, c, dir) {
			if !errors.Is(err, sandbox.ErrLost) {
				t.Errorf("%s: %v, want ErrLost", what, err)
			}
		}
	}
	c.Close()
	c.Close()
	for what, err := range everyCall(ctx, c, dir) {
		if !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", what, err)
		}
	}
}

func everyCall(ctx context.Context, f sandbox.Files, dir string) map[string]error {
	return map[string]error{
		"Resolve":   second(f.Resolve(ctx, dir)),
		"Open":      second(f.Open(ctx, dir+"/a")),
		"Create":    second(f.Create(ctx, dir+"/a", sandbox.CreateOptions{})),
		"ReadDir":   second(f.ReadDir(ctx, dir)),
		"Stat":      second(f.Stat(ctx, dir)),
		"Mkdir":     f.Mkdir(ctx, dir+"/d", 0o700),
		"MkdirAll":  f.MkdirAll(ctx, dir+"/d", 0o700),
		"Rename":    f.Rename(ctx, dir+"/a", dir+"/b"),
		"Remove":    f.Remove(ctx, dir+"/a"),
		"RemoveAll": f.RemoveAll(ctx, dir+"/a"),
	}
}

// TestClientCloseDiscards: what is not committed when a client closes is gone.
func TestClientCloseDiscards(t *testing.T) {
	dir := filestest.TempTree(t)
	var serving sync.WaitGroup
	c := NewClient(func(context.Context) (*os.File, error) { return serve(t, &serving, New()) })
	before := openFDs(t)
	var begun []sandbox.AtomicFile
	for i := range 20 {
		w, err := c.Create(context.Background(), fmt.Sprint(dir, "/", i), sandbox.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, w)
	}
	if err := begun[0].Commit(); err != nil {
		t.Error(err)
	}
	c.Close()
	serving.Wait()
	if got := filestest.Names(t, dir); !slices.Equal(got, []string{"0"}) {
		t.Errorf("left: %q", got)
	}
	for _, w := range begun[1:] {
		if err := w.Commit(); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("Commit: %v, want ErrClosed", err)
		}
	}
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func TestPeer(t *testing.T) {
	client, server, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p := peer{int(server.Fd())}
	if err := p.Err(); err != nil {
		t.Errorf("while the client waits: %v", err)
	}
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := context.Cause(p); !errors.Is(err, context.Canceled) {
		t.Errorf("when it wants something else: %v", err)
	}
	if _, err := server.Read(make([]byte, 9)); err != nil {
		t.Fatal(err)
	}
	if err := p.Err(); err != nil {
		t.Errorf("while it waits again: %v", err)
	}
	client.Close()
	if err := p.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("when it has gone: %v", err)
	}
}
