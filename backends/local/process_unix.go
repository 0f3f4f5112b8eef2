//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

const (
	// drainGrace is how long processes that are kept hold up Wait by holding
	// the pipes.
	drainGrace = 200 * time.Millisecond
	// obey is how long a guest may take, after the grace, to report the end of
	// its tree before it is given up. It is longer than guests wait themselves.
	obey = 10 * time.Second
)

// process is one command with everything it starts.
type process struct {
	box   *box
	sup   supervisor
	pid   int
	began time.Time
	grace time.Duration
	keep  bool
	stdin *os.File // our end of a pipe or terminal, or nil
	tty   *os.File // our end of a terminal, or nil
	meter meter    // nil where nothing measures
	out   []*stream

	exited chan struct{} // closed when the main process has ended
	ended  chan struct{} // closed when Wait may answer
	exit   sandbox.Exit
	crowd  bool // there were as many processes as may be
	err    error
	gone   chan struct{} // closed when nothing of the tree is left

	mu       sync.Mutex
	over     bool // nothing of the tree is left: there is nothing to end
	watchdog *time.Timer
	forced   bool // the watchdog has ended everything
}

var _ sandbox.Process = (*process)(nil)

// supervisor is what runs one command: guest.Supervisor, or in a confined box
// guest.Remote.
type supervisor interface {
	Start(ctx context.Context, cmd guest.Command, files [3]*os.File) (pid int, err error)
	Next() (guest.Event, error)
	Signal(sig syscall.Signal) error
	End(grace time.Duration) error
	Kill() (all bool)
	Close() (*os.ProcessState, error)
}

