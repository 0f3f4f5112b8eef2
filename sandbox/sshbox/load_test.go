//go:build unix

package sshbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

const bound = 2 * time.Minute

// openBox makes an unconfined box on a link of its own.
func openBox(t testing.TB) (*far, sandbox.Sandbox) {
	t.Helper()
	f := newFar(t, socketPair, sshbox.Config{})
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	box, err := f.Create(t.Context(), sandbox.Spec{
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, Policy: sandbox.Policy{Name: "open", Unconfined: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, box
}

// run runs a shell command to its end.
func run(t testing.TB, box sandbox.Sandbox, script string) string {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", script}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 {
		t.Fatalf("%q: %+v, %v", script, exit, err)
	}
	return out.String()
}

// gate is a writer that waits to be opened.
type gate struct {
	open  chan struct{}
	began chan struct{}
	once  sync.Once
	n     int64
}

func newGate() *gate { return &gate{open: make(chan struct{}), began: make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) {
	g.once.Do(func() { close(g.began) })
	<-g.open
	g.n += int64(len(b))
	return len(b), nil
}

// TestUnreadOutput: a process prints 1 GB that nobody reads. Others go on, and
// so does memory; when it is read, it is all there.
func TestUnreadOutput(t *testing.T) {
	_, box := openBox(t)
	g := newGate()
	size := int64(1 << 30)
	if testing.Short() {
		size = 128 << 20 // still more than may be held
	}
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"head", "-c", strconv.FormatInt(size, 10), "/dev/zero"}, Stdout: g})
	if err != nil {
		t.Fatal(err)
	}
	<-g.began
	for i := range 20 {
		if got := run(t, box, fmt.Sprintf("echo %d", i)); got != fmt.Sprintln(i) {
			t.Errorf("%q", got)
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 64<<20 {
		t.Errorf("%d MiB are held", m.HeapAlloc>>20)
	}
	select {
	case <-p.Exited():
		t.Error("it has ended, though nobody reads")
	default:
	}
	close(g.open)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || g.n != size {
		t.Errorf("%+v, %v, %d bytes", exit, err, g.n)
	}
}

// TestUnreadIsKilled: what nobody reads does not hold up the kill.
func TestUnreadIsKilled(t *testing.T) {
	_, box := openBox(t)
	g := newGate()
	ctx, cancel := context.WithCancel(t.Context())
	p, err := box.Start(ctx, sandbox.Cmd{Args: []string{"yes"}, Stdout: g, Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	<-g.began
	cancel()
	select {
	case <-p.Exited():
	case <-time.After(bound):
		t.Error("it lives on")
	}
	close(g.open)
	if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGTERM {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestManyProcesses: 200 at once on one connection, each with its own input and
// output, in both directions.
func TestManyProcesses(t *testing.T) {
	_, box := openBox(t)
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			text := strings.Repeat(fmt.Sprintf("%d.", i), 25_000) // nearly all more than a pipe holds
			var out, errs bytes.Buffer
			p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "cat; echo $1 >&2; exit $1", "sh", strconv.Itoa(i % 100)},
				Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs})
			if err != nil {
				t.Error(err)
				return
			}
			exit, err := p.Wait()
			if err != nil || exit.Code != i%100 || out.String() != text || errs.String() != fmt.Sprintln(i%100) {
				t.Errorf("%d: %+v, %v, %d bytes, %q", i, exit, err, out.Len(), errs.String())
			}
		})
	}
	all.Wait()
}

// TestBothWays: bulk data in both directions, many times over, while channels
// come and go, is no deadlock.
func TestBothWays(t *testing.T) {
	_, box := openBox(t)
	var all sync.WaitGroup
	const size = 8 << 20 // four windows of a channel
	for range 8 {
		all.Go(func() {
			var n counter
			p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"cat"}, Stdin: io.LimitReader(zeros{}, size), Stdout: &n})
			if err != nil {
				t.Error(err)
				return
			}
			if exit, err := p.Wait(); err != nil || exit.Code != 0 || n != size {
				t.Errorf("%+v, %v, %d bytes", exit, err, n)
			}
		})
	}
	for range 4 {
		all.Go(func() {
			for range 25 {
				run(t, box, ":")
			}
		})
	}
	all.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

