package sandbox_test

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// quota is a Backend in 30 lines: it makes boxes in another one, a few at a
// time. What it does not change it embeds.
type quota struct {
	sandbox.Backend
	free chan struct{}
}

func newQuota(inner sandbox.Backend, boxes int) *quota {
	return &quota{inner, make(chan struct{}, boxes)}
}

func (q *quota) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	select {
	case q.free <- struct{}{}:
	default:
		return nil, fmt.Errorf("quota: create: all %d boxes are taken: %w", cap(q.free), sandbox.ErrUnavailable)
	}
	box, err := q.Backend.Create(ctx, spec)
	if err != nil {
		<-q.free
		return nil, err
	}
	return &counted{box, sync.OnceFunc(func() { <-q.free })}, nil
}

// counted gives its place back when it is closed.
type counted struct {
	sandbox.Sandbox
	release func()
}

func (c *counted) Close(ctx context.Context) error {
	defer c.release()
	return c.Sandbox.Close(ctx)
}

// A backend is what implements three methods; a box can be wrapped like any
// other value.
func ExampleBackend() {
	ctx := context.Background()
	backend := newQuota(&sandboxtest.Fake{Run: func(_ context.Context, _ *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
		fmt.Fprintln(cmd.Stdout, "running", cmd.Args)
		return sandbox.Exit{Code: 3}
	}}, 1)
	defer backend.Close()

	box, err := backend.Create(ctx, sandbox.Spec{Policy: sandbox.Policy{Name: "open", Unconfined: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = backend.Create(ctx, sandbox.Spec{})
	fmt.Println(err)

	proc, err := box.Start(ctx, sandbox.Cmd{Args: []string{"python3", "script.py"}, Stdout: os.Stdout})
	if err != nil {
		fmt.Println(err)
		return
	}
	exit, err := proc.Wait()
	fmt.Println(exit.Code, err)
	// Output:
	// quota: create: all 1 boxes are taken: backend is unavailable
	// running [python3 script.py]
	// 3 <nil>
}