// launch starts the command; the caller has registered it as a use of the box,
// which ends with the process.
func (b *box) launch(ctx context.Context, cmd sandbox.Cmd, run guest.Command) (_ *process, err error) {
	p := &process{
		box: b, grace: cmd.Grace, keep: cmd.Keep,
		exited: make(chan struct{}), ended: make(chan struct{}), gone: make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	theirs, closers, err := p.streams(cmd)
	defer func() {
		for _, c := range closers {
			c.Close()
		}
		if err != nil {
			p.closePipes()
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := p.supervise(ctx, run, theirs); err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.processes[p] = struct{}{}
	closed := b.closed
	b.mu.Unlock()

	for _, s := range p.out {
		go s.copy()
	}
	switch {
	case p.tty != nil:
		go typeIn(p.stdin, cmd.Stdin)
	case p.stdin != nil:
		go func() {
			_, _ = io.Copy(p.stdin, cmd.Stdin)
			p.stdin.Close()
		}()
	}
	go p.follow(context.AfterFunc(ctx, func() { p.end(p.grace) }))
	if closed { // in the meantime
		p.end(0)
		<-p.gone
	}
	return p, nil
}

// streams opens what connects a command with the caller, and what is to be
// closed once it has its ends.
func (p *process) streams(cmd sandbox.Cmd) (theirs [3]*os.File, closers []io.Closer, err error) {
	if cmd.PTY != nil {
		tty, err := p.terminal(cmd)
		if err != nil {
			return theirs, nil, fmt.Errorf("a terminal: %w", err)
		}
		return [3]*os.File{tty, tty, tty}, []io.Closer{tty}, nil
	}
	null := func() (*os.File, error) {
		f, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
		if err == nil {
			closers = append(closers, f)
		}
		return f, err
	}
	switch in := cmd.Stdin.(type) {
	case nil:
		theirs[0], err = null()
	case *os.File:
		theirs[0] = in
	default:
		if theirs[0], p.stdin, err = inPipe(); err == nil {
			closers = append(closers, theirs[0])
		}
	}
	if err != nil {
		return theirs, closers, err
	}
	for i, w := range []io.Writer{cmd.Stdout, cmd.Stderr} {
		switch {
		case w == nil:
			theirs[1+i], err = null()
		case i == 1 && same(cmd.Stdout, w):
			theirs[2] = theirs[1]
		default:
			var s *stream
			if s, theirs[1+i], err = newStream(w, &p.box.backend.buffers); err == nil {
				p.out = append(p.out, s)
				closers = append(closers, theirs[1+i])
			}
		}
		if err != nil {
			return theirs, closers, err
		}
	}
	return theirs, closers, nil
}

// supervise runs the command under a guest.
func (p *process) supervise(ctx context.Context, run guest.Command, files [3]*os.File) error {
	p.began = time.Now()
	if p.box.inside != nil {
		sup, err := p.box.inside.command()
		if err != nil {
			return err
		}
		p.sup = sup
		p.meter = p.box.inside.meter()
		if p.pid, err = sup.Start(ctx, run, files); err != nil && p.meter != nil {
			p.meter.stop()
		}
		return explain(run, err)
	}
	sup, spare, err := p.box.backend.spare.take()
	if err != nil {
		return err
	}
	p.pid, err = sup.Start(ctx, run, files)
	if spare && errors.Is(err, guest.ErrGone) {
		if sup, err = guest.Spawn(p.box.backend.spare.program); err != nil {
			return err
		}
		p.pid, err = sup.Start(ctx, run, files)
	}
	p.sup = sup
	return explain(run, err)
}

// explain turns what a guest reports into an error for people.
func explain(run guest.Command, err error) error {
	var failed *guest.StartError
	if !errors.As(err, &failed) {
		return err
	}
	switch {
	case failed.Stage == "dir":
		return fmt.Errorf("working directory %q: %w", run.Dir, failed.Errno)
	case failed.Stage == "interpreter":
		return fmt.Errorf("the interpreter named in its first line, or its loader: %w", failed.Errno)
	case failed.Stage == "program" && !strings.Contains(run.Args[0], "/") && errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("not found on PATH: %w", failed.Errno)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("not executable: %w", failed.Errno)
	}
	return failed.Errno
}

// follow waits for the end of the main process and of its tree.
func (p *process) follow(forget func() bool) {
	event, err := p.sup.Next()
	close(p.exited)
	if p.stdin != nil {
		p.stdin.Close()
	}
	if p.box.inside == nil {
		p.box.backend.spare.again()
	}
	p.exit = sandbox.Exit{Code: event.Code, Signal: event.Signal}
	if !event.Exited { // lost, or not to be killed
		p.exit.Code = -1
	}
	p.use(event)
	if err == nil && !event.Gone && p.keep {
		p.drain(drainGrace)
		p.finish(nil)
	}
	for err == nil && !event.Gone {
		event, err = p.sup.Next()
		if !p.keep {
			p.use(event)
		}
	}
	if err != nil && p.box.info.Rung != sandbox.RungNamespaces && p.box.backend.config.Adopt {
		guest.KillAdopted()
	}
	switch {
	case err != nil && p.wasForced():
		p.exit, err = sandbox.Exit{Code: -1, Signal: syscall.SIGKILL}, nil
	case err != nil:
		err = fmt.Errorf("local: process %d: %w: %w", p.pid, sandbox.ErrLost, err)
	case event.Left > 0:
		err = fmt.Errorf("local: process %d: %w: %d processes of its tree resist SIGKILL", p.pid, sandbox.ErrLost, event.Left)
	}
	p.drain(0)
	p.finish(err)

	forget()
	p.mu.Lock()
	p.over = true // an end that comes too late must not kill the box, where others run
	if p.watchdog != nil {
		p.watchdog.Stop()
	}
	p.mu.Unlock()
	_, _ = p.sup.Close()
	p.closePipes()
	if p.box.inside != nil {
		p.box.inside.ended()
	}
	p.box.mu.Lock()
	delete(p.box.processes, p)
	p.box.mu.Unlock()
	close(p.gone)
	p.box.using.Done()
}

// use keeps the latest usage.
func (p *process) use(e guest.Event) {
	p.crowd = p.crowd || e.Crowded
	if u := e.Usage; u != (guest.Usage{}) {
		p.exit.Usage = sandbox.Usage{User: u.User, System: u.System, MaxRSS: u.MaxRSS}
	}
}

// drain waits until the output written so far was delivered; what holds a pipe
// open gets the grace to write more.
func (p *process) drain(grace time.Duration) {
	stop := time.Now().Add(grace)
	for _, s := range p.out {
		s.stop(stop)
	}
	for _, s := range p.out {
		<-s.done
	}
}

// finish lets Wait answer; only the first call counts.
func (p *process) finish(err error) {
	select {
	case <-p.ended:
	default:
		p.exit.Usage.Wall = time.Since(p.began)
		if p.meter != nil {
			p.measure()
		}
		p.err = err
		close(p.ended)
	}
}

// measure notes the peak and, where the command failed, the limit that was hit
// meanwhile.
func (p *process) measure() {
	memory, limit := p.meter.read()
	p.meter.stop()
	p.exit.Usage.MaxMemory = memory
	if limit == "" && p.crowd {
		limit = sandbox.LimitPIDs
	}
	if p.exit.Code != 0 {
		p.exit.Limit = limit
	}
}

func (p *process) closePipes() {
	for _, s := range p.out {
		s.close()
	}
	if p.stdin != nil {
		p.stdin.Close()
	}
}

// end sends TERM to the tree and KILL after the grace. A guest that does not
// obey is killed with all it has, and nobody waits for ever.
func (p *process) end(grace time.Duration) {
	_ = p.sup.End(grace) // an error means that it ends already
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchdog == nil && !p.over {
		p.watchdog = time.AfterFunc(grace+obey, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if !p.over {
				p.forced = p.sup.Kill()
			}
		})
	}
}

// wasForced reports whether the watchdog has ended everything: then it is known
// what became of the command.
func (p *process) wasForced() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.forced
}

func (p *process) PID() int { return p.pid }

func (p *process) Exited() <-chan struct{} { return p.exited }

// Gone is closed when nothing of the tree is left, which Wait of a kept command
// does not wait for.
func (p *process) Gone() <-chan struct{} { return p.gone }

func (p *process) Wait() (sandbox.Exit, error) {
	<-p.ended
	return p.exit, p.err
}

func (p *process) Signal(sig syscall.Signal) error {
	select {
	case <-p.gone:
		return os.ErrProcessDone
	default:
	}
	if sig <= 0 || sig > 64 {
		return fmt.Errorf("local: signal %d: %w", int(sig), syscall.EINVAL)
	}
	if err := p.sup.Signal(sig); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

func (p *process) Resize(rows, cols uint16) error {
	if p.tty == nil {
		return fmt.Errorf("local: resize: no terminal: %w", sandbox.ErrUnsupported)
	}
	select {
	case <-p.gone:
		return os.ErrProcessDone
	default:
	}
	if err := setSize(p.tty, rows, cols); err != nil {
		return fmt.Errorf("local: resize: %w", err)
	}
	return nil
}
