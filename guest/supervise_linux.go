package guest

import (
	"encoding/binary"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	control = 3 // the engine's socket

	// drainGrace is what processes that outlive the main one get between TERM
	// and KILL.
	drainGrace = 200 * time.Millisecond
	// resist is how long the tree may survive SIGKILL before the engine is
	// told: a process in an uninterruptible wait, or one that changed its user.
	resist = 5 * time.Second
)

// supervisor is one guest process. Exactly two threads do its work, both made
// before the command starts: when the tree has used up all processes or memory
// none need be made to kill it.
type supervisor struct {
	tree   tree
	main   int
	keep   bool
	orphan int // eventfd: the main process ended and left others behind
}

// superviseOne runs one command and returns the exit code of the guest.
func superviseOne() int {
	runtime.LockOSThread() // the main process dies with this thread, see Pdeathsig
	volunteer()
	closeOnExec(control)
	// Anyone of the same user may signal or trace us; make it harder.
	var inherited []unix.Signal
	for _, sig := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGALRM, unix.SIGVTALRM, unix.SIGPROF} {
		if ignore(sig) {
			inherited = append(inherited, sig)
		}
	}
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	if err := write(newFrame(kindHello).number(version).bytes()); err != nil {
		return 1
	}
	s := &supervisor{}
	err := s.prepare()
	ready, started := make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(ready)
		<-started
		s.attend()
	}()
	<-ready
	cmd, files, rerr := receiveCommand(control)
	if rerr != nil {
		return 1 // the engine ended, or is none
	}
	pid, stage := 0, "guest"
	if err == nil {
		pid, stage, err = run(cmd, files, inherited)
	}
	for _, fd := range files {
		unix.Close(fd)
	}
	if err != nil {
		errno, _ := err.(syscall.Errno)
		_ = write(newFrame(kindFailed).number(uint64(errno)).text(stage).bytes())
		return 0
	}
	s.main, s.keep = pid, cmd.Keep
	if err := write(newFrame(kindRunning).number(uint64(pid)).bytes()); err != nil {
		_, _ = s.tree.kill()
	}
	close(started)
	return s.reap()
}

// ignore ignores a signal. Unlike os/signal, which would, it needs no thread
// and takes microseconds; the command does not inherit it, as ForkExec resets
// every signal the runtime has once handled. It reports whether the signal was
// ignored before, as nohup leaves SIGHUP: then the runtime has not handled it.
func ignore(sig unix.Signal) (before bool) { return handle(sig, sigIgnore) == sigIgnore }

const sigDefault, sigIgnore = 0, 1

func handle(sig unix.Signal, handler uintptr) (old uintptr) {
	action, was := [8]uintptr{handler}, [8]uintptr{} // struct sigaction
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), uintptr(unsafe.Pointer(&was)), 8, 0, 0)
	return was[0]
}

