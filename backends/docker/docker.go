package docker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// closeGrace bounds how long Backend.Close lets processes end by themselves.
const closeGrace = 2 * time.Second

// Config says where containers are made and how. The zero value uses the docker
// engine the docker command would use, and needs an image in each Spec.
type Config struct {
	// Name is what the backend is called in Info and in errors; "" means "docker".
	Name string
	// Host is the engine: unix://, tcp:// or ssh://. "" means $DOCKER_HOST, then
	// the current docker context, then the usual socket.
	Host string
	// Image is used where Spec.Image is empty.
	Image string
	// Volumes are further mounts, "/host/dir:/dir", "name:/dir", either with
	// ":ro". Some places cannot be mounted; see the error.
	Volumes []string
	// Env is NAME=value, ForwardEnv the names of variables to take from Environ.
	// They are the box's, and never part of the container's configuration, which
	// everybody who may ask the daemon can read.
	Env, ForwardEnv []string
	// Environ is the engine's environment; nil means os.Environ().
	Environ []string
	// RunAsHostUser gives boxes without a work directory the engine's user.
	RunAsHostUser bool
	// Network is "off" to take the network away that a policy gives, "bridge" to
	// insist on it, "" for what the policy says.
	Network string
	// KeepStrays leaves what killed engines left behind to Reap.
	KeepStrays bool
	// Runtime is an OCI runtime the daemon knows: "runsc", "kata", …
	Runtime string
	// CPU (cores), Memory and Disk (bytes) and PIDs are used where Spec.Resources
	// has none; PIDs 0 means 256.
	CPU          float64
	Memory, Disk int64
	PIDs         int
	// Persistent keeps /workspace and the home of boxes without a work directory,
	// one of each for each Spec.ID.
	Persistent bool
	// Pool is how many containers of a kind that was used are kept ready.
	Pool int
	// Lifetime is how long a container outlasts the last use of its box: then the
	// box is lost. A box in which a command runs is in use. 0 means until Close.
	Lifetime time.Duration
	// ExtraArgs are arguments of docker run. All are refused, each with what to
	// use instead.
	ExtraArgs []string
	// Guest returns a static guest program for a system; nil means that the
	// program that runs is one, where the systems are the same.
	Guest func(goos, goarch string) (string, error)
	// StateDir is where leases, links and persistent directories are. It must be
	// this user's. "" means a directory of the user's in the one for temporary
	// files.
	StateDir string
	// Home and HermesHome say where secrets are that a work directory may
	// contain; Home "" means the user's. StateDirs are other places of the
	// engine's state, which nothing that is mounted may contain.
	Home, HermesHome string
	StateDirs        []string
	// Progress is told how the pull of an image goes, from one goroutine for each
	// pull; nil does not tell.
	Progress func(Progress)
	// Log gets what is worth knowing but no error; nil discards.
	Log *slog.Logger

	far     bool    // as if the daemon did not see this machine's files
	farLink bool    // as if only sockets could not be shared
	probed  *shared // what a look has found that was taken before
}

// Progress is how far an image is pulled. The last one of a pull has neither a
// layer nor a status.
type Progress struct {
	Image          string
	Layer, Status  string
	Current, Total int64 // bytes of the layer, 0 when not known
}

// Backend makes boxes of one docker engine. It implements sandbox.Elsewhere.
type Backend struct {
	config Config
	log    *slog.Logger

	mu       sync.Mutex
	closed   bool
	daemon   *daemon // nil until the first use
	lease    *lease
	guests   map[string]string // by system and architecture: where it is for the daemon
	users    map[string]user   // of images, by their ids
	boxes    map[*box]struct{}
	pool     pool
	fates    fates
	maps     idMaps
	reaped   bool
	using    sync.WaitGroup // Creates and machines made in the background
	closing  context.Context
	begin    context.CancelCauseFunc
	closeErr error
	once     sync.Once
}

var _ sandbox.Elsewhere = (*Backend)(nil)

// New returns a backend. It asks no daemon and touches no file.
func New(config Config) *Backend {
	b := &Backend{config: config, log: config.Log, boxes: map[*box]struct{}{}, guests: map[string]string{}, users: map[string]user{}}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	if b.config.Name == "" {
		b.config.Name = "docker"
	}
	if b.config.Environ == nil {
		b.config.Environ = os.Environ()
	}
	if b.config.Home == "" {
		b.config.Home, _ = os.UserHomeDir()
	}
	if b.config.Guest == nil {
		b.config.Guest = thisProgram
	}
	if b.config.StateDir == "" {
		b.config.StateDir = defaultStateDir()
	}
	b.closing, b.begin = context.WithCancelCause(context.Background())
	return b
}

// thisProgram is the default of Config.Guest.
func thisProgram(goos, goarch string) (string, error) {
	if goos != runtime.GOOS || goarch != runtime.GOARCH {
		return "", fmt.Errorf("there is no guest program for %s/%s: %w", goos, goarch, sandbox.ErrUnsupported)
	}
	return os.Executable()
}

// Elsewhere implements sandbox.Elsewhere.
func (b *Backend) Elsewhere() {}

// Create makes a container and a box in it.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := b.create(ctx, spec)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w (%w)", cause, err)
		}
		return nil, fmt.Errorf("%s: create: %w", b.config.Name, err)
	}
	return box, nil
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (*box, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !b.enter() {
		return nil, sandbox.ErrClosed
	}
	defer b.using.Done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(b.closing, func() { cancel(sandbox.ErrClosed) })()
	d, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	o, err := b.order(ctx, d, spec)
	if err != nil {
		return nil, err
	}
	m, stale := b.pool.take(o.key())
	b.discard(stale)
	if m == nil {
		if m, err = b.make(ctx, d, o); err != nil {
			return nil, err
		}
	}
	box, err := m.open(ctx, spec)
	if err != nil {
		return nil, errors.Join(err, m.end())
	}
	b.mu.Lock()
	closed := b.closed
	if !closed {
		b.boxes[box] = struct{}{}
	}
	b.mu.Unlock()
	if closed {
		return nil, errors.Join(sandbox.ErrClosed, box.Close(ctx))
	}
	b.refill(d, spec, o.key())
	return box, nil
}

// enter registers a use, so that Close waits for it.
func (b *Backend) enter() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.using.Add(1)
	return true
}

func (b *Backend) forget(box *box) {
	b.mu.Lock()
	delete(b.boxes, box)
	b.mu.Unlock()
}

// Close ends every box and what is kept ready. It may be repeated.
func (b *Backend) Close() error {
	b.once.Do(func() { b.closeErr = b.close() })
	return b.closeErr
}

func (b *Backend) close() error {
	b.mu.Lock()
	b.closed = true
	boxes := make([]*box, 0, len(b.boxes))
	for box := range b.boxes {
		boxes = append(boxes, box)
	}
	b.mu.Unlock()
	b.begin(sandbox.ErrClosed)
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeGrace, sandbox.ErrClosed)
	defer cancel()
	errs := make([]error, len(boxes))
	var all sync.WaitGroup
	for i, box := range boxes {
		all.Go(func() { errs[i] = box.Close(ctx) })
	}
	all.Wait()
	b.using.Wait()
	errs = append(errs, b.pool.close())
	b.fates.close()
	b.maps.close()
	b.mu.Lock()
	d, l := b.daemon, b.lease
	b.mu.Unlock()
	if l != nil {
		errs = append(errs, l.release())
	}
	if d != nil {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}
