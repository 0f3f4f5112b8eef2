package sshbox

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

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

const (
	// plainDrain is how long what outlives the main process holds up Wait by
	// holding the pipes; to it comes the time that a message takes.
	plainDrain = 200 * time.Millisecond
	// sweepGrace is what processes that outlive the main one get between TERM
	// and KILL.
	sweepGrace = 200 * time.Millisecond
	// plainObey is how long, after a KILL, a host may take to tell the end.
	plainObey = 10 * time.Second
	// unknownSignal stands for one that the server has no name for.
	unknownSignal = syscall.Signal(127)
)

// plainProcess is one command on a plain sshd.
type plainProcess struct {
	box   *plainBox
	link  *Link
	ch    ssh.Channel
	tag   string
	grace time.Duration
	keep  bool
	pty   bool
	pid   int
	began time.Time
	stop  func() bool // forgets the context

	exited chan struct{} // its main process has ended, or it is lost
	exit   sandbox.Exit
	err    error

	streams int           // how many pumps there are
	drained chan struct{} // gets one for each pump that has delivered all
	drain   chan struct{} // closed when the drain grace begins to run
	done    chan struct{} // Wait may answer
	over    chan struct{} // the channel has ended

	ending sync.Once
}

var _ sandbox.Process = (*plainProcess)(nil)