// closeOnExec marks every descriptor from first up: the command inherits none
// but its own three, whatever the engine's parent had left open.
func closeOnExec(first int) {
	if unix.CloseRange(uint(first), 1<<32-1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	var limit unix.Rlimit // before Linux 5.11
	_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	for fd := first; fd < int(min(limit.Cur, 1<<20)); fd++ {
		unix.CloseOnExec(fd)
	}
}

// prepare does what can be done before the command is known.
func (s *supervisor) prepare() (err error) {
	s.tree.root = os.Getpid()
	s.orphan, err = unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// reap waits for every process of the tree.
func (s *supervisor) reap() int {
	var usage unix.Rusage
	var code int64
	var sig uint64
	ended, told := false, false // the main process; the engine
	options := unix.WALL
	for {
		var status unix.WaitStatus
		var ru unix.Rusage
		pid, err := unix.Wait4(-1, &status, options, &ru)
		switch {
		case err == unix.EINTR:
		case err == nil && pid == 0: // others live
			told, options = true, unix.WALL
			// If this fails the engine is gone, which attend notices.
			_ = write(newFrame(kindExited).number(uint64(code)).number(sig).usage(&usage).number(0).bytes())
			if !s.keep {
				var one [8]byte
				binary.NativeEndian.PutUint64(one[:], 1)
				_, _ = unix.Write(s.orphan, one[:])
			}
		case err == nil:
			add(&usage, &ru)
			if pid != s.main || ended {
				continue
			}
			ended = true
			options |= unix.WNOHANG // is anything left?
			code = int64(status.ExitStatus())
			if status.Signaled() {
				code, sig = -1, uint64(status.Signal())
			}
		case told: // ECHILD: nothing is left
			_ = write(newFrame(kindGone).usage(&usage).number(0).bytes())
			return 0
		default:
			_ = write(newFrame(kindExited).number(uint64(code)).number(sig).usage(&usage).number(1).bytes())
			return 0
		}
	}
}

// attend serves the engine and ends what must end.
func (s *supervisor) attend() {
	var (
		deadline time.Time // zero: none
		killing  time.Time // since when
		pause    = time.Millisecond
		told     bool
		gone     bool // the engine
		ending   bool
	)
	fds := []unix.PollFd{{Fd: control, Events: unix.POLLIN}, {Fd: int32(s.orphan), Events: unix.POLLIN}}
	for {
		timeout := -1
		if !deadline.IsZero() {
			timeout = millis(time.Until(deadline))
		}
		_, err := unix.Poll(fds, timeout)
		if err != nil && err != unix.EINTR {
			os.Exit(1)
		}
		if err == nil && fds[0].Revents != 0 {
			kind, n, err := readOrder()
			switch {
			case err != nil:
				gone, deadline = true, time.Now()
				fds[0].Fd = -1
			case kind == kindSignal && n == uint64(unix.SIGKILL):
				_, _ = s.tree.kill()
			case kind == kindSignal:
				_, _ = s.tree.sweep(unix.Signal(n))
			case kind == kindEnd:
				grace := time.Duration(min(n, uint64(1<<62)))
				if at := time.Now().Add(grace); deadline.IsZero() || at.Before(deadline) {
					deadline = at
				}
				if grace > 0 && !ending {
					s.tree.until = deadline
					_ = s.tree.terminate()
				}
				ending = true
			}
		}
		if err == nil && fds[1].Revents != 0 {
			fds[1].Fd = -1
			if deadline.IsZero() { // else the tree was told already and has its grace
				deadline = time.Now().Add(drainGrace)
				s.tree.until = deadline
				_ = s.tree.terminate()
			}
		}
		if deadline.IsZero() || time.Now().Before(deadline) {
			continue
		}
		if killing.IsZero() {
			killing = time.Now()
		}
		left, _ := s.tree.kill()
		if gone && time.Since(killing) > resistAlone {
			os.Exit(1)
		}
		if time.Since(killing) > resist && !told {
			told = true
			var none unix.Rusage
			_ = write(newFrame(kindGone).usage(&none).number(uint64(max(left, 1))).bytes())
		}
		deadline = time.Now().Add(pause)
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// run starts the command in a session of its own, with no signal ignored, not
// even those this process inherited so. The stage tells what failed.
func run(cmd Command, files []int, inherited []unix.Signal) (pid int, stage string, err error) {
	if err := unix.Chdir(cmd.Dir); err != nil {
		return 0, "dir", err
	}
	defer unix.Chdir("/")
	path, err := lookPath(cmd.Args[0], cmd.Env)
	if err != nil {
		return 0, "program", err
	}
	for _, sig := range inherited {
		handle(sig, sigDefault)
		defer ignore(sig)
	}
	pid, err = syscall.ForkExec(path, cmd.Args, &syscall.ProcAttr{
		Env:   cmd.Env,
		Files: []uintptr{uintptr(files[0]), uintptr(files[1]), uintptr(files[2])},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: cmd.Terminal, Pdeathsig: syscall.SIGKILL},
	})
	if err == unix.ENOENT {
		return 0, "interpreter", err // the file itself is there
	}
	return pid, "exec", err
}

// usage is what u says, of a tree whose processes nothing bounds.
func (f frame) usage(u *unix.Rusage) frame {
	return f.number(uint64(u.Utime.Nano())).number(uint64(u.Stime.Nano())).number(uint64(u.Maxrss) << 10).number(0)
}

func add(sum, u *unix.Rusage) {
	sum.Utime = unix.NsecToTimeval(sum.Utime.Nano() + u.Utime.Nano())
	sum.Stime = unix.NsecToTimeval(sum.Stime.Nano() + u.Stime.Nano())
	sum.Maxrss = max(sum.Maxrss, u.Maxrss)
}
