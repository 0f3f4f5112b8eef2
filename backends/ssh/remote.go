package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// patience bounds how long a host may take for something small.
const patience = 30 * time.Second

// maxOutput bounds what a command of ours may say.
const maxOutput = 256 << 10

// run runs one command by the user's login shell and returns its output. It is
// for small things of ours: the command stands in the host's process list.
func run(ctx context.Context, client *ssh.Client, command string, stdin io.Reader) (stdout, stderr []byte, err error) {
	s, err := openSession(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	var out, errs limited
	s.Stdin, s.Stdout, s.Stderr = stdin, &out, &errs
	err = s.Run(command)
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return out.bytes(), errs.bytes(), err
}

// openSession opens a session; the context bounds it.
func openSession(ctx context.Context, client *ssh.Client) (*ssh.Session, error) {
	type result struct {
		s   *ssh.Session
		err error
	}
	opened := make(chan result, 1)
	go func() {
		s, err := client.NewSession()
		opened <- result{s, err}
	}()
	select {
	case r := <-opened:
		return r.s, r.err
	case <-ctx.Done():
		go func() {
			if r := <-opened; r.err == nil {
				r.s.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// limited keeps the beginning of what is written.
type limited struct {
	mu   sync.Mutex
	text []byte
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, b[:min(len(b), maxOutput-len(l.text))]...)
	return len(b), nil
}

func (l *limited) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.text)
}

// quote quotes for a shell. Login shells differ in what they make of quotes:
// what is quoted here holds no "!" and no newline.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// within bounds a context.
func within(ctx context.Context, d time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("%s has not ended within %v: %w", what, d, sandbox.ErrUnavailable))
}

// exitCode is a remote command's exit status, -1 when it has none.
func exitCode(err error) int {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitStatus()
	}
	return -1
}