func newPlainProcess(b *plainBox, l *Link, s session, cmd sandbox.Cmd, tag string) *plainProcess {
	p := &plainProcess{
		box: b, link: l, ch: s.ch, tag: tag, grace: cmd.Grace, keep: cmd.Keep, pty: cmd.PTY != nil,
		exited: make(chan struct{}), drained: make(chan struct{}, 2), drain: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	return p
}

// hear reads what the server tells about the process. The first word counts.
func (p *plainProcess) hear(requests <-chan *ssh.Request) {
	told := false
	for r := range requests {
		var exit *sandbox.Exit
		switch r.Type {
		case "exit-status":
			var m struct{ Code uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil {
				exit = &sandbox.Exit{Code: int(m.Code)}
			}
		case "exit-signal":
			var m struct {
				Name      string
				Core      bool
				Text, Tag string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil {
				exit = &sandbox.Exit{Code: -1, Signal: unknownSignal}
				if sig, ok := sshwire.SignalOf(m.Name); ok {
					exit.Signal = sig
				}
			}
		}
		if exit != nil && !told {
			told, p.exit = true, *exit
			close(p.exited)
		}
		_ = r.Reply(false, nil)
	}
	if !told {
		p.exit = sandbox.Exit{Code: -1}
		why := p.link.Err()
		if why == nil {
			why = fmt.Errorf("%w: the server did not tell how it ended", sandbox.ErrLost)
		}
		p.err = fmt.Errorf("%s: process %d: %w", p.box.link.config.Name, p.pid, why)
		close(p.exited)
	}
	close(p.over)
}

// pump delivers one stream to its end or, once the drain grace runs, until
// nothing has come for so long; then the rest is thrown away, for as long as
// something holds the pipe. Time that the writer takes does not count.
func (p *plainProcess) pump(r io.Reader, w io.Writer, begin func(*bufio.Reader) bool) {
	if begin != nil {
		in := bufio.NewReaderSize(r, piece)
		if !begin(in) {
			_, _ = io.Copy(io.Discard, in)
			p.drained <- struct{}{}
			return
		}
		r = in
	}
	chunks := make(chan []byte)
	go func() {
		defer close(chunks)
		for {
			buf := make([]byte, piece)
			n, err := r.Read(buf)
			if n > 0 {
				chunks <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	}()
	grace := plainDrain + time.Duration(p.box.keeper.trip.Load())
	var hungry <-chan time.Time
	timer := time.NewTimer(grace)
	timer.Stop()
	defer timer.Stop()
	drain := p.drain
	for {
		began := time.Now()
		if drain == nil {
			timer.Reset(grace)
			hungry = timer.C
		}
		select {
		case chunk, ok := <-chunks:
			if !ok {
				p.drained <- struct{}{}
				return
			}
			if drain == nil {
				grace = max(0, grace-time.Since(began))
			}
			if w != nil {
				if _, err := w.Write(chunk); err != nil {
					w = nil
				}
			}
		case <-drain:
			drain = nil
		case <-hungry:
			p.drained <- struct{}{}
			for range chunks {
			}
			return
		}
	}
}

// follow waits for the end.
func (p *plainProcess) follow() {
	<-p.exited
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		if !p.keep || p.err != nil {
			p.sweep()
		}
	}()
	late := swept
	if p.keep {
		close(p.drain)
		late = nil
	}
	for left := p.streams; left > 0; {
		select {
		case <-p.drained:
			left--
		case <-late:
			late = nil
			close(p.drain)
		}
	}
	p.exit.Usage.Wall = time.Since(p.began)
	close(p.done)
	<-swept
	if p.keep && p.err == nil {
		select {
		case <-p.over:
		case <-p.box.keeper.gone:
		}
	}
	p.ch.Close()
	select {
	case <-p.over:
	case <-time.After(p.link.config.Patience):
		p.link.lose(errSilent)
	}
	if p.keep { // its context may still end what is left
		context.AfterFunc(p.box.ctx, func() { p.stop() })
	} else {
		p.stop()
	}
	p.box.using.Done()
}

// sweep ends what the main process left behind.
func (p *plainProcess) sweep() {
	ctx := context.Background()
	n, err := p.box.keeper.signal(ctx, "TERM", p.tag, p.pid)
	if err != nil || n == 0 {
		return
	}
	_, _ = p.box.keeper.signal(ctx, "CONT", p.tag, 0)
	select {
	case <-time.After(sweepGrace):
	case <-p.box.keeper.gone:
		return
	}
	p.kill(p.pid)
}

// kill kills until nothing is found. The group of pid, which may be that of
// others once it is empty, is told once.
func (p *plainProcess) kill(pid int) {
	for stop := time.Now().Add(plainObey); time.Now().Before(stop); pid = 0 {
		if n, err := p.box.keeper.signal(context.Background(), "KILL", p.tag, pid); err != nil || n == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.link.log.Warn("processes resist SIGKILL", "backend", p.link.config.Name, "pid", p.pid)
}

// end asks the tree to end and kills it after the grace. A host that does not
// tell its end is not waited for.
func (p *plainProcess) end(grace time.Duration) {
	p.ending.Do(func() {
		_, _ = p.box.keeper.signal(context.Background(), "TERM", p.tag, p.group())
		_, _ = p.box.keeper.signal(context.Background(), "CONT", p.tag, p.group())
		ended := p.exited
		if p.keep {
			ended = p.box.keeper.gone
		}
		select {
		case <-ended:
			return // what is left is swept
		case <-time.After(grace):
		}
		p.kill(p.group())
		select {
		case <-p.exited:
		case <-time.After(plainObey):
			p.ch.Close()
		}
	})
}

// group is the process group of a main process that has not ended.
func (p *plainProcess) group() int {
	select {
	case <-p.exited:
		return 0
	default:
		return p.pid
	}
}

func (p *plainProcess) PID() int { return p.pid }

func (p *plainProcess) Exited() <-chan struct{} { return p.exited }

func (p *plainProcess) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

func (p *plainProcess) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		if !p.keep {
			return os.ErrProcessDone
		}
	default:
	}
	name := sshwire.SignalName(sig)
	if sig <= 0 || sig > 64 || !shellName(name) {
		return fmt.Errorf("%s: signal %d: %w", p.box.link.config.Name, int(sig), syscall.EINVAL)
	}
	n, err := p.box.keeper.signal(context.Background(), name, p.tag, p.group())
	switch {
	case err != nil && !errors.Is(err, sandbox.ErrClosed):
		return fmt.Errorf("%s: signal process %d: %w", p.box.link.config.Name, p.pid, err)
	case err != nil || n == 0:
		return os.ErrProcessDone
	}
	return nil
}

func (p *plainProcess) Resize(rows, cols uint16) error {
	if !p.pty {
		return fmt.Errorf("%s: resize: no terminal: %w", p.box.link.config.Name, sandbox.ErrUnsupported)
	}
	if _, err := p.ch.SendRequest("window-change", false, ssh.Marshal(sshwire.Winsize{Columns: uint32(cols), Rows: uint32(rows)})); err != nil {
		return os.ErrProcessDone
	}
	return nil
}
