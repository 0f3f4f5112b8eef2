package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// PlainSpec says what box to make on a plain sshd.
type PlainSpec struct {
	ID        string            // unique; letters, digits, "-" and "_"
	WorkDir   string            // absolute, ~ or ~/…; "" means the home directory
	Env       []string          // of commands whose Cmd.Env is nil
	Profile   sandbox.Profile   // "open" is all that can be kept
	Resources sandbox.Resources // none can be kept
	// More gives another Link to the same host, for when this one takes no more
	// sessions (sshd: MaxSessions, 10). They are not the box's to close. nil:
	// there are no more.
	More func(ctx context.Context, instead []*Link) (*Link, error)
}

// Plain makes a box of an ordinary sshd with a POSIX shell. The server may be
// any that gives the user a shell; no program is put there.
//
// A keeper, a shell script on a channel of its own, holds the box together: it
// makes the scratch directory, signals and kills by order, and when the
// connection ends, or is silent for 30 s, it kills what is left and removes the
// scratch directory. Every command has HERMES_EXEC_COMMAND in its environment,
// by which the keeper finds what it started; where the host has no /proc,
// parents and the process group tell. Variables reach a command through its
// stdin or a 0600 file, never through an argument list.
//
// Nothing is confined: any policy but open and any resource limit is refused
// with sandbox.ErrPolicy.
func (l *Link) Plain(ctx context.Context, spec PlainSpec) (sandbox.Losable, error) {
	b, err := l.plain(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("%s: create: %w", l.config.Name, err)
	}
	return b, nil
}

// plainBox is a sandbox on a plain sshd.
type plainBox struct {
	link   *Link
	spec   PlainSpec
	keeper *keeper
	info   sandbox.Info
	host   plainHost
	files  *remoteFiles
	ctx    context.Context // done when Close has begun
	begin  context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	last   uint64
	links  []*Link        // more of them
	using  sync.WaitGroup // Starts, Listens and processes

	once     sync.Once
	closeErr error
}

var _ sandbox.Sandbox = (*plainBox)(nil)

func (l *Link) plain(ctx context.Context, spec PlainSpec) (*plainBox, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := plainRefuse(spec); err != nil {
		return nil, err
	}
	if _, err := exports(spec.Env); err != nil {
		return nil, err
	}
	l.serve()
	k, host, err := l.keep(ctx, spec)
	if err != nil {
		return nil, err
	}
	b := &plainBox{link: l, spec: spec, keeper: k, host: host, links: []*Link{l}}
	b.info = sandbox.Info{
		ID: spec.ID, Backend: l.config.Name, OS: host.goos(), Arch: host.goarch(), Home: host.home, Env: host.env,
		WorkDir: host.work, ScratchDir: host.scratch, UID: -1, Enforcement: host.enforcement(),
	}
	b.ctx, b.begin = context.WithCancelCause(context.WithoutCancel(ctx))
	b.files = newFiles(b.sftp)
	return b, nil
}

// plainRefuse tells what a plain sshd cannot keep.
func plainRefuse(spec PlainSpec) error {
	const fix = "; run it under policy open, or let a guest be uploaded: that needs a Linux host of a known architecture with a directory that is not mounted noexec"
	switch name := spec.Profile.Name; {
	case len(spec.Profile.DenyRead) > 0:
		return fmt.Errorf("a plain sshd cannot keep deny_read (clause %s)%s: %w", sandbox.ClauseFiles, fix, sandbox.ErrPolicy)
	case name != "open":
		if name == "" {
			name = "sealed"
		}
		return fmt.Errorf("a plain sshd cannot keep policy %.100s: clauses %s, %s, %s, %s and %s are not enforced there%s: %w", name,
			sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseSyscalls, fix, sandbox.ErrPolicy)
	case spec.Resources != sandbox.Resources{}:
		return fmt.Errorf("a plain sshd cannot keep resource limits %+v (clause %s): %w", spec.Resources, sandbox.ClauseResources, sandbox.ErrPolicy)
	case spec.ID == "" || len(spec.ID) > 64 || strings.Trim(spec.ID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "":
		return fmt.Errorf("%q cannot be a box's id", spec.ID)
	case strings.ContainsRune(spec.WorkDir, 0):
		return fmt.Errorf("work directory %q: NUL", spec.WorkDir)
	case spec.WorkDir != "" && spec.WorkDir[0] != '/' && spec.WorkDir != "~" && !strings.HasPrefix(spec.WorkDir, "~/"):
		return fmt.Errorf("work directory %q is not absolute", spec.WorkDir)
	}
	return nil
}

func (b *plainBox) Info() sandbox.Info {
	info := b.info
	info.Enforcement = slices.Clone(b.info.Enforcement)
	info.Env = slices.Clone(b.info.Env)
	return info
}

func (b *plainBox) Files() sandbox.Files { return b.files }

// use registers something that Close waits for.
func (b *plainBox) use() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return sandbox.ErrClosed
	}
	if err := b.keeper.err(); err != nil {
		return err
	}
	b.using.Add(1)
	return nil
}

