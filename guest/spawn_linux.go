package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// greetWithin bounds how long a new guest may take to say hello and to run its
// command. It is generous: the machine may be overloaded.
const greetWithin = 10 * time.Second

// wakeEvery is how often a guest that has not answered yet is continued.
const wakeEvery = 50 * time.Millisecond

// Supervisor is the engine's end of one guest, good for one command. Signal,
// End and Kill are safe for concurrent use; Next is for one goroutine.
type Supervisor struct {
	line
	proc *os.Process
	reap func() (*os.ProcessState, error)
	main identity
}

// Spawn starts a guest that waits for its command. The path "" means the
// program that is running, whatever happened to its file.
func Spawn(path string) (*Supervisor, error) {
	if path == "" {
		path = "/proc/self/exe"
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(fds[1]), "guest")
	defer theirs.Close()
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		return nil, err
	}
	conn := os.NewFile(uintptr(fds[0]), "supervisor")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		conn.Close()
		return nil, err
	}
	defer null.Close()
	proc, err := os.StartProcess(path, []string{argv0, supervise}, &os.ProcAttr{
		Dir:   "/",
		Env:   append([]string{marker + "=1", "GOMAXPROCS=2", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}, detector...),
		Files: []*os.File{null, null, null, theirs},
		// Out of reach of a terminal's keys, but not in a session of its own: a
		// scheduler that shares the processor among sessions then counts it
		// with the engine and not with what it has to end.
		// Whoever ends the engine may have stopped its guests before: they are
		// woken to clean up. A signal too many is harmless.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGCONT},
	})
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("re-execute %s: %w", path, err)
	}
	return &Supervisor{line: newLine(conn), proc: proc, reap: sync.OnceValues(proc.Wait)}, nil
}

// Start runs the command with the three files as its standard streams; they
// may be closed once it returned. The error is a *StartError when the command
// could not be run, ErrGone when the guest had died before it heard of it,
// ErrNoGuest, or the cause of ctx. After an error the guest is gone.
func (s *Supervisor) Start(ctx context.Context, cmd Command, files commandFiles) (pid int, err error) {
	defer func() {
		if err != nil {
			// A program that is no guest may have started others.
			_ = unix.Kill(-s.proc.Pid, unix.SIGKILL)
			_, _ = s.Close()
		}
	}()
	defer s.wake()()
	pid, err = s.start(ctx, cmd, files, nil)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) {
		return 0, s.notRun(err)
	}
	s.main.pid = pid
	return pid, err
}

// notRun explains why a guest did not get the command. The system reports a
// peer that was closed before it had read everything as a reset: then the
// command, which is read whole before it is run, was not run.
func (s *Supervisor) notRun(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrNoGuest
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		state, err := s.reap()
		if err == nil && state.Exited() && state.ExitCode() == 2 { // so ends a Go program that gets no thread or memory
			return fmt.Errorf("%w; or it got no thread or memory (%v)", ErrNoGuest, state)
		}
		if err == nil && state.Exited() {
			return ErrNoGuest
		}
		return fmt.Errorf("%w: %v", ErrGone, state)
	}
	return err
}

// wake continues the guest until the function it returns is called: a script
// may stop a guest in waiting, or its own before that could say that it runs.
func (s *Supervisor) wake() (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	_ = s.proc.Signal(syscall.SIGCONT)
	timer = time.AfterFunc(wakeEvery, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			_ = s.proc.Signal(syscall.SIGCONT)
			timer.Reset(wakeEvery)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		timer.Stop()
	}
}

// Next returns the next event: the main process's end, and that nothing is
// left; one event may tell both. An error means that the guest died before it
// had seen its tree end; what could still be found of it was killed.
func (s *Supervisor) Next() (Event, error) {
	var t tree
	if s.main.start == 0 {
		p, _ := t.read(s.main.pid)
		s.main.start = p.start
	}
	kind, p, err := s.receive()
	if err == nil {
		var e Event
		if e, err = parseEvent(kind, p); err == nil {
			return e, nil
		}
	}
	s.Kill()
	state, _ := s.reap()
	if s.main.start != 0 {
		t.killSession(s.main)
	}
	return Event{}, fmt.Errorf("the guest ended (%v): %w", state, err)
}

// Signal sends sig to the whole tree.
func (s *Supervisor) Signal(sig syscall.Signal) error {
	return s.order(newFrame(kindSignal).number(uint64(sig)).bytes())
}

// End sends SIGTERM to the tree, and SIGKILL to what is left of it after
// grace; at once when grace is 0. A later, earlier deadline wins.
func (s *Supervisor) End(grace time.Duration) error {
	_ = s.proc.Signal(syscall.SIGCONT) // a script may have stopped its supervisor
	return s.order(newFrame(kindEnd).number(uint64(max(grace, 0))).bytes())
}

// Kill ends the guest itself, for when it does not obey, after what it supervised.
// It reports whether that was all found.
func (s *Supervisor) Kill() (all bool) {
	all = s.main.pid == 0 || killBelow(s.proc)
	_ = s.proc.Kill()
	return all
}

// Close lets go of a guest and waits for its end: after the last event, or to
// end a guest that was never started.
func (s *Supervisor) Close() (*os.ProcessState, error) {
	err := s.conn.Close()
	state, werr := s.reap()
	return state, errors.Join(err, werr)
}
