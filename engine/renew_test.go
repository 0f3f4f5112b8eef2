package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

var errBlackout = fmt.Errorf("blackout: %w", sandbox.ErrLost)

// ground is a Fake whose boxes have a Python.
type ground struct {
	*sandboxtest.Fake
	log bytes.Buffer

	// unnoticed is how late the news is that a box was lost.
	unnoticed time.Duration
}

func (g *ground) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := g.Fake.Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	f, err := box.Files().Create(ctx, "/work/python3.11", sandbox.CreateOptions{Perm: 0o755})
	if err == nil {
		err = f.Commit()
	}
	if g.unnoticed == 0 {
		return box, err
	}
	late := lateBox{box.(*sandboxtest.FakeBox), make(chan struct{})}
	go func() {
		<-late.FakeBox.Lost()
		time.Sleep(g.unnoticed) // of a bubble
		close(late.lost)
	}()
	return late, err
}

type lateBox struct {
	*sandboxtest.FakeBox
	lost chan struct{}
}

func (b lateBox) Lost() <-chan struct{} { return b.lost }

// session opens one on the ground, with a tool that names the box it is bound to.
func (g *ground) session(t *testing.T) *Session {
	t.Helper()
	e := newEngine(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&g.log, nil))
		c.Backends = map[string]sandbox.Backend{"local": g}
		c.Tools = func(box sandbox.Sandbox) []registry.Tool {
			return []registry.Tool{registry.New("read_file", "file", "Name the box.", func(context.Context, registry.Caller, struct{}) (string, error) {
				return box.Info().ID, nil
			})}
		}
	})
	return open(t, e, Task{WorkDir: "/work"})
}

func (g *ground) box(t *testing.T, n int) *sandboxtest.FakeBox {
	t.Helper()
	boxes := g.Boxes()
	if len(boxes) <= n {
		t.Fatalf("there are %d boxes, want more than %d", len(boxes), n)
	}
	return boxes[n]
}

// runHere runs a script in a box of the ground.
func runHere(s *Session, ctx context.Context) (Result, error) {
	return s.Run(ctx, Script{Code: "pass", Interpreter: "/work/python3.11"})
}

func boxOf(s *Session) string {
	return string(s.Call(context.Background(), rpc.Call{Tool: "read_file"}))
}

// news counts the warnings of a loss.
func news(r Result) (n int) {
	for _, w := range r.Warnings {
		if strings.Contains(w, "the sandbox was lost") {
			n++
		}
	}
	return n
}

// waiters is how many wait for a renewal.
func waiters(s *Session) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.renewing == nil {
		return 0
	}
	return s.renewing.waiting
}

func mustRun(t *testing.T, s *Session, told int) Result {
	t.Helper()
	r, err := runHere(s, t.Context())
	if err != nil || r.Status != Success || news(r) != told {
		t.Fatalf("%v: %s, want %d warnings of a loss", err, r.JSON(), told)
	}
	return r
}

func TestLostBetweenRuns(t *testing.T) {
	g := &ground{Fake: &sandboxtest.Fake{}}
	s := g.session(t)
	mustRun(t, s, 0)
	first, kept := s.current(), s.Tools()
	g.box(t, 0).Lose(fmt.Errorf("black\nout: %w", sandbox.ErrLost))
	r := mustRun(t, s, 1)
	for _, part := range []string{"black\\nout", "/tmp", "outside the work directory", "exports", "background processes"} {
		if w := r.Warnings[0]; !strings.Contains(w, part) || strings.Contains(w, "\n") {
			t.Errorf("the warning %q does not say %q in one line", w, part)
		}
	}
	mustRun(t, s, 0)
	if !g.box(t, 0).Closed() || len(g.Boxes()) != 2 || g.box(t, 1).Closed() {
		t.Errorf("%d boxes, the first closed: %t", len(g.Boxes()), g.box(t, 0).Closed())
	}
	if a, b := g.box(t, 0).Spec, g.box(t, 1).Spec; fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the second box was asked for by %v, the first by %v", b, a)
	}
	if n := len(g.box(t, 0).Started()); n != 1 {
		t.Errorf("%d commands in the first box", n)
	}
	if got := boxOf(s); got != `"fake-2"` || s.Info().ID != "fake-2" {
		t.Errorf("calls go to %s, Info is of %s", got, s.Info().ID)
	}
	// What is under way in the old place keeps to it.
	old := &gate{place: first, granted: s.granted, max: 1, ctx: t.Context()}
	if got := string(old.handle(t.Context(), rpc.Call{Tool: "read_file"})); got != `"fake-1"` {
		t.Errorf("a call of an old run went to %s", got)
	}
	if got := string(kept.Dispatch(t.Context(), registry.Caller{}, "read_file", nil)); got != `"fake-1"` {
		t.Errorf("a tool of the old place went to %s", got)
	}
}

