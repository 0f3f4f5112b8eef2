package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// box is a sandbox in a container.
type box struct {
	m     *machine
	inner sandbox.Losable
	info  sandbox.Info
	idle  idle

	warned   sync.Once
	once     sync.Once
	closeErr error
}

var (
	_ sandbox.Sandbox = (*box)(nil)
	_ sandbox.Auditor = (*box)(nil)
	_ sandbox.Losable = (*box)(nil)
)

// early is a box inside that was opened before it was known who wants it.
type early struct {
	request sshwire.BoxRequest
	box     sandbox.Losable
}

// prepare opens a box for who will ask for the same but for the name.
func (m *machine) prepare(ctx context.Context, spec sandbox.Spec) error {
	request := m.request(spec)
	request.ID = newName()
	box, err := m.link.Open(ctx, request)
	if err != nil {
		return err
	}
	m.early = &early{request, box}
	_, err = box.Files().Stat(ctx, workInside) // what serves files is there as well, then
	return err
}

// inner is the box inside: the one that was prepared, if it is what is asked.
func (m *machine) inner(ctx context.Context, request sshwire.BoxRequest) (sandbox.Losable, error) {
	if e := m.early; e != nil {
		m.early = nil
		if e.request.ID = request.ID; reflect.DeepEqual(e.request, request) {
			return e.box, nil
		}
		if err := e.box.Close(ctx); err != nil {
			return nil, err
		}
	}
	return m.link.Open(ctx, request)
}

// request asks the guest for a spec's box.
func (m *machine) request(spec sandbox.Spec) sshwire.BoxRequest {
	profile := spec.Profile
	if profile.Name == "" {
		profile.Name = "sealed"
		if m.order.Posture.Open {
			profile.Name = "open"
		}
	}
	if m.order.Posture.WorkDir == "" {
		profile.OpenGuards = openGuards(profile.OpenGuards) // there is nobody to run it later
	}
	id := spec.ID
	if id == "" {
		id = newName()
	}
	request := sshwire.BoxRequest{ID: id, WorkDir: workInside, Env: slices.Concat(m.b.environment(), spec.Env), Profile: profile, Contained: true}
	request.Read, request.Write = m.order.granted()
	return request
}

// environment is what the configuration sets in every box.
func (b *Backend) environment() []string {
	return slices.Concat(forwarded(b.config.ForwardEnv, b.config.Environ), b.config.Env)
}

// open makes the machine's box.
func (m *machine) open(ctx context.Context, spec sandbox.Spec) (*box, error) {
	request := m.request(spec)
	inner, err := m.inner(ctx, request)
	if err != nil {
		var f *sshwire.Failure
		if !errors.As(err, &f) {
			err = m.lost(err, 0)
		}
		return nil, err
	}
	x := &box{m: m, inner: inner, info: inner.Info(), idle: idle{after: m.b.config.Lifetime, end: m.lapse}}
	x.info.ID, x.info.Backend, x.info.OS, x.info.Arch = request.ID, m.b.config.Name, "linux", m.order.Image.Arch
	x.info.Env = merge(x.info.Env, m.b.environment())
	x.info.Enforcement, err = enforcement(inner.Info().Enforcement, m.order, m.d.facts)
	if err != nil {
		return nil, errors.Join(err, inner.Close(ctx))
	}
	x.idle.touch()
	return x, nil
}

// granted are the places that were put into the container for its box.
func (o *order) granted() (read, write []string) {
	write = []string{"/tmp", "/var/tmp"}
	if o.Home {
		write = append(write, homeInside)
	}
	for _, v := range o.Volumes {
		if v.ReadOnly {
			read = append(read, v.Target)
		} else {
			write = append(write, v.Target)
		}
	}
	return read, write
}

// openGuards opens all that keep files from being written.
func openGuards(open []string) []string {
	open = slices.Clone(open)
	for _, g := range policy.Guards() {
		if g.Clause == "deny_write" && !g.Fixed && !slices.Contains(open, g.Name) {
			open = append(open, g.Name)
		}
	}
	return open
}

