package serve

import (
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// unread is how long, once the box is closing, an engine may leave the last
// output of a process unread before it is dropped.
const unread = 2 * time.Second

// run runs one command, and tells the engine what comes of it.
func (x *session) run(c sshwire.Command) {
	cmd := sandbox.Cmd{Args: c.Args, Dir: c.Dir, Env: c.Env, Grace: c.Grace, Keep: c.Keep, PTY: x.pty}
	if c.Stdin {
		cmd.Stdin = x.ch
	}
	if !c.NoStdout {
		cmd.Stdout = &output{x.ch, x.v.room}
	}
	switch {
	case c.Merge:
		cmd.Stderr = cmd.Stdout
	case !c.NoStderr:
		cmd.Stderr = &output{x.ch.Stderr(), x.v.room}
	}
	p, err := x.box.inner.Start(x.ctx, cmd)
	if err != nil {
		x.fail(err)
		return
	}
	x.mu.Lock()
	x.process = p
	x.mu.Unlock()
	x.send(sshwire.EventStarted, sshwire.Started{PID: p.PID()})
	<-p.Exited()
	_, _ = x.ch.SendRequest(sshwire.EventExited, false, nil)
	waited := make(chan struct{})
	go func() { // a box that closes does not wait for an engine that does not read
		select {
		case <-waited:
			return
		case <-x.box.hurry.Done():
		}
		select {
		case <-waited:
		case <-time.After(unread):
			x.ch.Close()
		}
	}()
	exit, err := p.Wait()
	close(waited)
	x.exited(exit, err)
	_ = x.ch.CloseWrite()
	if !c.Keep {
		return
	}
	var gone <-chan struct{} // nil: only the engine ends it
	if g, ok := p.(interface{ Gone() <-chan struct{} }); ok {
		gone = g.Gone()
	}
	select {
	case <-gone:
	case <-x.box.over:
	case <-x.closed:
	}
}

// exited reports the end, for clients in general and for ours.
func (x *session) exited(exit sandbox.Exit, err error) {
	e := sshwire.Exit{Exit: exit}
	switch {
	case err != nil:
		e.Lost = bare(err).Error()
	case exit.Signal != 0:
		e.Signal = sshwire.SignalName(exit.Signal)
		_, _ = x.ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal      string
			Core        bool
			Error, Lang string
		}{Signal: e.Signal}))
	default:
		_, _ = x.ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(exit.Code)}))
	}
	x.send(sshwire.EventExit, e)
}

// output is one stream to the engine. A write waits until the engine has room
// for it; that holds up the process that writes, and nothing else.
type output struct {
	w    io.Writer
	room func()
}

const piece = 32 << 10

func (o *output) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		o.room()
		var m int
		m, err = o.w.Write(b[n:min(len(b), n+piece)])
		n += m
	}
	return n, err
}

// sftp starts the guest's file server in the box, and connects it to the
// channel: it can do nothing that a script could not.
func (x *session) sftp(r *ssh.Request) {
	if x.v.config.Guest == "" {
		_ = r.Reply(false, nil)
		return
	}
	p, err := x.box.inner.Start(x.ctx, sandbox.Cmd{
		Args: []string{x.v.config.Guest, "guest", "sftp"}, Dir: "/", Env: []string{}, Grace: time.Second,
		Stdin: x.ch, Stdout: &output{x.ch, x.v.room},
	})
	if err != nil {
		x.v.log.Warn("the file server does not start", "err", err)
		x.fail(err)
		_ = r.Reply(false, nil)
		return
	}
	_ = r.Reply(true, nil)
	exit, err := p.Wait()
	x.exited(exit, err)
}
