package sandboxtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"go.uber.org/goleak"
)

// Bound is how long a law waits for what must come to pass. It is no promise
// of speed: the machine may be loaded.
const Bound = 2 * time.Minute

// Options say what Run is to test.
type Options struct {
	// New returns a backend; Run closes it. It is called once for each law.
	New func(t testing.TB) sandbox.Backend
	// Share has most laws use one backend, each with boxes of its own: for
	// backends that take long to reach what they make boxes on.
	Share bool
	// Spec is what the boxes are made from. An empty policy means open, a nil
	// Env one with the usual PATH.
	Spec sandbox.Spec
	// Skip names laws this backend does not keep, each with the reason.
	Skip map[string]string
}

// law is one promise.
type law struct {
	name  string
	check func(*bench)
}

// Laws returns the names of all laws, as Options.Skip takes them.
func Laws() []string {
	var names []string
	for _, l := range laws() {
		names = append(names, l.name)
	}
	return names
}

func laws() []law {
	return slices.Concat(commandLaws(), outputLaws(), killLaws(), processLaws(), terminalLaws(), boxLaws(), filesLaws(), policyLaws())
}

// Run tests a backend against every law, each a subtest.
func Run(t *testing.T, o Options) {
	if !o.Spec.Policy.Unconfined && o.Spec.Policy.Name == "" {
		o.Spec.Policy = sandbox.Policy{Name: "open", Unconfined: true}
	}
	if o.Spec.Env == nil {
		o.Spec.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	}
	for law := range o.Skip {
		if !slices.Contains(Laws(), law) {
			t.Errorf("there is no law %q to skip", law)
		}
	}
	shared := o.shared(t)
	for _, l := range laws() {
		t.Run(l.name, func(t *testing.T) {
			if why, ok := o.Skip[l.name]; ok {
				t.Skip(why)
			}
			before, running := descriptors(), goleak.IgnoreCurrent()
			t.Cleanup(func() { noneLeft(t, before, running) }) // the last one to run
			b := &bench{T: t, options: o, backend: shared}
			if shared == nil || ownBackend(l.name) {
				b.backend = o.make(t)
			}
			l.check(b)
		})
	}
}

// make makes a backend that ends with the test.
func (o Options) make(t *testing.T) sandbox.Backend {
	b := o.New(t)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("closing the backend: %v", err)
		}
	})
	return b
}

// shared is the backend of most laws, or nil. It has made a box: what it keeps
// for the next one is there.
func (o Options) shared(t *testing.T) sandbox.Backend {
	if !o.Share {
		return nil
	}
	b := o.make(t)
	box, err := b.Create(t.Context(), o.Spec)
	if err == nil {
		err = box.Close(t.Context())
	}
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	return b
}

// ownBackend tells whether a law needs a backend of its own: it closes it, or
// has it keep connections that others would take for a leak.
func ownBackend(law string) bool {
	return law == "a closed backend makes no boxes" || law == "commands run side by side"
}

// noneLeft checks that a law left no goroutine and no descriptor behind.
func noneLeft(t *testing.T, before int, running goleak.Option) {
	if t.Failed() {
		return
	}
	if err := goleak.Find(running, goleak.IgnoreAnyFunction("testing.tRunner")); err != nil {
		t.Error(err)
	}
	var after int
	if !eventually(func() bool { after = descriptors(); return after <= before }) {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// descriptors counts the open descriptors of this process, where they can be
// counted, without those the Go runtime opens when it first looks how many
// processors its control group has.
func descriptors() int {
	const dir = "/proc/self/fd"
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
		name, _ := os.Readlink(filepath.Join(dir, e.Name()))
		return strings.HasPrefix(name, "/sys/fs/cgroup/") && strings.HasPrefix(filepath.Base(name), "cpu.")
	})
	return len(entries)
}

// bench is where one law is tested.
type bench struct {
	*testing.T
	options Options
	backend sandbox.Backend
}

// box makes a box that ends with the law.
func (b *bench) box() sandbox.Sandbox {
	b.Helper()
	box, err := b.backend.Create(b.Context(), b.options.Spec)
	if err != nil {
		b.Fatalf("Create: %v", err)
	}
	b.Cleanup(func() {
		if err := box.Close(context.Background()); err != nil && !errors.Is(err, sandbox.ErrClosed) {
			b.Errorf("Close: %v", err)
		}
	})
	return box
}

// within returns a context that is done when the bound has passed, so that a
// broken promise fails a law instead of hanging it.
func (b *bench) within() context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), Bound, errors.New("the law's bound has passed"))
	b.Cleanup(cancel)
	return ctx
}

// start starts a command that must start.
func (b *bench) start(ctx context.Context, box sandbox.Sandbox, cmd sandbox.Cmd) sandbox.Process {
	b.Helper()
	if cmd.Grace == 0 {
		cmd.Grace = 100 * time.Millisecond
	}
	p, err := box.Start(ctx, cmd)
	if err != nil {
		b.Fatalf("Start %q: %v", cmd.Args, err)
	}
	return p
}

// wait returns how a process ended, which must be within the bound.
func (b *bench) wait(p sandbox.Process) sandbox.Exit {
	b.Helper()
	type answer struct {
		exit sandbox.Exit
		err  error
	}
	got := make(chan answer, 1)
	go func() {
		exit, err := p.Wait()
		got <- answer{exit, err}
	}()
	select {
	case a := <-got:
		if a.err != nil {
			b.Fatalf("Wait: %v", a.err)
		}
		return a.exit
	case <-time.After(Bound):
		b.Fatalf("Wait has not returned within %v", Bound)
		panic("unreachable")
	}
}

// run runs a command to its end and returns its output.
func (b *bench) run(box sandbox.Sandbox, cmd sandbox.Cmd) (stdout, stderr string, exit sandbox.Exit) {
	b.Helper()
	var out, errs lockedBuffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	exit = b.wait(b.start(b.within(), box, cmd))
	return out.String(), errs.String(), exit
}

// output runs a command that must succeed silently and returns what it wrote.
func (b *bench) output(box sandbox.Sandbox, args ...string) string {
	b.Helper()
	stdout, stderr, exit := b.run(box, sandbox.Cmd{Args: args})
	if exit.Code != 0 || stderr != "" {
		b.Fatalf("%q: exit %+v, stderr %q", args, exit, stderr)
	}
	return stdout
}

// put writes a file below the scratch directory and returns its name.
func (b *bench) put(box sandbox.Sandbox, name, content string, perm fs.FileMode) string {
	b.Helper()
	full := path.Join(box.Info().ScratchDir, name)
	if err := box.Files().MkdirAll(b.Context(), path.Dir(full), 0o755); err != nil {
		b.Fatalf("MkdirAll %s: %v", path.Dir(full), err)
	}
	f, err := box.Files().Create(b.Context(), full, sandbox.CreateOptions{Perm: perm})
	if err != nil {
		b.Fatalf("Create %s: %v", full, err)
	}
	defer f.Discard()
	if _, err := f.Write([]byte(content)); err != nil {
		b.Fatalf("Write %s: %v", full, err)
	}
	if err := f.Commit(); err != nil {
		b.Fatalf("Commit %s: %v", full, err)
	}
	return full
}

// eventually waits for an end state within the bound.
func eventually(done func() bool) bool {
	for stop := time.Now().Add(Bound); ; time.Sleep(2 * time.Millisecond) {
		if done() {
			return true
		}
		if time.Now().After(stop) {
			return false
		}
	}
}

// sh is a command of the shell.
func sh(script string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", script, "sh"}, args...)
}
