package local_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// play is what this binary does when a test starts it as another program.
func play(part string) int {
	ctx := context.Background()
	b := local.New(local.Config{Scratch: os.Getenv("LOCAL_TEST_SCRATCH")})
	box, err := b.Create(ctx, open())
	if part == "forgetful" { // an embedder whose main does not call guest.Main
		fmt.Println(err)
		return 0
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(box.Info().ScratchDir)
	for {
		p, err := box.Start(ctx, sandbox.Cmd{
			Args: sandboxtest.Probe("stay", os.Getenv("LOCAL_TEST_SOCKET"), "", "setsid+double+deaf", "child+deaf+stop"), Keep: true,
		})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if part == "engine" {
			fmt.Println("running")
			_, _ = p.Wait()
			return 1
		}
	}
}

// listen opens a socket of the test's own for life lines, each of which is
// handed to the channel.
func listen(t *testing.T) (path string, conns <-chan net.Conn) {
	path = filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan net.Conn, 1000)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- conn
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return path, accepted
}

// accept waits for a life line.
func accept(t *testing.T, conns <-chan net.Conn) net.Conn {
	t.Helper()
	select {
	case conn := <-conns:
		t.Cleanup(func() { conn.Close() })
		return conn
	case <-time.After(sandboxtest.Bound):
		t.Fatal("no process has connected")
		return nil
	}
}

// dies waits for the end of whoever holds a life line.
func dies(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(sandboxtest.Bound))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a process lives on")
	}
}

// another starts this binary as another program. When nobody of it and its
// guests is left, gone ends.
func another(t *testing.T, part string, env ...string) (cmd *exec.Cmd, stdout *bufio.Reader, gone *os.File) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	cmd = exec.Command(self)
	cmd.Env = append(append(os.Environ(), "LOCAL_TEST_PART="+part), env...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{w, w} // 3 is something else in a guest, 4 is inherited
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewReader(out), r
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// TestEngineKilled: nothing survives an engine that had no chance to clean up,
// and the next one removes its scratch directory.
func TestEngineKilled(t *testing.T) {
	scratch := t.TempDir()
	path, conns := listen(t)
	cmd, out, gone := another(t, "engine", "LOCAL_TEST_SCRATCH="+scratch, "LOCAL_TEST_SOCKET="+path)
	dir := line(t, out)
	if got := line(t, out); got != "running" {
		t.Fatal(got)
	}
	lines := []net.Conn{accept(t, conns), accept(t, conns), accept(t, conns)}

	b := backend(t, local.Config{Scratch: scratch})
	mine := create(t, b).Info().ScratchDir
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the scratch directory of a living engine was removed: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, conn := range lines {
		dies(t, conn)
	}
	ends(t, gone)

	next := backend(t, local.Config{Scratch: scratch})
	create(t, next)
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the scratch directory of a killed engine: %v", err)
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("the scratch directory of a living engine was removed: %v", err)
	}
}

// ends waits until nobody holds the other end of a pipe.
func ends(t *testing.T, r *os.File) {
	t.Helper()
	_ = r.SetReadDeadline(time.Now().Add(sandboxtest.Bound))
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Errorf("a guest lives on: %v", err)
	}
}

// TestEngineKilledAnytime kills engines that start one command after the other
// at random instants.
func TestEngineKilledAnytime(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it is about processes, of which there are many")
	}
	scratch := t.TempDir()
	path, conns := listen(t)
	for range 20 {
		cmd, out, gone := another(t, "starter", "LOCAL_TEST_SCRATCH="+scratch, "LOCAL_TEST_SOCKET="+path)
		line(t, out)
		time.Sleep(rand.N(60 * time.Millisecond)) // any instant will do
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		ends(t, gone)
		for more := true; more; {
			select {
			case conn := <-conns:
				dies(t, conn)
				conn.Close()
			default:
				more = false
			}
		}
	}
	b := backend(t, local.Config{Scratch: scratch})
	box := create(t, b)
	entries, err := os.ReadDir(filepath.Dir(box.Info().ScratchDir))
	if err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
}

