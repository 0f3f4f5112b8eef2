package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

var errState = errors.New("a request out of order")

// session is one channel for one process or one sftp connection.
type session struct {
	v      *server
	ch     ssh.Channel
	ctx    context.Context // done when the command is to end
	end    context.CancelCauseFunc
	closed chan struct{} // the engine has closed the channel, or all ends

	box  *box
	pty  *sandbox.Winsize
	part []byte
	busy bool // a command or an sftp server was asked for

	mu      sync.Mutex
	process sandbox.Process
}

// session serves one session channel. Requests are read at any time: they
// share one loop with every other channel.
func (v *server) session(c ssh.NewChannel) {
	ch, requests, err := c.Accept()
	if err != nil {
		return
	}
	x := &session{v: v, ch: ch, closed: make(chan struct{})}
	x.ctx, x.end = context.WithCancelCause(context.WithoutCancel(v.ended))
	defer x.end(nil)
	var running sync.WaitGroup
	for r := range requests {
		run, err := x.request(r)
		if err != nil {
			x.fail(err)
			_ = r.Reply(false, nil)
			ch.Close()
			continue
		}
		if run != nil {
			running.Go(func() {
				defer ch.Close()
				run()
			})
			continue // which replies
		}
		_ = r.Reply(true, nil)
	}
	x.end(errors.New("the engine has closed the channel"))
	close(x.closed)
	running.Wait()
}

// request obeys one request. What takes its time is returned.
func (x *session) request(r *ssh.Request) (run func(), err error) {
	switch r.Type {
	case sshwire.RequestBox:
		return nil, x.useBox(r.Payload)
	case "pty-req":
		var p sshwire.PTY
		if err := ssh.Unmarshal(r.Payload, &p); err != nil || x.busy {
			return nil, errState
		}
		x.pty = &sandbox.Winsize{Rows: clamp(p.Rows), Cols: clamp(p.Columns)}
	case sshwire.RequestPart:
		if x.busy || len(x.part)+len(r.Payload) > sshwire.MaxCommand {
			return nil, errState
		}
		x.part = append(x.part, r.Payload...)
	case sshwire.RequestExec:
		if x.busy || x.box == nil {
			return nil, errState
		}
		var cmd sshwire.Command
		if err := json.Unmarshal(append(x.part, r.Payload...), &cmd); err != nil {
			return nil, fmt.Errorf("the command: %w", err)
		}
		x.busy, x.part = true, nil
		return func() { _ = r.Reply(true, nil); x.run(cmd) }, nil
	case "subsystem":
		var name struct{ Name string }
		if err := ssh.Unmarshal(r.Payload, &name); err != nil || x.busy || x.box == nil || name.Name != "sftp" {
			return nil, errState
		}
		x.busy = true
		return func() { x.sftp(r) }, nil
	case "signal":
		var s sshwire.Signal
		if err := ssh.Unmarshal(r.Payload, &s); err != nil {
			return nil, errState
		}
		if sig, ok := sshwire.SignalOf(s.Name); ok {
			x.with(func(p sandbox.Process) { _ = p.Signal(sig) })
		}
	case "window-change":
		var w sshwire.Winsize
		if err := ssh.Unmarshal(r.Payload, &w); err != nil {
			return nil, errState
		}
		x.with(func(p sandbox.Process) { _ = p.Resize(clamp(w.Rows), clamp(w.Columns)) })
	case sshwire.RequestEnd:
		x.end(errors.New("the engine ends the command"))
	default:
		_ = r.Reply(false, nil)
	}
	return nil, nil
}

func (x *session) useBox(payload []byte) error {
	var id sshwire.BoxID
	if err := ssh.Unmarshal(payload, &id); err != nil || x.box != nil {
		return errState
	}
	x.v.mu.Lock()
	x.box = x.v.boxes[id.ID]
	x.v.mu.Unlock()
	if x.box == nil {
		return sandbox.ErrClosed
	}
	return nil
}

func clamp(n uint32) uint16 { return uint16(min(n, 1<<16-1)) }

// with does something to the process, if there is one.
func (x *session) with(do func(sandbox.Process)) {
	x.mu.Lock()
	p := x.process
	x.mu.Unlock()
	if p != nil {
		do(p)
	}
}

// send sends an event.
func (x *session) send(event string, payload any) {
	b, err := json.Marshal(payload)
	if err != nil {
		return
	}
	_, _ = x.ch.SendRequest(event, false, b)
}

func (x *session) fail(err error) {
	_, _ = x.ch.SendRequest(sshwire.EventFailure, false, failure(bare(err)))
}