type counter int

func (c *counter) Write(p []byte) (int, error) { *c += counter(len(p)); return len(p), nil }

// TestLongCommand: what does not fit into a packet goes in parts, and what does
// not fit into the kernel says so.
func TestLongCommand(t *testing.T) {
	_, box := openBox(t)
	var out counter
	args := []string{"/bin/sh", "-c", `printf %s "$@"`, "sh"}
	for range 15 {
		args = append(args, strings.Repeat("\xff", 100_000))
	}
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: args, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || out != 15*100_000 {
		t.Errorf("%+v, %v, %d bytes", exit, err, out)
	}
	for _, n := range []int{200_000, 20 << 20} {
		if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"true", strings.Repeat("x", n)}}); !errors.Is(err, syscall.E2BIG) {
			t.Errorf("an argument of %d bytes: %v", n, err)
		}
	}
}

// TestStreamEnds: with the stream goes everything, kept or deaf.
func TestStreamEnds(t *testing.T) {
	f := newFar(t, socketPair, sshbox.Config{})
	spec := sandbox.Spec{Env: []string{"PATH=/usr/bin:/bin"}, Policy: sandbox.Policy{Name: "open", Unconfined: true}}
	var pids []int
	var procs []sandbox.Process
	for range 3 {
		box, err := f.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, keep := range []bool{false, true} {
			r, w := io.Pipe()
			p, err := box.Start(context.Background(), sandbox.Cmd{
				Args: []string{"/bin/sh", "-c", `trap "" TERM HUP INT; setsid sh -c 'echo $$; exec sleep 1000' & echo $$; sleep 1000`}, Stdout: w, Keep: keep,
			})
			if err != nil {
				t.Fatal(err)
			}
			procs = append(procs, p)
			for range 2 {
				var pid int
				if _, err := fmt.Fscan(r, &pid); err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			go io.Copy(io.Discard, r)
		}
	}
	f.near.Close() // as when the engine was killed
	select {
	case err := <-f.served:
		if err != nil {
			t.Error(err)
		}
		close(f.served)
	case <-time.After(bound):
		t.Fatal("it serves on")
	}
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d: %v", pid, err)
		}
	}
	for _, p := range procs {
		<-p.Exited()
		if exit, err := p.Wait(); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("%+v, %v", exit, err)
		}
	}
	if err := f.link.Err(); !errors.Is(err, sandbox.ErrLost) {
		t.Error(err)
	}
	_ = f.Close()
}

// TestRefusals: what cannot be had keeps its reason across the connection.
func TestRefusals(t *testing.T) {
	f, box := openBox(t)
	if _, err := f.Create(t.Context(), sandbox.Spec{WorkDir: "/nonexistent", Policy: sandbox.Policy{Unconfined: true}}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "/nonexistent") {
		t.Error(err)
	}
	if _, err := f.Create(t.Context(), sandbox.Spec{Policy: sandbox.Policy{Name: "x", Network: "example.com"}}); !errors.Is(err, sandbox.ErrPolicy) {
		t.Error(err)
	}
	_, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"no-such-program"}})
	if !errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "local") || !strings.HasPrefix(err.Error(), `ssh: start "no-such-program": `) {
		t.Error(err)
	}
	if _, err := f.link.Open(t.Context(), sshwire.BoxRequest{Env: []string{strings.Repeat("x", 1<<20)}}); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
	var auditor sandbox.Auditor = box.(sandbox.Auditor)
	if list, complete, err := auditor.FutureInputs(t.Context(), time.Now()); err != nil || !complete || len(list) > 0 {
		t.Error(list, complete, err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
	if _, _, err := box.Listen(t.Context()); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
}
