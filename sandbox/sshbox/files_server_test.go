//go:build linux

package sshbox

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"sync"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// stockServer is OpenSSH's own, where it is installed.
func stockServer(t testing.TB) string {
	if _, err := user.LookupId(strconv.Itoa(os.Getuid())); err != nil {
		t.Skip("OpenSSH's sftp-server serves nobody without an account")
	}
	for _, name := range []string{"/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/sftp-server"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	t.Skip("OpenSSH's sftp-server is not installed")
	return ""
}

// guestServer is ours: this program, run again.
func guestServer(t testing.TB) []string {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, "guest", "sftp"}
}

// stdio is a process's standard input and output.
type stdio struct {
	io.Reader
	in  io.WriteCloser
	end func()
}

func (s stdio) Write(p []byte) (int, error) { return s.in.Write(p) }
func (s stdio) Close() error                { s.end(); return nil }

// servers makes clients of servers that are processes, and ends both with the
// test.
type servers struct {
	args []string
	all  sync.WaitGroup
	mu   sync.Mutex
	last *exec.Cmd
}

func (s *servers) open(context.Context) (io.ReadWriteCloser, error) {
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.last = cmd
	s.mu.Unlock()
	gone := make(chan struct{})
	s.all.Go(func() { <-gone; cmd.Wait() })
	return stdio{out, in, sync.OnceFunc(func() { in.Close(); out.Close(); close(gone) })}, nil
}

// kill ends the server that was started last.
func (s *servers) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last.Process.Kill()
}

func newServers(t testing.TB, args ...string) (*servers, *remoteFiles) {
	s := &servers{args: args}
	f := newFiles(s.open)
	t.Cleanup(func() {
		f.Close()
		s.all.Wait()
	})
	return s, f
}

// eachFiles runs a test with a guest's server and with OpenSSH's.
func eachFiles(t *testing.T, test func(*testing.T, sandbox.Files)) {
	t.Run("guest", func(t *testing.T) {
		_, f := newServers(t, guestServer(t)...)
		test(t, f)
	})
	t.Run("stock", func(t *testing.T) {
		_, f := newServers(t, stockServer(t))
		test(t, f)
	})
}
