package guest

import (
	"bufio"
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
	proc *os.Process
	conn *os.File
	in   *bufio.Reader
	out  sync.Mutex // one frame at a time
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
		Env:   []string{marker + "=1", "GOMAXPROCS=2", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"},
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
	return &Supervisor{proc: proc, conn: conn, in: bufio.NewReaderSize(conn, 512), reap: sync.OnceValues(proc.Wait)}, nil
}

// Start runs the command with the three files as its standard streams; they
// may be closed once it returned. The error is a *StartError when the command
// could not be run, ErrGone when the guest had died before it heard of it,
// ErrNoGuest, or the cause of ctx. After an error the guest is gone.
func (s *Supervisor) Start(ctx context.Context, cmd Command, files [3]*os.File) (pid int, err error) {
	defer func() {
		if err != nil {
			// A program that is no guest may have started others.
			_ = unix.Kill(-s.proc.Pid, unix.SIGKILL)
			_, _ = s.Close()
		}
	}()
	message, err := cmd.frame()
	if err != nil {
		return 0, err
	}
	if err := s.conn.SetDeadline(time.Now().Add(greetWithin)); err != nil {
		return 0, err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.SetDeadline(time.Unix(1, 0))
		close(late)
	})
	defer func() {
		if !stop() {
			<-late
			if err != nil {
				err = context.Cause(ctx)
			}
		}
		if err == nil { // whoever cancels now is heard by End
			err = s.conn.SetDeadline(time.Time{})
		}
	}()
	defer s.wake()()
	if err := s.sendCommand(message, files); err != nil {
		return 0, s.notRun(err)
	}
	kind, p, err := s.receive()
	if err != nil {
		return 0, s.notRun(err)
	}
	if v := p.number(); kind != kindHello || p.end() != nil || v != version {
		return 0, fmt.Errorf("the guest speaks another version (%q %d, want %d)", kind, v, version)
	}
	kind, p, err = s.receive()
	if errors.Is(err, unix.ECONNRESET) {
		return 0, s.notRun(err)
	}
	if err != nil {
		return 0, fmt.Errorf("the guest ended, maybe after the command: %w", err)
	}
	n, stage := p.number(), ""
	if kind == kindFailed {
		stage = p.text()
	}
	if p.end() != nil || (kind != kindRunning && kind != kindFailed) {
		return 0, errFrame
	}
	if kind == kindFailed {
		return 0, &StartError{Stage: stage, Errno: syscall.Errno(n)}
	}
	s.main.pid = int(n)
	return int(n), nil
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

func (s *Supervisor) sendCommand(message []byte, files [3]*os.File) error {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return err
	}
	rights := unix.UnixRights(int(files[0].Fd()), int(files[1].Fd()), int(files[2].Fd()))
	sent := 0
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		for {
			sent, sendErr = unix.SendmsgN(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return sendErr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = sendErr
	}
	if err == nil && sent < len(message) {
		_, err = s.conn.Write(message[sent:])
	}
	return err
}

func (s *Supervisor) receive() (byte, *payload, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, nil, err
	}
	kind, size, err := header(head[:])
	if err != nil {
		return 0, nil, err
	}
	if size > maxOther {
		return 0, nil, errFrame
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(s.in, body); err != nil {
		return 0, nil, err
	}
	return kind, &payload{rest: body}, nil
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

func (s *Supervisor) order(b []byte) error {
	s.out.Lock()
	defer s.out.Unlock()
	_, err := s.conn.Write(b)
	return err
}

// Kill ends the guest itself, for when it does not obey. What it supervised is
// lost but for the main process, which dies with it.
func (s *Supervisor) Kill() { _ = s.proc.Kill() }

// Close lets go of a guest and waits for its end: after the last event, or to
// end a guest that was never started.
func (s *Supervisor) Close() (*os.ProcessState, error) {
	err := s.conn.Close()
	state, werr := s.reap()
	return state, errors.Join(err, werr)
}
