package sshbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// process is one command of a serving guest.
type process struct {
	box   *box
	ch    ssh.Channel
	grace time.Duration
	keep  bool
	pty   bool
	stop  func() bool // forgets the context
	out   sync.WaitGroup

	writing atomic.Int32 // writers at work

	// What hear has heard; it alone writes these before it closes the channel
	// that tells.
	pid     int
	refused error
	exit    sandbox.Exit
	err     error
	started chan struct{} // it runs
	exited  chan struct{} // its main process has ended, or it is lost
	ended   chan struct{} // exit and err are known
	over    chan struct{} // the server has closed the channel: nothing is left

	done chan struct{} // Wait may answer

	mu       sync.Mutex
	watchdog *time.Timer
	finished bool
}

var _ sandbox.Process = (*process)(nil)

func newProcess(b *box, s session, cmd sandbox.Cmd) *process {
	p := &process{
		box: b, ch: s.ch, grace: cmd.Grace, keep: cmd.Keep, pty: cmd.PTY != nil,
		started: make(chan struct{}), exited: make(chan struct{}), ended: make(chan struct{}), over: make(chan struct{}), done: make(chan struct{}),
	}
	if p.grace == 0 {
		p.grace = defaultGrace
	}
	return p
}

// lost is an error about the connection.
func (p *process) lost(err error) error {
	if why := p.box.link.Err(); why != nil {
		return why
	}
	if errors.Is(err, sandbox.ErrLost) {
		return err
	}
	return fmt.Errorf("%w: %w", sandbox.ErrLost, err)
}

// hear reads what the server tells about the process until it has closed the
// channel. Each event counts once.
func (p *process) hear(requests <-chan *ssh.Request) {
	defer close(p.over)
	started, exited, ended := false, false, false
	for r := range requests {
		switch {
		case r.Type == sshwire.EventFailure && !started && p.refused == nil:
			p.refused = eventFailure(r)
		case r.Type == sshwire.EventStarted && !started:
			var s sshwire.Started
			if json.Unmarshal(r.Payload, &s) == nil {
				started, p.pid = true, s.PID
				close(p.started)
			}
		case r.Type == sshwire.EventExited && started && !exited:
			exited = true
			close(p.exited)
		case r.Type == sshwire.EventExit && exited && !ended:
			var e sshwire.Exit
			if json.Unmarshal(r.Payload, &e) != nil {
				break
			}
			ended = true
			p.exit, p.err = p.wireExit(e)
			close(p.ended)
		}
		_ = r.Reply(false, nil) // there is nothing that a server may ask
	}
	if !exited {
		close(p.exited)
	}
	if !ended {
		p.exit = sandbox.Exit{Code: -1}
		p.err = p.lost(errors.New("the guest let go of it"))
		p.err = fmt.Errorf("%s: process %d: %w", p.box.link.config.Name, p.pid, p.err)
		close(p.ended)
	}
}

// wireExit is how the process ended, in this system's numbers.
func (p *process) wireExit(e sshwire.Exit) (sandbox.Exit, error) {
	if e.Signal != "" {
		if sig, ok := sshwire.SignalOf(e.Signal); ok {
			e.Exit.Signal = sig
		}
		e.Exit.Code = -1
	}
	if e.Lost != "" {
		return sandbox.Exit{Code: -1}, fmt.Errorf("%s: process %d: %w: %.200s", p.box.link.config.Name, p.pid, sandbox.ErrLost, e.Lost)
	}
	return e.Exit, nil
}

// follow waits for the end.
func (p *process) follow() {
	<-p.ended
	p.drain()
	close(p.done)
	if p.keep && p.err == nil {
		<-p.over // its context and the box may still end what is left
	} else {
		p.ch.Close()
		select {
		case <-p.over:
		case <-time.After(p.box.link.config.Patience):
			p.box.link.lose(errSilent)
			<-p.over
		}
	}
	p.stop()
	p.mu.Lock()
	p.finished = true
	if p.watchdog != nil {
		p.watchdog.Stop()
	}
	p.mu.Unlock()
	p.box.using.Done()
}

// drain waits until the output is delivered. All of it had come before the exit
// was told; a server that sends on, or no end of file, loses the connection.
func (p *process) drain() {
	drained := make(chan struct{})
	go func() {
		p.out.Wait()
		close(drained)
	}()
	late := time.NewTimer(p.box.link.config.Patience)
	defer late.Stop()
	for {
		select {
		case <-drained:
			return
		case <-late.C:
			if p.writing.Load() == 0 {
				p.box.link.lose(fmt.Errorf("%w: no end of the output", errSilent))
			}
			late.Reset(p.box.link.config.Patience)
		}
	}
}

// end asks the server to end the tree. A server that does not within the grace
// and some patience loses the connection: nobody waits for ever.
func (p *process) end() {
	p.mu.Lock()
	if p.watchdog == nil && !p.finished {
		p.watchdog = time.AfterFunc(p.grace+p.box.link.config.Patience, func() {
			select {
			case <-p.ended:
				if !p.keep {
					return
				}
			default:
			}
			p.box.link.lose(fmt.Errorf("%w: a command that was to end has not", errSilent))
		})
	}
	p.mu.Unlock()
	_, _ = p.ch.SendRequest(sshwire.RequestEnd, false, nil)
}

func (p *process) PID() int { return p.pid }

func (p *process) Exited() <-chan struct{} { return p.exited }

func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Gone is closed when nothing of the tree is left, which a kept command's Wait
// does not wait for.
func (p *process) Gone() <-chan struct{} { return p.over }

// isOver tells whether nothing is left that could be told anything.
func (p *process) isOver() bool {
	select {
	case <-p.over:
		return true
	case <-p.done:
		return !p.keep
	default:
		return false
	}
}

func (p *process) Signal(sig syscall.Signal) error {
	if p.isOver() {
		return os.ErrProcessDone
	}
	if sig <= 0 || sig > 64 {
		return fmt.Errorf("%s: signal %d: %w", p.box.link.config.Name, int(sig), syscall.EINVAL)
	}
	if _, err := p.ch.SendRequest("signal", false, ssh.Marshal(sshwire.Signal{Name: sshwire.SignalName(sig)})); err != nil {
		return os.ErrProcessDone
	}
	return nil
}

func (p *process) Resize(rows, cols uint16) error {
	if !p.pty {
		return fmt.Errorf("%s: resize: no terminal: %w", p.box.link.config.Name, sandbox.ErrUnsupported)
	}
	if p.isOver() {
		return os.ErrProcessDone
	}
	if _, err := p.ch.SendRequest("window-change", false, ssh.Marshal(sshwire.Winsize{Columns: uint32(cols), Rows: uint32(rows)})); err != nil {
		return os.ErrProcessDone
	}
	return nil
}
