package sandboxtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Fake is a Backend for tests that need failures which are hard to have for
// real. It starts no program: a command is a call of Run. Its files are in
// memory, its sockets are pipes in this process. The zero value works; set the
// fields before the first use. Everything real backends can show should be
// tested with them.
type Fake struct {
	CreateErr, StartErr, ListenErr error // what these methods fail with
	CloseErr                       error // what Sandbox.Close returns after it closed
	// Lost makes every Wait fail so, as when a supervisor was killed; wrap
	// sandbox.ErrLost.
	Lost error
	// OnCreate, if set, is called at the beginning of each Create, which fails
	// with its error.
	OnCreate func(ctx context.Context, spec sandbox.Spec) error
	// Run is what a command does; nil exits 0 at once. Its context is done
	// when the command is to end, with the cause.
	Run func(ctx context.Context, box *FakeBox, cmd sandbox.Cmd) sandbox.Exit
	// Findings is what Check returns.
	Findings []sandbox.Finding

	mu     sync.Mutex
	closed bool
	boxes  []*FakeBox
}

var (
	_ sandbox.Backend = (*Fake)(nil)
	_ sandbox.Losable = (*FakeBox)(nil)
)

// Create makes a box with an empty /work and /scratch.
func (f *Fake) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	if f.CreateErr != nil {
		return nil, fmt.Errorf("fake: create: %w", f.CreateErr)
	}
	if f.OnCreate != nil {
		if err := f.OnCreate(ctx, spec); err != nil {
			return nil, fmt.Errorf("fake: create: %w", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, fmt.Errorf("fake: create: %w", sandbox.ErrClosed)
	}
	box := &FakeBox{Spec: spec, fake: f, id: spec.ID, files: newMemory("/work", "/scratch"), listeners: map[string]*pipeListener{}, lost: make(chan struct{})}
	if box.id == "" {
		box.id = fmt.Sprintf("fake-%d", len(f.boxes)+1)
	}
	box.ctx, box.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.boxes = append(f.boxes, box)
	return box, nil
}

// Check implements sandbox.Backend.
func (f *Fake) Check(context.Context) []sandbox.Finding { return f.Findings }

// Close closes every box.
func (f *Fake) Close() error {
	f.mu.Lock()
	f.closed = true
	boxes := f.boxes
	f.mu.Unlock()
	for _, box := range boxes {
		_ = box.Close(context.Background())
	}
	return nil
}

// Boxes returns the boxes made so far, in order.
func (f *Fake) Boxes() []*FakeBox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]*FakeBox{}, f.boxes...)
}

// FakeBox is a box of a Fake.
type FakeBox struct {
	Spec sandbox.Spec // as given to Create

	fake   *Fake
	id     string
	files  *memory
	ctx    context.Context // done when the box is closed or lost
	cancel context.CancelCauseFunc
	using  sync.WaitGroup
	lost   chan struct{}

	mu        sync.Mutex
	closed    bool
	why       error // nil unless lost
	started   []sandbox.Cmd
	listeners map[string]*pipeListener
}

// Started returns the commands given to Start so far, in order.
func (b *FakeBox) Started() []sandbox.Cmd {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]sandbox.Cmd{}, b.started...)
}

// Info implements sandbox.Sandbox.
func (b *FakeBox) Info() sandbox.Info {
	return sandbox.Info{
		ID: b.id, Backend: "fake", OS: "linux", Arch: "amd64", Home: "/", WorkDir: "/work", ScratchDir: "/scratch", UID: -1,
		Enforcement: sandbox.Enforcement{{Clause: sandbox.ClauseKill, State: sandbox.Unsupported, Why: "nothing runs"}},
	}
}

// Files implements sandbox.Sandbox.
func (b *FakeBox) Files() sandbox.Files { return b.files }

