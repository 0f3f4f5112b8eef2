//go:build unix

package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// defaultGrace is what a command gets between SIGTERM and SIGKILL.
const defaultGrace = 5 * time.Second

// box is one sandbox: a scratch directory and the processes started in it.
type box struct {
	backend *Backend
	info    sandbox.Info
	env     []string
	inside  confinement // nil in a box that is not confined, which has the next two
	scratch *lockedDir
	files   sandbox.Files
	tempDir string          // TMPDIR of every command, where /tmp cannot be written
	closing context.Context // done when Close has begun: it closes the listeners
	begin   context.CancelCauseFunc

	mu        sync.Mutex
	closed    bool
	using     sync.WaitGroup // Starts and Listens under way, and their processes and listeners
	processes map[*process]struct{}

	once     sync.Once
	closeErr error
}

var _ sandbox.Sandbox = (*box)(nil)

// confinement is what holds a confined box.
type confinement interface {
	command() (supervisor, error)
	listen() (wait func(context.Context) (net.Listener, string, error))
	terminal(uid int) (ours, theirs *os.File, err error)
	futureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error)
	meter() meter // for a command that begins now; nil where nothing measures
	ended()       // is told that a command has
	close() error
}

// meter measures the box while a command runs.
type meter interface {
	read() (peak int64, hit sandbox.Limit)
	stop()
}

func (b *Backend) create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if err := usable(); err != nil {
		return nil, err
	}
	workDir, err := resolveDir(spec.WorkDir)
	if err != nil {
		return nil, err
	}
	box := &box{
		backend: b,
		info: sandbox.Info{
			ID: spec.ID, Backend: name, OS: runtime.GOOS, Arch: runtime.GOARCH,
			Home: home(spec.Env), WorkDir: workDir, UID: os.Getuid(),
		},
		env:       append([]string{}, spec.Env...),
		processes: map[*process]struct{}{},
	}
	if spec.Policy.Unconfined {
		err = box.unconfined()
	} else {
		err = box.confine(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	box.closing, box.begin = context.WithCancelCause(context.WithoutCancel(ctx))
	return box, nil
}

// unconfined makes the parts of a box that is this machine as its user sees it.
func (b *box) unconfined() (err error) {
	if b.scratch, err = b.backend.makeScratch(); err != nil {
		return err
	}
	b.info.ScratchDir, b.info.Enforcement = b.scratch.path, enforcement()
	if b.info.ID == "" {
		b.info.ID = filepath.Base(b.scratch.path)
	}
	b.files = files.New()
	b.backend.spare.make()
	return nil
}

// enforcement is what is true of every box that is not confined.
func enforcement() sandbox.Enforcement {
	const why = "policy open"
	e := sandbox.Enforcement{killClause()}
	for _, c := range []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseNetwork, sandbox.ClauseProcesses,
		sandbox.ClauseSyscalls, sandbox.ClauseResources} {
		e = append(e, sandbox.Clause{Clause: c, State: sandbox.Unsupported, Why: why})
	}
	return e
}

// resolveDir returns the real path of a directory that exists.
func resolveDir(dir string) (string, error) {
	if dir == "" {
		wd, err := os.Getwd()
		if err != nil {
			return "", fmt.Errorf("working directory: %w", err)
		}
		dir = wd
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("working directory %q is not absolute", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	}
	if st, err := os.Stat(real); err != nil {
		return "", fmt.Errorf("working directory: %w", err)
	} else if !st.IsDir() {
		return "", fmt.Errorf("working directory %q is not a directory", dir)
	}
	return real, nil
}

// home is the home directory as processes see it.
func home(env []string) string {
	for _, v := range env {
		if dir, ok := strings.CutPrefix(v, "HOME="); ok {
			return dir
		}
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return dir
}

func (b *box) Info() sandbox.Info {
	info := b.info
	info.Enforcement = append(sandbox.Enforcement{}, b.info.Enforcement...)
	return info
}

func (b *box) Files() sandbox.Files { return b.files }

// FutureInputs implements sandbox.Auditor. In a box that is not confined there
// is nothing to look for: it may have changed anything.
func (b *box) FutureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	if b.inside == nil {
		return nil, true, nil
	}
	return b.inside.futureInputs(ctx, since)
}

// use registers a Start or Listen, so that Close waits for it.
func (b *box) use() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return sandbox.ErrClosed
	}
	b.using.Add(1)
	return nil
}

func (b *box) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	called := ""
	if len(cmd.Args) > 0 {
		called = cmd.Args[0]
	}
	p, err := b.start(ctx, cmd)
	if err != nil {
		return nil, fmt.Errorf("local: start %q: %w", called, err)
	}
	return p, nil
}

func (b *box) start(ctx context.Context, cmd sandbox.Cmd) (*process, error) {
	switch {
	case len(cmd.Args) == 0:
		return nil, errors.New("no program given")
	case cmd.Policy != nil && (b.inside != nil || !cmd.Policy.Unconfined):
		return nil, fmt.Errorf("a policy for one command: %w: open a box with it instead", sandbox.ErrPolicy)
	}
	run := guest.Command{Args: cmd.Args, Dir: cmd.Dir, Env: cmd.Env, Keep: cmd.Keep, Terminal: cmd.PTY != nil}
	if run.Env == nil {
		run.Env = b.env
	}
	if b.tempDir != "" {
		run.Env = append(slices.DeleteFunc(slices.Clone(run.Env), func(v string) bool { return strings.HasPrefix(v, "TMPDIR=") }), "TMPDIR="+b.tempDir)
	}
	switch {
	case run.Dir == "":
		run.Dir = b.info.WorkDir
	case !filepath.IsAbs(run.Dir):
		run.Dir = filepath.Join(b.info.WorkDir, run.Dir)
	}
	if err := refuseNUL(run); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := b.use(); err != nil {
		return nil, err
	}
	p, err := b.launch(ctx, cmd, run)
	if err != nil {
		b.using.Done()
		return nil, err
	}
	return p, nil
}

// refuseNUL finds what the kernel would silently cut short.
func refuseNUL(run guest.Command) error {
	for i, a := range run.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return fmt.Errorf("argument %d contains a NUL byte", i)
		}
	}
	for _, v := range run.Env {
		if strings.IndexByte(v, 0) >= 0 {
			key, _, _ := strings.Cut(v, "=")
			return fmt.Errorf("environment variable %q contains a NUL byte", key)
		}
	}
	if strings.IndexByte(run.Dir, 0) >= 0 {
		return errors.New("the working directory contains a NUL byte")
	}
	return nil
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	b.once.Do(func() { b.closeErr = b.close(ctx) })
	return b.closeErr
}

func (b *box) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	running := make([]*process, 0, len(b.processes))
	for p := range b.processes {
		running = append(running, p)
	}
	b.mu.Unlock()
	b.begin(sandbox.ErrClosed)
	for _, p := range running {
		p.end(p.grace)
	}
	stop := context.AfterFunc(ctx, func() {
		for _, p := range running {
			p.end(0)
		}
	})
	b.using.Wait()
	stop()
	defer b.backend.forget(b)
	if b.inside != nil {
		if err := b.inside.close(); err != nil {
			return fmt.Errorf("local: close: %w", err)
		}
		return nil
	}
	if err := b.scratch.remove(); err != nil {
		return fmt.Errorf("local: close: remove scratch directory: %w", err)
	}
	return nil
}
