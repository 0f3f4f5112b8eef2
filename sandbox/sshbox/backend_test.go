//go:build unix

package sshbox_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

func TestMain(m *testing.M) {
	guest.Main()
	if len(os.Args) == 3 && os.Args[1] == "guest" && os.Args[2] == "sftp" {
		if serve.SFTP(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// far is a backend at the other end of a stream: guest/serve in front of
// backends/local, in this process, and a Link to it.
type far struct {
	near, there io.ReadWriteCloser
	inner       *local.Backend
	link        *sshbox.Link
	served      chan error

	mu    sync.Mutex
	specs map[string]sandbox.Spec // what requests stand for
	last  int
	boxes []sandbox.Sandbox
}

// newFar makes the two ends of a stream and connects them.
func newFar(t testing.TB, streams func(testing.TB) (near, there io.ReadWriteCloser), config sshbox.Config) *far {
	t.Helper()
	f := &far{inner: local.New(local.Config{}), served: make(chan error, 1), specs: map[string]sandbox.Spec{}}
	f.near, f.there = streams(t)
	guest, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		f.served <- serve.Serve(context.Background(), f.there, serve.Config{Open: f.open, Guest: guest, Env: []string{"PATH=/usr/bin"}})
	}()
	client, err := sshbox.Handshake(t.Context(), f.near)
	if err != nil {
		t.Fatal(err)
	}
	f.link = sshbox.New(client, config)
	return f
}

// open makes a box as the test has meant it.
func (f *far) open(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
	f.mu.Lock()
	spec := f.specs[r.Profile.Name]
	f.mu.Unlock()
	spec.ID, spec.Env, spec.WorkDir, spec.Resources = r.ID, r.Env, r.WorkDir, r.Resources
	if exe, err := os.Executable(); err == nil && !spec.Policy.Unconfined {
		spec.Policy.Read = append(append([]string{}, spec.Policy.Read...), exe)
	}
	return f.inner.Create(ctx, spec)
}

func (f *far) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	f.mu.Lock()
	f.last++
	name := string(rune('a'+f.last%26)) + time.Now().String()
	f.specs[name] = spec
	f.mu.Unlock()
	box, err := f.link.Open(ctx, sshwire.BoxRequest{
		ID: spec.ID, WorkDir: spec.WorkDir, Env: spec.Env, Resources: spec.Resources, Profile: sandbox.Profile{Name: name},
	})
	if err == nil {
		f.mu.Lock()
		f.boxes = append(f.boxes, box)
		f.mu.Unlock()
	}
	return box, err
}

func (f *far) Check(ctx context.Context) []sandbox.Finding { return f.inner.Check(ctx) }

func (f *far) Close() error {
	f.mu.Lock()
	boxes := f.boxes
	f.boxes = nil
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var errs []error
	for _, b := range boxes {
		errs = append(errs, b.Close(ctx))
	}
	errs = append(errs, f.link.Close())
	if err, ok := <-f.served; ok {
		errs = append(errs, err)
		close(f.served)
	}
	return errors.Join(append(errs, f.inner.Close())...)
}

// socketPair is the usual stream: it holds what was written.
func socketPair(t testing.TB) (near, there io.ReadWriteCloser) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := [2]net.Conn{}
	for i, fd := range fds {
		syscall.CloseOnExec(fd)
		file := os.NewFile(uintptr(fd), "pair")
		conns[i], err = net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	return conns[0], conns[1]
}

// pipe is a stream that holds nothing: a write waits for its read.
func pipe(testing.TB) (near, there io.ReadWriteCloser) {
	a, b := net.Pipe()
	return a, b
}
