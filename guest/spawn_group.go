//go:build unix && !linux

package guest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// drainGrace is what processes that outlive the main one get between TERM and
// KILL.
const drainGrace = 200 * time.Millisecond

// Supervisor runs one command where no subreaper is to be had: it knows the
// command's process group and no more. A descendant that leaves the group is
// not found. Signal, End and Kill are safe for concurrent use; Next is for one
// goroutine.
type Supervisor struct {
	proc   *os.Process
	keep   bool
	events chan Event
	over   chan struct{} // closed when the group is empty

	mu       sync.Mutex
	deadline *time.Timer
	at       time.Time
}

// Spawn prepares to run one command. There is no guest program to start.
func Spawn(string) (*Supervisor, error) {
	return &Supervisor{events: make(chan Event, 2), over: make(chan struct{})}, nil
}

// Start runs the command with the three files as its standard streams. The
// error is a *StartError when it could not be run, or the cause of ctx.
func (s *Supervisor) Start(ctx context.Context, cmd Command, files [3]*os.File) (int, error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	if st, err := os.Stat(cmd.Dir); err != nil {
		return 0, &StartError{"dir", errno(err)}
	} else if !st.IsDir() {
		return 0, &StartError{"dir", syscall.ENOTDIR}
	}
	path, err := lookPath(cmd.Args[0], cmd.Dir, cmd.Env)
	if err != nil {
		return 0, &StartError{"program", errno(err)}
	}
	s.keep = cmd.Keep
	s.proc, err = os.StartProcess(path, cmd.Args, &os.ProcAttr{
		Dir: cmd.Dir, Env: append([]string{}, cmd.Env...), Files: files[:], Sys: &syscall.SysProcAttr{Setsid: true, Setctty: cmd.Terminal},
	})
	if err != nil {
		stage := "exec"
		if errors.Is(err, fs.ErrNotExist) {
			stage = "interpreter"
		}
		return 0, &StartError{stage, errno(err)}
	}
	go s.follow()
	return s.proc.Pid, nil
}

// lookPath finds the program a command names, only ever in directories given
// by an absolute path.
func lookPath(name, dir string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if !strings.HasPrefix(name, "/") {
			name = dir + "/" + name
		}
		return exec.LookPath(name)
	}
	path := "/usr/bin:/bin"
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
			break
		}
	}
	var found error = syscall.ENOENT
	for d := range strings.SplitSeq(path, ":") {
		if !strings.HasPrefix(d, "/") || name == "" {
			continue
		}
		full, err := exec.LookPath(d + "/" + name)
		if err == nil {
			return full, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			found = syscall.EACCES
		}
	}
	return "", found
}

func errno(err error) syscall.Errno {
	var no syscall.Errno
	switch {
	case errors.As(err, &no):
		return no
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	return syscall.ENOENT
}

func (s *Supervisor) follow() {
	state, err := s.proc.Wait()
	e := Event{Exited: true, Code: -1}
	if err == nil {
		status := state.Sys().(syscall.WaitStatus)
		if e.Code = status.ExitStatus(); status.Signaled() {
			e.Signal = status.Signal()
		}
		usage := state.SysUsage().(*syscall.Rusage)
		e.Usage = Usage{User: state.UserTime(), System: state.SystemTime(), MaxRSS: maxRSS(usage)}
	}
	if e.Gone = !s.lives(); !e.Gone {
		s.events <- e
		if !s.keep {
			_ = s.end(drainGrace, false)
		}
		for s.lives() {
			time.Sleep(10 * time.Millisecond)
		}
		e = Event{Gone: true, Usage: e.Usage}
	}
	close(s.over)
	s.mu.Lock()
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.mu.Unlock()
	s.events <- e
}

// lives reports whether the group has a member.
func (s *Supervisor) lives() bool { return syscall.Kill(-s.proc.Pid, 0) == nil }

// Next returns the next event: the main process's end, and that the group is
// empty; one event may tell both.
func (s *Supervisor) Next() (Event, error) { return <-s.events, nil }

// Signal sends sig to the process group.
func (s *Supervisor) Signal(sig syscall.Signal) error {
	select {
	case <-s.over:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-s.proc.Pid, sig)
	}
}

// End sends SIGTERM to the group, and SIGKILL to what is left of it after
// grace; at once when grace is 0. An earlier deadline wins.
func (s *Supervisor) End(grace time.Duration) error { return s.end(grace, true) }

// end does not shorten the grace of a group that was told before, unless asked.
func (s *Supervisor) end(grace time.Duration, shorten bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kill := func() { _ = s.Signal(syscall.SIGKILL) }
	if grace <= 0 {
		kill()
		return nil
	}
	at := time.Now().Add(grace)
	switch {
	case s.deadline == nil:
		s.deadline, s.at = time.AfterFunc(grace, kill), at
	case shorten && at.Before(s.at):
		s.deadline.Reset(grace)
		s.at = at
		return nil
	default:
		return nil
	}
	err := s.Signal(syscall.SIGTERM)
	_ = s.Signal(syscall.SIGCONT)
	return err
}

// Kill kills the group, which may not be all.
func (s *Supervisor) Kill() (all bool) {
	if s.proc != nil {
		_ = s.Signal(syscall.SIGKILL)
	}
	return false
}

// Close lets go of the command after its last event.
func (s *Supervisor) Close() (*os.ProcessState, error) { return nil, nil }
