package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is one command of a confined box, as its guest sees it.
type command struct {
	g      *inside
	conn   *os.File // to the engine's Remote
	report *os.File // from the reaper
	pid    int      // of the reaper
	pidfd  int
	keep   bool
	tree   tree

	mu     sync.Mutex // guards what follows, and writing to conn
	ending bool
	timer  *time.Timer
	at     time.Time
	over   bool
}

// command starts what a new connection asks for. It runs on the thread that
// reapers die with; what comes after is done by goroutines.
func (g *inside) command(conn int) {
	cmd, fds, err := receiveCommand(conn)
	if err != nil {
		unix.Close(conn)
		return
	}
	c := &command{g: g, keep: cmd.Keep, pidfd: -1}
	stage, err := c.start(cmd, fds)
	for _, fd := range fds {
		unix.Close(fd)
	}
	hello := newFrame(kindHello).number(version).bytes()
	if err != nil {
		errno, _ := err.(syscall.Errno)
		_ = writeTo(conn, append(hello, newFrame(kindFailed).number(uint64(errno)).text(stage).bytes()...))
		unix.Close(conn)
		return
	}
	if writeTo(conn, append(hello, newFrame(kindRunning).number(uint64(c.pid)).bytes()...)) != nil {
		c.kill()
	}
	_ = unix.SetNonblock(conn, true)
	c.conn = os.NewFile(uintptr(conn), "engine")
	go c.attend()
	go c.follow()
}

// start forks the command. The error is an errno.
func (c *command) start(cmd Command, fds []int) (stage string, err error) {
	var started, report [2]int
	if err := unix.Pipe2(started[:], unix.O_CLOEXEC); err != nil {
		return "guest", err
	}
	defer unix.Close(started[0])
	if err := unix.Pipe2(report[:], unix.O_CLOEXEC); err != nil {
		unix.Close(started[1])
		return "guest", err
	}
	l, stage, err := c.g.prepare(cmd, [3]int(fds), started[1], report[1])
	if err == nil {
		stage = "guest"
		c.g.mu.Lock() // so that strays meets no reaper it does not know
		if c.pid, err = l.fork(); err == nil {
			c.g.starting[c.pid] = struct{}{}
			defer c.g.known(c)
		}
		c.g.mu.Unlock()
	}
	unix.Close(started[1])
	unix.Close(report[1])
	if err != nil {
		unix.Close(report[0])
		return stage, err
	}
	var f failure
	n := 0
	for {
		n, err = unix.Read(started[0], bytesOf(&f))
		if err != unix.EINTR {
			break
		}
	}
	if err == nil && n == 0 {
		c.pidfd, err = unix.PidfdOpen(c.pid, 0) // it is not waited for yet, so it is this one
		if err == nil {
			_ = unix.SetNonblock(report[0], true)
			c.report = os.NewFile(uintptr(report[0]), "reaper")
			c.tree.root = c.pid
			return "", nil
		}
		stage = "guest"
	}
	_ = unix.Kill(c.pid, unix.SIGKILL)
	_, _ = unix.Wait4(c.pid, nil, unix.WALL, nil)
	unix.Close(report[0])
	if err != nil {
		return stage, err
	}
	errno := syscall.Errno(f.Errno)
	switch {
	case n != len(bytesOf(&f)) || int(f.Stage) >= len(stageNames):
		return "guest", unix.EIO
	case f.Stage == stageDir:
		return "dir", errno
	case f.Stage == stageExec && errno == unix.ENOENT:
		return "interpreter", errno // the file itself is there
	case f.Stage == stageExec:
		return "exec", errno
	}
	return stageNames[f.Stage], errno
}

// follow reports the end of the main process, and of everything.
func (c *command) follow() {
	first, code, sig := c.next()
	if first.Last == 0 && first.MaxRSS > 0 {
		c.write(newFrame(kindExited).number(code).number(sig).used(first).number(0))
		if !c.keep {
			c.end(drainGrace, false)
		}
		_, _, _ = c.next() // until the reaper has ended
	}
	left := uint64(0)
	poll := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	for began := time.Now(); ; {
		n, err := unix.Poll(poll, millis(resist))
		if n > 0 || err != nil && err != unix.EINTR || left > 0 {
			break
		}
		if time.Since(began) >= resist {
			left = 1
			if first.Last == 0 && first.MaxRSS > 0 {
				c.write(newFrame(kindGone).used(first).number(left))
			} else {
				c.write(newFrame(kindExited).number(code).number(sig).used(first).number(0))
				c.write(newFrame(kindGone).used(first).number(left))
			}
			_, _ = unix.Poll(poll, -1)
		}
	}
	var ru unix.Rusage
	for {
		if _, err := unix.Wait4(c.pid, nil, unix.WALL, &ru); err != unix.EINTR {
			break
		}
	}
	all := report{User: uint64(ru.Utime.Nano()), System: uint64(ru.Stime.Nano()), MaxRSS: max(first.MaxRSS, uint64(ru.Maxrss))}
	if !c.g.c.Namespaces {
		c.strays()
	}
	switch {
	case left > 0:
	case first.Last == 0 && first.MaxRSS > 0:
		c.write(newFrame(kindGone).used(all).number(0))
	default:
		c.write(newFrame(kindExited).number(code).number(sig).used(all).number(1))
	}
	c.mu.Lock()
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	unix.Close(c.pidfd)
	c.mu.Unlock()
	c.g.mu.Lock()
	delete(c.g.commands, c)
	c.g.mu.Unlock()
	c.report.Close()
	_ = c.conn.Close()
}