// forwarded are the variables of those names that have a value.
func forwarded(names, environ []string) (env []string) {
	for _, name := range names {
		if v := getenv(environ, name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// merge sets variables in an environment.
func merge(env, set []string) []string {
	out := slices.Clone(env)
	for _, v := range set {
		name, _, _ := strings.Cut(v, "=")
		out = slices.DeleteFunc(out, func(have string) bool { return strings.HasPrefix(have, name+"=") })
		out = append(out, v)
	}
	return out
}

func (b *box) Info() sandbox.Info {
	info := b.info
	info.Enforcement, info.Env = slices.Clone(b.info.Enforcement), slices.Clone(b.info.Env)
	return info
}

func (b *box) Files() sandbox.Files {
	b.idle.touch()
	return b.inner.Files()
}

func (b *box) Listen(ctx context.Context) (net.Listener, string, error) {
	b.idle.touch()
	l, name, err := b.inner.Listen(ctx)
	if err != nil {
		return nil, "", b.m.lost(err, b.m.fate.oom())
	}
	return l, name, nil
}

func (b *box) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	if err := b.guarded(); err != nil {
		return nil, fmt.Errorf("%s: start: %w", b.info.Backend, err)
	}
	if !b.idle.enter() {
		return nil, fmt.Errorf("%s: start: %w: %w", b.info.Backend, b.m.unused(), sandbox.ErrLost)
	}
	ooms, began := b.m.fate.oom(), time.Now()
	p, err := b.inner.Start(ctx, cmd)
	if err != nil {
		b.idle.leave()
		return nil, b.m.lost(err, ooms)
	}
	if b.m.b.config.Lifetime > 0 {
		go func() {
			defer b.idle.leave()
			_, _ = p.Wait()
		}()
	}
	return &process{Process: p, box: b, ctx: ctx, ooms: ooms, began: began}, nil
}

// guarded tells that a guard does not hold any more: a file that somebody on
// this machine has replaced, as many programs save theirs, has lost the mount
// over it, and in a container that runs it cannot be covered again.
func (b *box) guarded() error {
	if b.m.reserved.stands() {
		return nil
	}
	if slices.Contains(b.m.order.Posture.Best, sandbox.ClauseGuards) {
		b.warned.Do(func() {
			b.m.b.log.Warn("a guarded or hidden file was replaced on this machine: the box can write or read the new one", "box", b.info.ID, "dir", b.m.order.Posture.WorkDir)
		})
		return nil
	}
	return fmt.Errorf("a guarded or hidden file in %s was replaced on this machine; a new session covers it again: %w", b.m.order.Posture.WorkDir, sandbox.ErrPolicy)
}

// FutureInputs implements sandbox.Auditor: what matters is what is in the work
// directory on this machine.
func (b *box) FutureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	return b.m.reserved.futureInputs(ctx, since)
}

// Lost implements sandbox.Losable.
func (b *box) Lost() <-chan struct{} { return b.inner.Lost() }

// WhyLost implements sandbox.Losable: what became of the container.
func (b *box) WhyLost() error { return b.m.lost(b.inner.WhyLost(), b.m.fate.oom()) }

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	b.once.Do(func() {
		b.idle.stop()
		err := b.inner.Close(ctx)
		if errors.Is(err, sandbox.ErrLost) {
			err = nil // it is gone, which is what was wanted
		}
		b.closeErr = errors.Join(err, b.m.end())
		b.m.b.forget(b)
	})
	return b.closeErr
}

// process is a command in a container.
type process struct {
	sandbox.Process
	box   *box
	ctx   context.Context
	ooms  int // of the container before
	began time.Time

	mu       sync.Mutex
	signaled bool
	once     sync.Once
	exit     sandbox.Exit
	err      error
}

func (p *process) Signal(sig syscall.Signal) error {
	if sig == syscall.SIGKILL {
		p.mu.Lock()
		p.signaled = true
		p.mu.Unlock()
	}
	return p.Process.Signal(sig)
}

// How long the news that the memory limit was met may take: on a busy machine,
// where a command that came near the limit is likely to have met it, and else.
const (
	oomNewsNear = 5 * time.Second
	oomNews     = 500 * time.Millisecond
)

// Wait adds to what the guest knows what only the engine does: whether the
// memory limit ended the command, and what became of the container.
func (p *process) Wait() (sandbox.Exit, error) {
	p.once.Do(func() {
		p.exit, p.err = p.Process.Wait()
		p.mu.Lock()
		ours := p.signaled || p.ctx.Err() != nil
		p.mu.Unlock()
		m := p.box.m
		switch {
		case p.err != nil && errors.Is(p.err, sandbox.ErrLost):
			p.err = m.lost(p.err, p.ooms)
			if errors.Is(p.err, errOOM) {
				p.exit.Limit = sandbox.LimitMemory
			}
		case p.err == nil && p.exit.Limit == "" && m.order.Res.Memory > 0 && !ours && killed(p.exit):
			if m.fate.outOfMemory(p.ooms, p.began, p.exit.Usage.MaxRSS, m.order.Res.Memory) {
				p.exit.Limit = sandbox.LimitMemory
			}
		}
	})
	return p.exit, p.err
}

// killed tells whether a command, or a shell's last command, was killed.
func killed(e sandbox.Exit) bool { return e.Signal == syscall.SIGKILL || e.Code == 137 }
