package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
)

// closeGrace bounds how long Backend.Close lets processes end by themselves.
const closeGrace = 2 * time.Second

// Backend makes boxes on one host. It implements sandbox.Elsewhere: work
// directories are the host's, "" is the home directory there and ~ stands for
// it.
type Backend struct {
	config   Config
	log      *slog.Logger
	programs programs
	turn     chan struct{} // held while connecting

	mu     sync.Mutex
	closed bool
	conn   *conn
	boxes  map[sandbox.Sandbox]struct{}
}

var _ sandbox.Elsewhere = (*Backend)(nil)

// New returns a backend. It connects when it first must.
func New(config Config) *Backend {
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Backend{config: config, log: log, turn: make(chan struct{}, 1), boxes: map[sandbox.Sandbox]struct{}{}}
}

// Elsewhere implements sandbox.Elsewhere.
func (b *Backend) Elsewhere() {}

func (b *Backend) link() sshbox.Config {
	return sshbox.Config{Name: b.config.name(), Keepalive: b.config.Keepalive, Log: b.log}
}

func (b *Backend) accepted(line string) {
	b.log.Warn("a host that was not known is from now on", "backend", b.config.name(), "known_hosts", line)
}

// Create makes a box. On a plain sshd every policy but open, and every resource
// limit, is refused with sandbox.ErrPolicy.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	made, err := b.create(ctx, spec)
	if err != nil {
		name := b.config.name() + ": "
		if strings.HasPrefix(err.Error(), name) { // sshbox has said it
			return nil, err
		}
		return nil, fmt.Errorf("%screate: %w", name, err)
	}
	return made, nil
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	switch err := context.Cause(ctx); {
	case err != nil:
		return nil, err
	case len(spec.Mounts) > 0:
		return nil, fmt.Errorf("%d mounts: another host does not see this machine's files: %w", len(spec.Mounts), sandbox.ErrUnsupported)
	case spec.Image != "":
		return nil, fmt.Errorf("image %q: it needs a container backend: %w", spec.Image, sandbox.ErrUnsupported)
	}
	if spec.ID == "" {
		spec.ID = strings.ToLower(rand.Text()[:16])
	}
	for {
		c, fresh, err := b.take(ctx)
		if err != nil {
			return nil, err
		}
		inner, err := c.open(ctx, spec)
		if err != nil {
			// A connection that had been lost unnoticed: nothing has begun.
			if !fresh && ctx.Err() == nil && c.broke(err) {
				continue
			}
			return nil, err
		}
		return b.register(ctx, inner)
	}
}

// take returns the connection, a fresh one when there is none or it was lost.
func (b *Backend) take(ctx context.Context) (c *conn, fresh bool, err error) {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	}
	b.mu.Lock()
	c, closed := b.conn, b.closed
	b.mu.Unlock()
	switch {
	case closed:
		return nil, false, sandbox.ErrClosed
	case c != nil && !c.done():
		return c, false, nil
	case c != nil:
		c.close() // the guest may have ended and the host still be there
	}
	if c, err = b.connect(ctx); err != nil {
		return nil, false, err
	}
	b.mu.Lock()
	b.conn = c
	closed = b.closed
	b.mu.Unlock()
	if closed {
		c.close()
		return nil, false, sandbox.ErrClosed
	}
	return c, true, nil
}

// box is a box that its backend knows of.
type box struct {
	sandbox.Losable
	backend *Backend
}

// audited is one that can tell what was left for later.
type audited struct {
	*box
	sandbox.Auditor
}

func (b *Backend) register(ctx context.Context, inner sandbox.Losable) (sandbox.Sandbox, error) {
	made := &box{inner, b}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.boxes[made] = struct{}{}
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(sandbox.ErrClosed, inner.Close(ctx))
	}
	if a, ok := inner.(sandbox.Auditor); ok {
		return audited{made, a}, nil
	}
	return made, nil
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	err := b.Losable.Close(ctx)
	b.backend.mu.Lock()
	delete(b.backend.boxes, b)
	b.backend.mu.Unlock()
	return err
}

// Close ends every box and leaves the host. It may be repeated.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
	c := b.conn
	b.conn = nil
	boxes := make([]sandbox.Sandbox, 0, len(b.boxes))
	for box := range b.boxes {
		boxes = append(boxes, box)
	}
	b.mu.Unlock()
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeGrace, sandbox.ErrClosed)
	defer cancel()
	errs := make([]error, len(boxes))
	var all sync.WaitGroup
	for i, box := range boxes {
		all.Go(func() {
			if err := box.Close(ctx); !errors.Is(err, sandbox.ErrLost) { // which its user was told
				errs[i] = err
			}
		})
	}
	all.Wait()
	if c != nil {
		c.close()
	}
	return errors.Join(errs...)
}
