package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// fakeRun runs a program in a fake box with a policy, in fake time.
func fakeRun(t *testing.T, p sandbox.Policy, b reporting, program program, check func(r Result, took time.Duration)) {
	t.Helper()
	b.Backend = &sandboxtest.Fake{Run: program}
	inFakeTime(nil, func(c *Config, task *Task, _ *Script) {
		c.Backends = map[string]sandbox.Backend{"local": b}
		task.Policy = &p
	}, func(t *testing.T, r Result, took time.Duration) { check(r, took) })(t)
}

func TestFutureInputs(t *testing.T) {
	type look = func(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error)
	found := []sandbox.FutureInput{{Path: "/work/Makefile", Why: "make runs it"}, {Path: "/work/a\n\xffb", Why: "w"}}
	writes := sandbox.Policy{Name: "p", Write: []string{"/work"}}
	const list = `"future_inputs":[{"path":"/work/Makefile","why":"make runs it"},{"path":"/work/a\n\ufffdb","why":"w"}]`
	for _, c := range []struct {
		name   string
		policy sandbox.Policy
		look   look
		want   string // in the JSON; "" for no key at all
		took   time.Duration
	}{
		{"found", writes, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) { return found, true, nil }, list + "}", 0},
		{"nothing", writes, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) { return nil, true, nil }, "", 0},
		{"more than it saw", writes, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) { return found, false, nil },
			list + `,"future_inputs_complete":false}`, 0},
		{"failed", writes, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) {
			return nil, true, errors.New("gone")
		},
			`"future_inputs_complete":false}`, 0},
		{"as long as it is given", writes, func(ctx context.Context, _ time.Time) ([]sandbox.FutureInput, bool, error) {
			<-ctx.Done()
			return found[:1], false, nil
		}, `"future_inputs_complete":false}`, auditPatience},
		{"hangs whatever it is told", writes, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) {
			time.Sleep(time.Minute)
			return found, true, nil
		}, `"future_inputs_complete":false}`, auditPatience},
		{"caches alone", sandbox.Policy{Private: []string{"/cache"}}, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) { return found, true, nil }, list + "}", 0},
		{"no look where nothing is written", sandbox.Policy{Read: []string{"/"}}, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) {
			panic("looked")
		}, "", 0},
		{"nor where nothing is confined", sandbox.Policy{Unconfined: true, Write: []string{"/"}}, func(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) {
			panic("looked")
		}, "", 0},
		{"a box that cannot look", writes, nil, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fakeRun(t, c.policy, reporting{audit: c.look}, nil, func(r Result, took time.Duration) {
				got := string(r.JSON())
				if c.want == "" && strings.Contains(got, "future_inputs") || !strings.Contains(got, c.want) || r.Status != Success {
					t.Errorf("got %s\nwant %s", got, c.want)
				}
				if took != c.took {
					t.Errorf("took %s, want %s", took, c.took)
				}
				if strings.Contains(string(r.CompatJSON()), "future") {
					t.Error("in the reference's own keys")
				}
			})
		})
	}
}

// The look covers all of the run, and takes place when it was interrupted or
// its process was lost too.
func TestFutureInputsOfEveryEnd(t *testing.T) {
	for _, lost := range []error{nil, fmt.Errorf("killed: %w", sandbox.ErrLost)} {
		synctest.Test(t, func(t *testing.T) {
			var began, since time.Time
			looked := false
			fake := &sandboxtest.Fake{Lost: lost, Run: func(ctx context.Context, _ *sandboxtest.FakeBox, _ sandbox.Cmd) sandbox.Exit {
				began = time.Now()
				<-ctx.Done()
				return sandbox.Exit{Code: -1}
			}}
			e := newEngine(t, func(c *Config) {
				c.Backends = map[string]sandbox.Backend{"local": reporting{Backend: fake, audit: func(ctx context.Context, s time.Time) ([]sandbox.FutureInput, bool, error) {
					looked, since = true, s
					return []sandbox.FutureInput{{Path: "/work/Makefile"}}, true, ctx.Err()
				}}}
			})
			s := open(t, e, Task{WorkDir: "/work", Policy: &sandbox.Policy{Write: []string{"/work"}}})
			stagePython(t, s)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			r, err := s.Run(ctx, Script{Code: "pass", Interpreter: "/work/python3.11"})
			if !looked || len(r.FutureInputs) != 1 || r.FutureInputsComplete != nil || errors.Is(err, sandbox.ErrLost) != (lost != nil) {
				t.Errorf("lost %v: %v, got %s", lost, err, r.JSON())
			}
			if since.After(began) || began.Sub(since) > time.Second {
				t.Errorf("looked for what came after %s, the script began at %s", since, began)
			}
		})
	}
}

// What the box says of itself and of memory is in the result.
func TestRungAndPeak(t *testing.T) {
	uses := func(peak int64) program {
		return func(context.Context, *sandboxtest.FakeBox, sandbox.Cmd) sandbox.Exit {
			return sandbox.Exit{Usage: sandbox.Usage{MaxRSS: 5, MaxMemory: peak}}
		}
	}
	fakeRun(t, sandbox.Policy{Name: "p"}, reporting{rung: sandbox.RungNamespaces}, uses(1<<20), func(r Result, _ time.Duration) {
		if got := string(r.JSON()); !strings.Contains(got, `"policy":"p","rung":"namespaces",`) || !strings.Contains(got, `"max_rss_bytes":5,"peak_memory_bytes":1048576}`) {
			t.Error(got)
		}
	})
	fakeRun(t, sandbox.Policy{Unconfined: true}, reporting{}, uses(0), func(r Result, _ time.Duration) {
		if got := string(r.JSON()); strings.Contains(got, "rung") || strings.Contains(got, "peak_memory") {
			t.Error(got)
		}
	})
}

// stagePython puts a file where a fake box's interpreter is named.
func stagePython(t *testing.T, s *Session) {
	t.Helper()
	f, err := s.place.box.Files().Create(t.Context(), "/work/python3.11", sandbox.CreateOptions{Perm: 0o755})
	if err == nil {
		err = f.Commit()
	}
	if err != nil {
		t.Fatal(err)
	}
}