// A call finds a new place too, and leaves the news to the next result.
func TestLostBeforeACall(t *testing.T) {
	g := &ground{Fake: &sandboxtest.Fake{}}
	s := g.session(t)
	g.box(t, 0).Lose(errBlackout)
	if got := boxOf(s); got != `"fake-2"` {
		t.Errorf("got %s", got)
	}
	if log := g.log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "blackout") {
		t.Errorf("the log says %s", log)
	}
	mustRun(t, s, 1)
	mustRun(t, s, 0)
}

// What was under way is lost with what it had printed, and never begun again.
func TestLostMidRun(t *testing.T) {
	began := make(chan struct{})
	g := &ground{Fake: &sandboxtest.Fake{Run: func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
		if box.Info().ID == "fake-1" {
			fmt.Fprint(cmd.Stdout, "partial")
			close(began)
			<-ctx.Done()
		}
		return sandbox.Exit{}
	}}}
	s := g.session(t)
	go func() {
		<-began
		g.Boxes()[0].Lose(errBlackout)
	}()
	r, err := runHere(s, t.Context())
	if !errors.Is(err, errBlackout) || r.Status != Failed || r.Output != "partial" || len(r.Warnings) != 0 || !json.Valid(r.JSON()) {
		t.Errorf("%v: %s", err, r.JSON())
	}
	if n := len(g.Boxes()); n != 1 {
		t.Errorf("%d boxes before anybody needs another", n)
	}
	mustRun(t, s, 1)
	for i := range 2 {
		if n := len(g.box(t, i).Started()); n != 1 {
			t.Errorf("%d commands were started in box %d", n, i)
		}
	}
}

// One command whose supervisor is killed does not cost the session its box.
func TestLostProcessAlone(t *testing.T) {
	g := &ground{Fake: &sandboxtest.Fake{Lost: errBlackout}}
	s := g.session(t)
	for range 2 {
		if r, err := runHere(s, t.Context()); !errors.Is(err, errBlackout) || news(r) != 0 {
			t.Errorf("%v: %s", err, r.JSON())
		}
	}
	if n := len(g.Boxes()); n != 1 {
		t.Errorf("%d boxes", n)
	}
}

// A loss that shows only when the run is staged: nothing has begun.
func TestLostUnnoticed(t *testing.T) {
	for _, interpreter := range []string{"/work/python3.11", ""} {
		synctest.Test(t, func(t *testing.T) {
			g := &ground{Fake: &sandboxtest.Fake{}, unnoticed: lostNews - 1}
			s := g.session(t)
			s.place.env = []string{"PATH=/work"}
			g.box(t, 0).Lose(errBlackout)
			r, err := s.Run(t.Context(), Script{Code: "pass", Interpreter: interpreter})
			if interpreter != "" && (err != nil || news(r) != 1) || interpreter == "" && !errors.Is(err, ErrNoInterpreter) {
				t.Errorf("%v: %s", err, r.JSON())
			}
			if n := len(g.Boxes()); n != 2 {
				t.Errorf("%d boxes", n)
			}
			g.box(t, 1).Lose(errBlackout)
			synctest.Wait()
			time.Sleep(time.Second)
		})
	}
}

func TestLostWithManyCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 8
		enough := make(chan struct{})
		g := &ground{Fake: &sandboxtest.Fake{}}
		s := g.session(t)
		g.OnCreate = func(context.Context, sandbox.Spec) error { <-enough; return nil }
		g.box(t, 0).Lose(errBlackout)
		var all sync.WaitGroup
		results, answers := make([]Result, callers), make([]string, callers)
		for i := range callers {
			all.Go(func() { results[i], _ = runHere(s, t.Context()) })
			all.Go(func() { answers[i] = boxOf(s) })
		}
		synctest.Wait()
		if n := waiters(s); n != 2*callers {
			t.Errorf("%d wait for the one renewal, want %d", n, 2*callers)
		}
		close(enough)
		all.Wait()
		told := 0
		for i := range callers {
			told += news(results[i])
			if results[i].Status != Success || answers[i] != `"fake-2"` {
				t.Errorf("%s, %s", results[i].JSON(), answers[i])
			}
		}
		if told != 1 || len(g.Boxes()) != 2 {
			t.Errorf("%d results tell of the loss, %d boxes", told, len(g.Boxes()))
		}
	})
}