// TestForgetful: a program that does not call guest.Main is told so, and does
// not start itself over and over.
func TestForgetful(t *testing.T) {
	_, out, _ := another(t, "forgetful", "HERMES_EXEC_GUEST=1")
	if got := line(t, out); !strings.Contains(got, "guest.Main()") {
		t.Errorf("in a process that should be a guest, Create says %q", got)
	}
	box := create(t, backend(t, local.Config{Guest: "/bin/true"}))
	if _, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, guest.ErrNoGuest) {
		t.Errorf("a guest that ends at once: %v", err)
	}
	box = create(t, backend(t, local.Config{Guest: "/nonexistent/guest"}))
	if _, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"true"}}); err == nil || !strings.Contains(err.Error(), "/nonexistent/guest") {
		t.Errorf("a guest that does not exist: %v", err)
	}
	b := backend(t, local.Config{Guest: "/nonexistent/guest"})
	if f := b.Check(context.Background()); f[len(f)-1].Severity != sandbox.Failure {
		t.Errorf("Check finds %+v", f)
	}
	// One that runs but never says hello.
	mute := filepath.Join(t.TempDir(), "mute")
	if err := os.WriteFile(mute, []byte("#!/bin/sh\nexec sleep 1000\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	box = create(t, backend(t, local.Config{Guest: mute}))
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(enough) })
	if _, err := box.Start(ctx, sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, enough) {
		t.Errorf("a guest that says nothing: %v", err)
	}
}

// TestSupervisorKilled: a script can kill what supervises it, as it runs as the
// same user. Then nobody knows its fate, but nobody waits for it either.
func TestSupervisorKilled(t *testing.T) {
	box := create(t, backend(t, local.Config{}))
	path, conns := listen(t)
	var out bytes.Buffer
	p, err := box.Start(context.Background(), sandbox.Cmd{
		Args:   []string{"/bin/sh", "-c", `echo before; python3 -c "$1" live "$2" & python3 -c "$1" live "$2" & read x; kill -9 $PPID; wait`, "sh", probe(), path},
		Stdout: &out, Stdin: waitFor(t, conns, 2),
	})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "killed") || exit.Code != -1 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if out.String() != "before\n" {
		t.Errorf("output %q", out.String())
	}
	if p, err = box.Start(context.Background(), sandbox.Cmd{Args: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("the next command: %+v, %v", exit, err)
	}
}

// probe is the source of the probe.
func probe() string { return sandboxtest.Probe("")[2] }

// waitFor is a stdin that has a line once n processes hold life lines, which
// must end with the test.
func waitFor(t *testing.T, conns <-chan net.Conn, n int) io.Reader {
	r, w := io.Pipe()
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			held = append(held, <-conns)
		}
		_, _ = io.WriteString(w, "go\n")
		w.Close()
	}()
	t.Cleanup(func() {
		<-done
		for _, conn := range held {
			dies(t, conn)
			conn.Close()
		}
	})
	return r
}

