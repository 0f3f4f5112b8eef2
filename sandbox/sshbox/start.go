package sshbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// defaultGrace is what a command gets between SIGTERM and SIGKILL.
const defaultGrace = 5 * time.Second

// Start implements sandbox.Sandbox.
func (b *box) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	called := ""
	if len(cmd.Args) > 0 {
		called = cmd.Args[0]
	}
	p, err := b.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("%s: start %q: %w", b.link.config.Name, called, err)
	}
	return p, nil
}

func (b *box) start(ctx context.Context, cmd sandbox.Cmd) (*process, error) {
	switch {
	case len(cmd.Args) == 0:
		return nil, errors.New("no program given")
	case cmd.Policy != nil && !cmd.Policy.Unconfined, cmd.Policy != nil && b.info.Rung != "":
		return nil, fmt.Errorf("a policy for one command: %w: open a box with it instead", sandbox.ErrPolicy)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	size := 0
	for _, text := range slices.Concat(cmd.Args, cmd.Env) {
		size += len(text)
	}
	var message []byte
	if size <= sshwire.MaxCommand { // JSON is no shorter
		var err error
		if message, err = json.Marshal(wireCommand(cmd)); err != nil {
			return nil, err
		}
		size = len(message)
	}
	if size > sshwire.MaxCommand {
		return nil, fmt.Errorf("arguments and environment are too long: %w", syscall.E2BIG)
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	p, err := b.launch(ctx, cmd, message)
	if err != nil {
		b.using.Done()
		return nil, err
	}
	return p, nil
}

// wireCommand is a command without its streams.
func wireCommand(cmd sandbox.Cmd) sshwire.Command {
	return sshwire.Command{
		Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, Grace: cmd.Grace, Keep: cmd.Keep,
		Stdin: cmd.Stdin != nil, Merge: cmd.PTY == nil && same(cmd.Stdout, cmd.Stderr),
		NoStdout: cmd.Stdout == nil, NoStderr: cmd.Stderr == nil || cmd.PTY != nil,
	}
}

// same reports whether two writers are one. Writers need not be comparable.
func same(a, b io.Writer) bool {
	if a == nil || reflect.TypeOf(a) != reflect.TypeOf(b) || !reflect.ValueOf(a).Comparable() {
		return false
	}
	return a == b
}

// launch starts the command; the caller has registered it as a use of the box,
// which ends with the process.
func (b *box) launch(ctx context.Context, cmd sandbox.Cmd, message []byte) (*process, error) {
	s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	p := newProcess(b, s, cmd)
	go p.hear(s.requests)
	err = p.ask(cmd, message)
	if err == nil {
		err = p.greet(ctx)
	}
	if err != nil {
		s.ch.Close() // which ends the command, if it runs after all
		return nil, err
	}
	p.stop = context.AfterFunc(ctx, p.end)
	p.copyOut(cmd)
	if cmd.Stdin != nil {
		go p.copyIn(cmd.Stdin)
	}
	go p.follow()
	return p, nil
}

// ask sends what is to be run.
func (p *process) ask(cmd sandbox.Cmd, message []byte) error {
	s := session{ch: p.ch}
	if cmd.PTY != nil {
		err := s.send("pty-req", ssh.Marshal(sshwire.PTY{Term: "xterm", Columns: uint32(cmd.PTY.Cols), Rows: uint32(cmd.PTY.Rows)}))
		if err != nil {
			return p.lost(err)
		}
	}
	for len(message) > sshwire.MaxPart {
		if err := s.send(sshwire.RequestPart, message[:sshwire.MaxPart]); err != nil {
			return p.lost(err)
		}
		message = message[sshwire.MaxPart:]
	}
	if err := s.send(sshwire.RequestExec, message); err != nil {
		return p.lost(err)
	}
	return nil
}

// greet waits until the command runs or cannot be run.
func (p *process) greet(ctx context.Context) error {
	late := time.NewTimer(p.box.link.config.Patience)
	defer late.Stop()
	select {
	case <-p.started:
		return nil
	case <-p.ended: // before it has begun
		select {
		case <-p.started:
			return nil
		default:
		}
		if p.refused != nil {
			return p.refused
		}
		return p.lost(io.ErrUnexpectedEOF)
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late.C:
		p.box.link.lose(errSilent)
		return fmt.Errorf("%w: %w", sandbox.ErrLost, errSilent)
	}
}
