package ssh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// maxConns is how many connections there are at most where a plain sshd takes
// only so many sessions on each.
const maxConns = 5

// conn is the connection to the host, with what was found there.
type conn struct {
	backend *Backend
	target  target
	host    host
	client  *ssh.Client
	outer   *sshbox.Link // of client
	guest   *sshbox.Link // nil: a plain sshd must do
	where   string       // the guest's path
	plain   string       // why there is no guest

	reached, probed, served time.Duration // how long each took

	mu   sync.Mutex
	more []*sshbox.Link // further connections to a plain sshd
	over bool
}

// connect goes to the host and starts the guest there, if it can be.
func (b *Backend) connect(ctx context.Context) (_ *conn, err error) {
	t, err := resolve(b.config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, sandbox.ErrUnavailable)
	}
	c := &conn{backend: b, target: t}
	began := time.Now()
	if c.client, err = dial(ctx, t, b.config, b.accepted); err != nil {
		return nil, err
	}
	c.reached = time.Since(began)
	c.outer = sshbox.New(c.client, b.link())
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	began = time.Now()
	if c.host, err = probe(ctx, c.client); err != nil {
		return nil, fmt.Errorf("%s: %w", t, err)
	}
	c.probed = time.Since(began)
	began = time.Now()
	if err := c.serve(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		if lost := c.outer.Err(); lost != nil {
			return nil, lost
		}
		c.plain = err.Error()
		b.log.Info("a plain sshd must do", "backend", b.config.name(), "host", t.alias, "why", c.plain)
	}
	c.served = time.Since(began)
	return c, nil
}

// serve starts the guest. An error means that a plain sshd must do.
func (c *conn) serve(ctx context.Context) error {
	b := c.backend
	switch {
	case b.config.Guest == nil:
		return errors.New("no guest program is configured")
	case c.host.goos() != "linux":
		return fmt.Errorf("the guest needs Linux, the host runs %.40q", c.host.system)
	case c.host.guests == "":
		return fmt.Errorf("a guest program can be put nowhere: %s", c.host.why)
	}
	file, err := b.config.Guest(c.host.goos(), c.host.goarch())
	if err != nil {
		return fmt.Errorf("no guest program for %s/%s: %w", c.host.goos(), c.host.goarch(), err)
	}
	p, err := b.programs.read(file)
	if err != nil {
		return fmt.Errorf("the guest program for %s/%s: %w", c.host.goos(), c.host.goarch(), err)
	}
	if !c.host.have[p.sum] {
		b.log.Info("uploading the guest program", "backend", b.config.name(), "host", c.target.alias, "bytes", p.size)
	}
	if c.where, err = upload(ctx, c.client, c.host, p); err != nil {
		return err
	}
	ctx, cancel := within(ctx, patience, "the start of the guest")
	defer cancel()
	stream, err := c.exec(ctx, "exec "+quote(c.where)+" guest serve")
	if err != nil {
		return fmt.Errorf("the guest does not start: %w", err)
	}
	client, err := sshbox.Handshake(ctx, stream)
	if err != nil {
		stream.Close()
		return fmt.Errorf("the guest does not start: %w%s", err, stream.said())
	}
	c.guest = sshbox.New(client, b.link())
	return nil
}

// channelStream is the stdin and stdout of a remote command.
type channelStream struct {
	session *ssh.Session
	io.Reader
	io.Writer
	stderr limited
	ended  chan struct{}
}

// exec starts a command that is a stream. It ends with the stream.
func (c *conn) exec(ctx context.Context, command string) (*channelStream, error) {
	session, err := openSession(ctx, c.client)
	if err != nil {
		return nil, err
	}
	s := &channelStream{session: session, ended: make(chan struct{})}
	session.Stderr = &s.stderr
	stop := context.AfterFunc(ctx, func() { session.Close() })
	defer stop()
	if s.Writer, err = session.StdinPipe(); err == nil {
		if s.Reader, err = session.StdoutPipe(); err == nil {
			err = session.Start(command)
		}
	}
	if err != nil {
		session.Close()
		return nil, err
	}
	go func() {
		_ = session.Wait()
		close(s.ended)
	}()
	return s, nil
}

func (s *channelStream) Close() error { return s.session.Close() }

// said is what the command complained of, for an error.
func (s *channelStream) said() string {
	select {
	case <-s.ended:
	case <-time.After(time.Second):
	}
	if text := bytes.TrimSpace(s.stderr.bytes()); len(text) > 0 {
		return fmt.Sprintf(" (%.300q)", text)
	}
	return ""
}

// done tells whether the connection is of no more use.
func (c *conn) done() bool {
	return c.outer.Err() != nil || c.guest != nil && c.guest.Err() != nil
}

// broke tells whether an error is the end of the connection, which may take a
// moment to be noticed.
func (c *conn) broke(err error) bool {
	for _, other := range []error{sandbox.ErrPolicy, sandbox.ErrUnsupported, sandbox.ErrUnavailable, fs.ErrNotExist, fs.ErrPermission} {
		if errors.Is(err, other) {
			return false
		}
	}
	var guest <-chan struct{}
	if c.guest != nil {
		guest = c.guest.Done()
	}
	select {
	case <-c.outer.Done():
	case <-guest:
	case <-time.After(200 * time.Millisecond):
		return false
	}
	return true
}

// close leaves the host; what the guest runs ends.
func (c *conn) close() {
	c.mu.Lock()
	c.over = true
	more := c.more
	c.mu.Unlock()
	if c.guest != nil {
		_ = c.guest.Close()
	}
	for _, l := range more {
		_ = l.Close()
	}
	_ = c.outer.Close()
}

// open makes a box.
func (c *conn) open(ctx context.Context, spec sandbox.Spec) (sandbox.Losable, error) {
	dir := spec.WorkDir
	switch {
	case dir == "" || dir == "~":
		dir = c.host.home
	case strings.HasPrefix(dir, "~/"):
		dir = c.host.home + dir[1:]
	}
	if c.guest != nil {
		return c.guest.Open(ctx, sshwire.BoxRequest{ID: spec.ID, WorkDir: dir, Env: spec.Env, Profile: spec.Profile, Resources: spec.Resources})
	}
	box, err := c.outer.Plain(ctx, sshbox.PlainSpec{ID: spec.ID, WorkDir: dir, Env: spec.Env, Profile: spec.Profile, Resources: spec.Resources, More: c.another})
	if errors.Is(err, sandbox.ErrPolicy) {
		err = fmt.Errorf("%w (there is no guest on %s: %s)", err, c.target.alias, c.plain)
	}
	return box, err
}

// another returns a further connection to a plain sshd, an old one if there is
// one that has not been tried.
func (c *conn) another(ctx context.Context, tried []*sshbox.Link) (*sshbox.Link, error) {
	c.mu.Lock()
	c.more = slices.DeleteFunc(c.more, func(l *sshbox.Link) bool { return l.Err() != nil })
	for _, l := range c.more {
		if !slices.Contains(tried, l) {
			c.mu.Unlock()
			return l, nil
		}
	}
	full := len(c.more)+1 >= maxConns
	c.mu.Unlock()
	if full {
		return nil, fmt.Errorf("there are %d already: %w", maxConns, sandbox.ErrUnavailable)
	}
	client, err := dial(ctx, c.target, c.backend.config, c.backend.accepted)
	if err != nil {
		return nil, err
	}
	l := sshbox.New(client, c.backend.link())
	c.mu.Lock()
	over := c.over
	c.more = append(c.more, l)
	c.mu.Unlock()
	if over {
		_ = l.Close()
		return nil, sandbox.ErrClosed
	}
	return l, nil
}