func TestLostAndNoOtherToBeHad(t *testing.T) {
	g := &ground{Fake: &sandboxtest.Fake{}}
	s := g.session(t)
	g.box(t, 0).Lose(errBlackout)
	down := fmt.Errorf("host is down: %w", sandbox.ErrUnavailable)
	g.OnCreate = func(context.Context, sandbox.Spec) error { return down }
	r, err := runHere(s, t.Context())
	if !errors.Is(err, down) || !errors.Is(err, sandbox.ErrLost) || r.Status != Failed || r.Backend == "" || !strings.Contains(r.Error, "blackout") {
		t.Errorf("%v: %s", err, r.JSON())
	}
	if got := boxOf(s); !strings.Contains(got, "host is down") || !strings.HasPrefix(got, `{"error":`) {
		t.Errorf("a call is answered %s", got)
	}
	down = sandbox.ErrPolicy
	if _, err := runHere(s, t.Context()); !errors.Is(err, ErrRefused) {
		t.Errorf("a policy that is not kept any more: %v", err)
	}
	g.OnCreate = nil
	mustRun(t, s, 1)
	if n := len(g.Boxes()); n != 2 {
		t.Errorf("%d boxes", n)
	}
}

// Close ends a renewal: what it has made by then is closed as well.
func TestLostAndClosed(t *testing.T) {
	for name, create := range map[string]func(context.Context) error{
		"in time":  func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) },
		"too late": func(ctx context.Context) error { <-ctx.Done(); time.Sleep(time.Second); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := &ground{Fake: &sandboxtest.Fake{}}
				s := g.session(t)
				g.box(t, 0).Lose(errBlackout)
				g.OnCreate = func(ctx context.Context, _ sandbox.Spec) error { return create(ctx) }
				var all sync.WaitGroup
				var r Result
				var answer string
				all.Go(func() { r, _ = runHere(s, t.Context()) })
				all.Go(func() { answer = boxOf(s) })
				synctest.Wait()
				if err := s.Close(t.Context()); err != nil {
					t.Error(err)
				}
				all.Wait()
				if r.Status != Interrupted || !strings.Contains(answer, "closed") {
					t.Errorf("%s, %s", r.JSON(), answer)
				}
				for i, box := range g.Boxes() {
					if !box.Closed() {
						t.Errorf("box %d is open", i)
					}
				}
				if len(s.engine.sessions) != 0 || s.renewing != nil {
					t.Errorf("%d sessions, renewing %v", len(s.engine.sessions), s.renewing)
				}
			})
		})
	}
}

// Who waits may give up; the renewal goes on for whoever is left, and ends with
// the last. Who comes then begins anew.
func TestLostAndGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		enough := make(chan struct{})
		var ended atomic.Int32
		g := &ground{Fake: &sandboxtest.Fake{}}
		s := g.session(t)
		g.box(t, 0).Lose(errBlackout)
		g.OnCreate = func(ctx context.Context, _ sandbox.Spec) error {
			select {
			case <-enough:
				return nil
			case <-ctx.Done():
				time.Sleep(time.Second)
				ended.Add(1)
				return context.Cause(ctx)
			}
		}
		brief, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		longer, stopLonger := context.WithTimeout(t.Context(), 2*time.Second)
		defer stopLonger()
		var all sync.WaitGroup
		for _, ctx := range []context.Context{brief, longer} {
			all.Go(func() {
				began := time.Now()
				limit, _ := ctx.Deadline()
				if r, err := runHere(s, ctx); err != nil || r.Status != Interrupted || time.Since(began) != limit.Sub(began) {
					t.Errorf("after %s: %v, %s", time.Since(began), err, r.JSON())
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		if n, waiting := ended.Load(), waiters(s); n != 0 || waiting != 1 {
			t.Errorf("%d renewals ended, %d wait", n, waiting)
		}
		time.Sleep(time.Second) // the renewal is cancelled, and still ending
		var r Result
		all.Go(func() { r, _ = runHere(s, t.Context()) })
		time.Sleep(time.Second)
		close(enough)
		all.Wait()
		if n := ended.Load(); n != 1 || r.Status != Success || news(r) != 1 || len(g.Boxes()) != 2 {
			t.Errorf("%d renewals ended, %d boxes, %s", n, len(g.Boxes()), r.JSON())
		}
	})
}