// next reads a report. A reaper that was killed leaves none: then the main
// process died with it. A report that was made has a MaxRSS.
func (c *command) next() (r report, code, sig uint64) {
	if _, err := io.ReadFull(c.report, bytesOf(&r)); err != nil {
		failed := int64(-1)
		return report{}, uint64(failed), uint64(unix.SIGKILL)
	}
	r.MaxRSS = max(r.MaxRSS, 1)
	status := unix.WaitStatus(r.Status)
	if status.Signaled() {
		failed := int64(-1)
		return r, uint64(failed), uint64(status.Signal())
	}
	return r, uint64(status.ExitStatus()), 0
}

// strays kills what a killed reaper left, where no namespace does: it came to
// this process, whose only children are reapers otherwise.
func (c *command) strays() {
	g := c.g
	g.mu.Lock()
	defer g.mu.Unlock()
	var t tree
	for range 16 {
		if t.scan() != nil {
			return
		}
		found := false
		for i := range t.procs {
			p := &t.procs[i]
			if p.parent != os.Getpid() || g.isReaper(p.pid) {
				continue
			}
			found = true
			sub := tree{root: p.pid}
			_, _ = sub.kill()
			_ = unix.Kill(p.pid, unix.SIGKILL)
			_, _ = unix.Wait4(p.pid, nil, unix.WALL, nil)
		}
		if !found {
			return
		}
	}
}

// known says that the reaper of a command is known as such: either the command
// runs, or it has been waited for.
func (g *inside) known(c *command) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.starting, c.pid)
	if c.pidfd >= 0 {
		g.commands[c] = struct{}{}
	}
}

func (g *inside) isReaper(pid int) bool {
	if _, ok := g.starting[pid]; ok {
		return true
	}
	for c := range g.commands {
		if c.pid == pid {
			return true
		}
	}
	return false
}

// attend obeys the engine.
func (c *command) attend() {
	var b [headerSize + 8]byte
	for {
		if _, err := io.ReadFull(c.conn, b[:]); err != nil {
			if !errors.Is(err, os.ErrClosed) {
				c.end(0, true)
			}
			return
		}
		kind, size, err := header(b[:])
		p := payload{rest: b[headerSize:]}
		n := p.number()
		switch {
		case err != nil || size != 8:
			c.end(0, true)
			return
		case kind == kindSignal && n == uint64(unix.SIGKILL):
			c.kill()
		case kind == kindSignal:
			c.sweep(func() { _, _ = c.tree.sweep(unix.Signal(n)) })
		case kind == kindEnd:
			c.end(time.Duration(min(n, uint64(1<<62))), true)
		default:
			c.end(0, true)
			return
		}
	}
}

// end asks the tree to end, and kills it after the grace; an earlier deadline
// wins. Without shorten, a tree that was asked before keeps its grace.
func (c *command) end(grace time.Duration, shorten bool) {
	c.mu.Lock()
	if c.over || c.ending && !shorten {
		c.mu.Unlock()
		return
	}
	first := !c.ending
	c.ending = true
	at := time.Now().Add(grace)
	switch {
	case grace <= 0:
	case c.timer == nil:
		c.timer, c.at = time.AfterFunc(grace, c.kill), at
	case at.Before(c.at):
		c.timer.Reset(grace)
		c.at = at
	}
	c.mu.Unlock()
	switch {
	case grace <= 0:
		c.kill()
	case first:
		c.sweep(func() { _ = c.tree.terminate() })
	}
}

// sweep looks at the tree, one at a time.
func (c *command) sweep(look func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		look()
	}
}

// kill ends everything: with PID 1 dies its namespace.
func (c *command) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if !c.g.c.Namespaces {
		_, _ = c.tree.kill()
		return
	}
	_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
}

func (c *command) write(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(f.bytes())
}

func (f frame) used(r report) frame { return f.number(r.User).number(r.System).number(r.MaxRSS << 10) }
