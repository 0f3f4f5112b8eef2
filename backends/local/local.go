package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// name is what the backend calls itself.
const name = "local"

// BoxUID is the user, and the group, of boxes that an engine run by root makes
// in a directory of root's. It is above what systemd and container engines
// give away and belongs to nobody.
const BoxUID = 1_900_000_000

// closeGrace bounds how long Backend.Close lets processes end by themselves.
const closeGrace = 2 * time.Second

// Config says how a Backend works. The zero value is ready to use.
type Config struct {
	// Scratch is the directory below which scratch directories are made; ""
	// means $TMPDIR, else /tmp.
	Scratch string
	// Guest is the program that supervises commands; "" means the one that is
	// running, which must call guest.Main first in main.
	Guest string
	// Adopt lets this process inherit what a supervisor that was killed had
	// supervised, and kill it: on Linux, see guest.Adopt. It is for a program
	// that starts processes through its backend alone; without it, what had left
	// the session of a command whose supervisor is killed lives on.
	Adopt bool
	// Contained says that this machine is a container which keeps boxes in, and
	// has nothing of anybody else's: its devices and sockets may be reached, and
	// what root's rights in it could change is not held against a box.
	Contained bool
	// Log gets what is worth knowing but no error; nil discards.
	Log *slog.Logger
}

// Backend makes boxes on this machine. It implements sandbox.Backend.
type Backend struct {
	config  Config
	log     *slog.Logger
	buffers buffers

	mu     sync.Mutex
	closed bool
	swept  map[string]bool // directories that were looked through for garbage
	host   host
	spare  spare
	boxes  map[sandbox.Sandbox]struct{}
}

var _ sandbox.Backend = (*Backend)(nil)

// New returns a backend. It starts nothing and touches no file.
func New(config Config) *Backend {
	log := config.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Backend{config: config, log: log, spare: spare{program: config.Guest}, boxes: map[sandbox.Sandbox]struct{}{}, swept: map[string]bool{}}
}

// Create makes a box. Its processes run in Spec.WorkDir, or in the directory
// the engine is in, as the engine's user.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("local: create: %w", err)
	}
	if guest.Inside() {
		return nil, fmt.Errorf("local: create: %w: %w", sandbox.ErrUnavailable, guest.ErrNoGuest)
	}
	if err := refuse(spec); err != nil {
		return nil, fmt.Errorf("local: create: %w", err)
	}
	b.mu.Lock()
	closed := b.closed
	b.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("local: create: %w", sandbox.ErrClosed)
	}
	if b.config.Adopt {
		if err := guest.Adopt(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			b.log.Warn("cannot adopt what a lost supervisor leaves", "err", err)
		}
	}
	box, err := b.create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("local: create: %w", err)
	}
	b.mu.Lock()
	closed = b.closed
	if !closed {
		b.boxes[box] = struct{}{}
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(fmt.Errorf("local: create: %w", sandbox.ErrClosed), box.Close(ctx))
	}
	return box, nil
}

// refuse tells why a box cannot be as asked.
func refuse(spec sandbox.Spec) error {
	switch {
	case spec.Policy.Unconfined && spec.Resources != sandbox.Resources{}:
		return fmt.Errorf("resource limits %+v cannot be kept without confinement: %w", spec.Resources, sandbox.ErrPolicy)
	case len(spec.Mounts) > 0:
		return fmt.Errorf("%d mounts: %w: processes see this machine's files as they are", len(spec.Mounts), sandbox.ErrUnsupported)
	case spec.Image != "":
		return fmt.Errorf("image %q: %w: it needs a container backend", spec.Image, sandbox.ErrUnsupported)
	}
	return nil
}

// Close ends every box. It may be repeated.
func (b *Backend) Close() error {
	b.mu.Lock()
	b.closed = true
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
		all.Go(func() { errs[i] = box.Close(ctx) })
	}
	all.Wait()
	b.host.close()
	b.spare.close()
	return errors.Join(errs...)
}

func (b *Backend) forget(box sandbox.Sandbox) {
	b.mu.Lock()
	delete(b.boxes, box)
	b.mu.Unlock()
}
