//go:build unix

package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// folder is a Dir on a real directory.
type folder struct{ path string }

func (f folder) List(context.Context) ([]string, error) {
	d, err := os.Open(f.path)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

func (f folder) Read(_ context.Context, name string, max int) ([]byte, error) {
	r, err := os.OpenFile(filepath.Join(f.path, name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if info, err := r.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(err, errors.New("not a regular file"))
	}
	return io.ReadAll(io.LimitReader(r, int64(max)))
}

func (f folder) Write(_ context.Context, name string, content io.WriterTo) error {
	w, err := os.CreateTemp(f.path, ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(w.Name())
	_, err = content.WriteTo(w)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return os.Rename(w.Name(), filepath.Join(f.path, name))
}

// put writes a file as a client does.
func (f folder) put(tb testing.TB, name, content string) {
	tb.Helper()
	draft := filepath.Join(f.path, "draft-"+name)
	if err := errors.Join(os.WriteFile(draft, []byte(content), 0o600), os.Rename(draft, filepath.Join(f.path, name))); err != nil {
		tb.Fatal(err)
	}
}

func (f folder) has(name string) bool {
	_, err := os.Lstat(filepath.Join(f.path, name))
	return err == nil
}

func (f folder) remove(tb testing.TB, name string) {
	tb.Helper()
	if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		tb.Fatal(err)
	}
}

// answer waits for a file and reads it.
func (f folder) answer(tb testing.TB, name string) string {
	tb.Helper()
	eventually(tb, name+" comes", func() bool { return f.has(name) })
	raw, err := os.ReadFile(filepath.Join(f.path, name))
	if err != nil {
		tb.Fatal(err)
	}
	return string(raw)
}

// polled is a server that serves a directory.
type polled struct {
	running
	folder
	ended chan error // what ServePoll returned
}

// servePoll starts a server for the test. An error of its end must be taken
// from ended, or it fails the test.
func servePoll(tb testing.TB, cfg Config, adjust func(*poll)) *polled {
	tb.Helper()
	s := &polled{running: makeServer(tb, cfg), folder: folder{shortDir(tb)}, ended: make(chan error, 1)}
	p := newPoll(s.Server, s.folder)
	if adjust != nil {
		adjust(p)
	}
	var served sync.WaitGroup
	served.Go(func() { s.ended <- s.Server.servePoll(context.Background(), p) })
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
		served.Wait()
		select {
		case err := <-s.ended:
			if err != nil {
				tb.Errorf("ServePoll: %v", err)
			}
		default:
		}
	})
	return s
}

func (s *polled) request(id int, tool, args string) string {
	return fmt.Sprintf(`{"id":%d,"token":"%s","tool":"%s","args":%s}`+"\n", id, s.cfg.Token, tool, args)
}

// call makes a call and returns its answer; the files are removed.
func (s *polled) call(tb testing.TB, client string, id int, tool, args string) string {
	tb.Helper()
	name := fmt.Sprintf("%s-%d", client, id)
	s.put(tb, "req-"+name, s.request(id, tool, args))
	line := s.answer(tb, "res-"+name)
	s.remove(tb, "req-"+name)
	s.remove(tb, "res-"+name)
	return strings.TrimSuffix(line, "\n")
}

// clients are names that clients may have.
const (
	clientA = "0123456789abcdef"
	clientB = "fedcba9876543210"
)

// left waits until just these names are in the directory.
func (f folder) left(tb testing.TB, want string) {
	tb.Helper()
	var got string
	defer func() {
		if tb.Failed() {
			tb.Logf("there are %s", got)
		}
	}()
	eventually(tb, "only "+want+" left", func() bool {
		entries, err := os.ReadDir(f.path)
		if err != nil {
			tb.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		got = strings.Join(names, " ")
		return got == want
	})
}

func returned(tb testing.TB, ended <-chan error) error {
	tb.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(bound):
		tb.Fatal("ServePoll has not returned")
		return nil
	}
}