// TestSupervisorStopped: a script that stops its supervisor is ended all the
// same.
func TestSupervisorStopped(t *testing.T) {
	box := create(t, backend(t, local.Config{}))
	ctx, cancel := context.WithCancelCause(context.Background())
	r, w := io.Pipe()
	p, err := box.Start(ctx, sandbox.Cmd{Args: []string{"/bin/sh", "-c", "kill -STOP $PPID; echo stopped; sleep 1000"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if got := line(t, bufio.NewReader(r)); got != "stopped" {
		t.Fatal(got)
	}
	cancel(errors.New("enough"))
	if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGTERM {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// TestSpareKilled: a guest in waiting that somebody killed or stopped is
// replaced or woken.
func TestSpareKilled(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGTERM, syscall.SIGINT} {
		b := backend(t, local.Config{})
		box := create(t, b)
		for stop := time.Now().Add(sandboxtest.Bound); ; time.Sleep(time.Millisecond) {
			if pids := guests(t); len(pids) > 0 {
				for _, pid := range pids {
					_ = syscall.Kill(pid, sig)
				}
				break
			}
			if time.Now().After(stop) {
				t.Fatal("there is no guest in waiting")
			}
		}
		p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "exit 4"}})
		if err != nil {
			t.Fatalf("after %v: %v", sig, err)
		}
		if exit, err := p.Wait(); err != nil || exit.Code != 4 {
			t.Errorf("after %v: %+v, %v", sig, exit, err)
		}
		if err := errors.Join(box.Close(context.Background()), b.Close()); err != nil {
			t.Error(err)
		}
		if pids := guests(t); len(pids) > 0 {
			t.Errorf("guests %v outlive their backend", pids)
		}
	}
}

// TestStoppedGuest: who waits for a box that is stopped waits no longer than he
// wants to.
func TestStoppedGuest(t *testing.T) {
	box, dir := confinedBox(t)
	stopped := guests(t)
	for _, pid := range stopped {
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		defer syscall.Kill(pid, syscall.SIGCONT)
		// A thread that runs on another core goes on until it is told.
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
	}
	why := errors.New("enough")
	for range 2 {
		ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, why)
		if _, err := box.Files().Stat(ctx, dir); !errors.Is(err, why) {
			t.Errorf("Stat: %v", err)
		}
		if _, _, err := box.Listen(ctx); !errors.Is(err, why) {
			t.Errorf("Listen: %v", err)
		}
		if _, err := box.Start(ctx, sandbox.Cmd{Args: []string{"/bin/true"}}); !errors.Is(err, why) {
			t.Errorf("Start: %v", err)
		}
		stop()
	}
	// It goes on where it was stopped: what was given up is not taken for what is
	// asked now.
	for _, pid := range stopped {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	for range 3 {
		l, socket, err := box.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "test -S " + socket + " && echo there"}, Stdout: &out})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Wait(); err != nil || out.String() != "there\n" {
			t.Errorf("%q, %v", out.String(), err)
		}
		l.Close()
	}
}

// confinedBox opens a box that may write its work directory.
func confinedBox(t *testing.T) (box sandbox.Sandbox, dir string) {
	t.Helper()
	dir = t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	box, err := backend(t, local.Config{}).Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{
		Name: "confined", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost,
		BestEffort: []sandbox.ClauseName{sandbox.ClauseResources},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	return box, dir
}

// guests returns the guests that are children of this process.
func guests(t *testing.T) (pids []int) {
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		cmdline, _ := os.ReadFile(name)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if bytes.HasPrefix(cmdline, []byte("hermes-exec-guest\x00")) && bytes.Contains(status, fmt.Appendf(nil, "\nPPid:\t%d\n", os.Getpid())) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestForkBomb: hundreds of processes that do nothing but fork are ended.
func TestForkBomb(t *testing.T) {
	box := create(t, backend(t, local.Config{}))
	path, conns := listen(t)
	ctx, cancel := context.WithCancelCause(context.Background())
	p, err := box.Start(ctx, sandbox.Cmd{Args: sandboxtest.Probe("storm", path, "200"), Grace: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	conn := accept(t, conns) // inherited by every process
	time.Sleep(50 * time.Millisecond)
	cancel(errors.New("enough"))
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
	dies(t, conn)
}

// TestNoSignalIsIgnored: neither what a guest ignores for its own sake nor what
// was ignored around us (nohup, a shell's background job) reaches the command.
func TestNoSignalIsIgnored(t *testing.T) {
	args := []string{"/bin/sh", "-c", "exec grep -E 'Sig(Blk|Ign)' /proc/self/status"}
	box := create(t, backend(t, local.Config{}))
	var got bytes.Buffer
	p, err := box.Start(context.Background(), sandbox.Cmd{Args: args, Stdout: &got})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Fatal(exit, err)
	}
	var blocked, ignored uint64
	if _, err := fmt.Sscanf(got.String(), "SigBlk:\t%x\nSigIgn:\t%x\n", &blocked, &ignored); err != nil {
		t.Fatal(err, got.String())
	}
	const ordinary = 1<<31 - 1 // the rest belongs to the C library
	if blocked != 0 || ignored&ordinary != 0 {
		t.Errorf("signals of a command in a box:\n%s", got.String())
	}
}
