package guest

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is one command of a confined box, as its guest sees it.
type command struct {
	g      *inside
	conn   *os.File // to the engine's Remote
	report *os.File // from the reaper
	reaper *reaper
	pid    int // of it
	pidfd  int
	keep   bool
	most   int // processes there may be, the guest's own included; 0 for no bound

	looking sync.Mutex // held before mu
	tree    tree

	mu     sync.Mutex // guards what follows, and writing to conn
	ending bool
	timer  *time.Timer
	at     time.Time
	last   *time.Timer // kills the reaper too
	over   bool
}

// reapWithin is how long a reaper that was told to kill everything may take to
// report it, before it is killed itself, and what was used is not known.
const reapWithin = 500 * time.Millisecond

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

// start has a reaper start the command. The error is an errno.
func (c *command) start(cmd Command, fds []int) (stage string, err error) {
	g := c.g
	r := g.ahead
	g.ahead = nil
	if r != nil && !r.fits(cmd) {
		go g.bury(r)
		r = nil
	}
	if r == nil {
		if r, err = g.newReaper(roomOf(cmd)); err != nil {
			return "guest", err
		}
	}
	c.most = g.bound(r.l)
	if stage, err = r.run(cmd, fds); err == nil {
		c.pid, stage = r.pid, "guest"
		c.pidfd, err = unix.PidfdOpen(c.pid, 0) // it is not waited for yet, so it is this one
	}
	if err != nil {
		g.bury(r)
		return stage, err
	}
	_ = unix.SetNonblock(r.report, true)
	c.report = os.NewFile(uintptr(r.report), "reaper")
	r.report = -1
	r.close()
	c.reaper = r
	c.tree.root = c.pid
	g.known(c)
	return "", nil
}

// follow reports the end of the main process, and of everything.
func (c *command) follow() {
	first, code, sig := c.next()
	last := first
	outlived := first.Last == 0 && first.MaxRSS > 0 // the main process, by others
	if outlived {
		c.write(newFrame(kindExited).number(code).number(sig).used(first, false).number(0))
		if !c.keep {
			c.end(drainGrace, false)
		}
		last, _, _ = c.next()
	}
	// Where it is PID 1, what it says of the end of everything is true, and its
	// own, with that of its namespaces, nobody needs to wait for.
	early := last.Last == 1 && c.g.c.Namespaces
	if early {
		c.gone(outlived, code, sig, last, 0)
	}
	one := [8]byte{1}
	_, _ = unix.Write(c.g.ended, one[:])
	ru, left := c.bury(func() { c.gone(outlived, code, sig, first, 1) })
	if !c.g.c.Namespaces {
		c.strays()
	}
	if !early && left == 0 {
		all := report{User: uint64(ru.Utime.Nano()), System: uint64(ru.Stime.Nano()), MaxRSS: max(first.MaxRSS, uint64(ru.Maxrss))}
		c.gone(outlived, code, sig, all, 0)
	}
	c.tree.enough.Store(true)
	c.looking.Lock()
	c.mu.Lock()
	c.over = true // whatever was said: its number, memory and descriptor are others' now
	if c.last != nil {
		c.last.Stop()
	}
	c.reaper.free()
	unix.Close(c.pidfd)
	c.mu.Unlock()
	c.looking.Unlock()
	c.g.mu.Lock()
	delete(c.g.commands, c)
	c.g.mu.Unlock()
	c.report.Close()
	_ = c.conn.Close()
}

// gone reports that nothing is left, or how many could not be killed; and the
// end of the main process unless that was said before.
func (c *command) gone(exited bool, code, sig uint64, used report, left uint64) {
	if left == 0 {
		c.mu.Lock()
		c.over = true
		if c.timer != nil {
			c.timer.Stop()
		}
		c.mu.Unlock()
	}
	crowded := c.crowded()
	switch {
	case exited:
		c.write(newFrame(kindGone).used(used, crowded).number(left))
	case left == 0:
		c.write(newFrame(kindExited).number(code).number(sig).used(used, crowded).number(1))
	default:
		c.write(newFrame(kindExited).number(code).number(sig).used(used, crowded).number(0))
		c.write(newFrame(kindGone).used(used, crowded).number(left))
	}
}

// crowded reports whether there were as many processes as there may be, when the
// tree was looked at to be ended: the kernel does not tell of forks it refused.
// By then the main process may have made room for one. Without namespaces others'
// are seen too.
func (c *command) crowded() bool {
	c.tree.enough.Store(true)
	c.looking.Lock()
	defer c.looking.Unlock()
	return c.most > 0 && c.g.c.Namespaces && c.tree.most+1 >= c.most
}

// bury waits for the reaper's end. One that stays too long is told of.
func (c *command) bury(late func()) (ru unix.Rusage, left int) {
	poll := []unix.PollFd{{Fd: int32(c.pidfd), Events: unix.POLLIN}}
	for began := time.Now(); ; {
		n, err := unix.Poll(poll, millis(resist))
		if n > 0 || err != nil && err != unix.EINTR {
			break
		}
		if time.Since(began) >= resist {
			left = 1
			late()
			_, _ = unix.Poll(poll, -1)
			break
		}
	}
	for {
		if _, err := unix.Wait4(c.pid, nil, unix.WALL, &ru); err != unix.EINTR {
			return ru, left
		}
	}
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
		if t.scan(0) != nil {
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
		go c.sweep(func() { _ = c.tree.terminate() }) // what comes next may be the order to kill
	}
}

// sweep looks at the tree, one at a time.
func (c *command) sweep(look func()) {
	c.looking.Lock()
	defer c.looking.Unlock()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if !over {
		look()
	}
}

// kill ends everything: the reaper kills all others at once, so that it hears
// what they used. With PID 1 dies its namespace, whatever it still has to say.
// It does not wait for a look at the tree: a thousand processes, each in a session
// and so in a scheduling group of its own, leave the guest next to no time.
func (c *command) kill() {
	c.tree.enough.Store(true)
	if !c.g.c.Namespaces {
		c.sweep(func() { _, _ = c.tree.kill() })
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over && c.last == nil {
		c.last = time.AfterFunc(reapWithin, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if !c.over {
				_ = unix.PidfdSendSignal(c.pidfd, unix.SIGKILL, nil, 0)
			}
		})
		atomic.StoreUint32(&c.reaper.l.ending, endAsked)
		_ = unix.PidfdSendSignal(c.pidfd, unix.SIGCHLD, nil, 0)
	}
}

func (c *command) write(f frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = c.conn.Write(f.bytes())
}

func (f frame) used(r report, crowded bool) frame {
	f = f.number(r.User).number(r.System).number(r.MaxRSS << 10)
	if crowded {
		return f.number(1)
	}
	return f.number(0)
}