// session opens a session channel, on another connection when the server takes
// no more of them on those there are.
func (b *plainBox) session(ctx context.Context) (*Link, session, error) {
	b.mu.Lock()
	links := slices.Clone(b.links)
	b.mu.Unlock()
	for {
		var err error
		for _, l := range links {
			if l.Err() != nil && l != b.link {
				continue
			}
			var ch ssh.Channel
			var requests <-chan *ssh.Request
			if ch, requests, err = l.channel(ctx, "session", nil); err == nil {
				return l, session{ch, requests}, nil
			}
			var full *ssh.OpenChannelError
			if !errors.As(err, &full) || ctx.Err() != nil {
				return nil, session{}, err
			}
		}
		if b.spec.More == nil {
			return nil, session{}, fmt.Errorf("the server takes no more sessions: %w", err)
		}
		more, moreErr := b.spec.More(ctx, links)
		if moreErr != nil {
			return nil, session{}, fmt.Errorf("the server takes no more sessions (%w), and another connection: %w", err, moreErr)
		}
		links = append(links, more)
		b.mu.Lock()
		if !slices.Contains(b.links, more) {
			b.links = append(b.links, more)
		}
		b.mu.Unlock()
	}
}

// sftp opens an sftp connection.
func (b *plainBox) sftp(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := b.use(); err != nil {
		return nil, err
	}
	defer b.using.Done()
	l, s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	go ssh.DiscardRequests(s.requests)
	ok, err := ask(ctx, l, func() (bool, error) {
		return s.ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	}, nil)
	if err == nil && !ok {
		err = fmt.Errorf("the host's sshd has no sftp subsystem, without which there are no files (sshd_config: Subsystem sftp internal-sftp): %w", sandbox.ErrUnsupported)
	}
	if err != nil {
		s.ch.Close()
		return nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, s.ch.Stderr()) }()
	return s.ch, nil
}

// Listen implements sandbox.Sandbox by streamlocal forwarding.
func (b *plainBox) Listen(ctx context.Context) (net.Listener, string, error) {
	l, err := b.listen(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("%s: listen: %w", b.link.config.Name, err)
	}
	return l, l.inner.name.Path, nil
}

// Close implements sandbox.Sandbox.
func (b *plainBox) Close(ctx context.Context) error {
	b.once.Do(func() {
		if err := b.close(ctx); err != nil {
			b.closeErr = fmt.Errorf("%s: close: %w", b.link.config.Name, err)
		}
	})
	return b.closeErr
}

func (b *plainBox) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.begin(sandbox.ErrClosed)
	_ = b.files.Close()
	// What was asked to end gets a moment, as far as the context allows.
	if n, err := b.keeper.signal(ctx, "TERM", b.spec.ID+".", 0); err == nil && n > 0 {
		_, _ = b.keeper.signal(ctx, "CONT", b.spec.ID+".", 0)
		gentle := time.NewTimer(sweepGrace)
		select {
		case <-gentle.C:
		case <-ctx.Done():
		}
		gentle.Stop()
	}
	err := b.keeper.close()
	b.using.Wait()
	return err
}