// Start calls Fake.Run in a goroutine.
func (b *FakeBox) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("fake: start: %w", err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.started = append(b.started, cmd)
	switch {
	case b.closed:
		return nil, fmt.Errorf("fake: start: %w", sandbox.ErrClosed)
	case b.why != nil:
		return nil, fmt.Errorf("fake: start: %w", b.why)
	case b.fake.StartErr != nil:
		return nil, fmt.Errorf("fake: start: %w", b.fake.StartErr)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(b.ctx, func() { cancel(context.Cause(b.ctx)) })
	p := &fakeProcess{pid: len(b.started), err: b.fake.Lost, cancel: cancel, done: make(chan struct{})}
	b.using.Go(func() {
		defer stop()
		began := time.Now()
		if b.fake.Run != nil {
			p.exit = b.fake.Run(ctx, b, cmd)
		}
		cancel(os.ErrProcessDone)
		if why := b.WhyLost(); why != nil && p.err == nil {
			p.err = fmt.Errorf("fake: %w", why)
		}
		p.exit.Usage.Wall = time.Since(began)
		close(p.done)
	})
	return p, nil
}

// Listen opens a socket that Dial reaches.
func (b *FakeBox) Listen(ctx context.Context) (net.Listener, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, "", fmt.Errorf("fake: listen: %w", sandbox.ErrClosed)
	case b.why != nil:
		return nil, "", fmt.Errorf("fake: listen: %w", b.why)
	case b.fake.ListenErr != nil:
		return nil, "", fmt.Errorf("fake: listen: %w", b.fake.ListenErr)
	}
	path := fmt.Sprintf("/run/%d/socket", len(b.listeners)+1)
	l := &pipeListener{path: path, conns: make(chan net.Conn), done: make(chan struct{})}
	b.listeners[path] = l
	for _, ctx := range []context.Context{ctx, b.ctx} {
		context.AfterFunc(ctx, func() { l.Close() })
	}
	return l, path, nil
}

// Dial connects to a socket of the box, as a process inside would.
func (b *FakeBox) Dial(ctx context.Context, path string) (net.Conn, error) {
	b.mu.Lock()
	l := b.listeners[path]
	b.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("fake: dial %s: %w", path, os.ErrNotExist)
	}
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, fmt.Errorf("fake: dial %s: %w", path, syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, fmt.Errorf("fake: dial %s: %w", path, context.Cause(ctx))
	}
}

// Lose ends the box as if its machine had gone: its commands are cancelled and
// lost, its files and all else fail with why, which must wrap sandbox.ErrLost.
func (b *FakeBox) Lose(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.why != nil {
		return
	}
	b.why = why
	b.files.lose(why)
	b.cancel(why)
	close(b.lost)
}

// Lost implements sandbox.Losable.
func (b *FakeBox) Lost() <-chan struct{} { return b.lost }

// WhyLost implements sandbox.Losable.
func (b *FakeBox) WhyLost() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// Closed tells whether Close was called.
func (b *FakeBox) Closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// Close cancels the commands that run and waits for them.
func (b *FakeBox) Close(context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.cancel(sandbox.ErrClosed)
	b.using.Wait()
	return b.fake.CloseErr
}

type fakeProcess struct {
	pid    int
	exit   sandbox.Exit
	err    error
	cancel context.CancelCauseFunc
	done   chan struct{}
}

func (p *fakeProcess) PID() int { return p.pid }

func (p *fakeProcess) Exited() <-chan struct{} { return p.done }

func (p *fakeProcess) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal cancels the command's context, whatever the signal.
func (p *fakeProcess) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		p.cancel(fmt.Errorf("signal %d", int(sig)))
		return nil
	}
}

func (p *fakeProcess) Resize(rows, cols uint16) error {
	return fmt.Errorf("fake: resize: %w", sandbox.ErrUnsupported)
}

type pipeListener struct {
	path  string
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, fmt.Errorf("fake: accept %s: %w", l.path, net.ErrClosed)
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
