package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// otherPlace is this machine as if it were another: its boxes bring their own
// environment, resolve the profile themselves, and, deaf, have no sockets.
type otherPlace struct {
	*local.Backend
	deaf bool
	spec sandbox.Spec // the last one asked for
}

func (*otherPlace) Elsewhere() {}

func (p *otherPlace) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	p.spec = spec
	env := append([]string{"PATH=/usr/bin:/bin", "HOME=/", "OF=elsewhere"}, spec.Env...)
	box, err := p.Backend.Create(ctx, sandbox.Spec{Env: env, Policy: sandbox.Policy{Name: spec.Profile.Name, Unconfined: true}})
	if err != nil {
		return nil, err
	}
	return &otherBox{box, env, p.deaf}, nil
}

type otherBox struct {
	sandbox.Sandbox
	env  []string
	deaf bool
}

func (b *otherBox) Info() sandbox.Info {
	info := b.Sandbox.Info()
	info.Env = b.env
	return info
}

func (b *otherBox) Listen(ctx context.Context) (net.Listener, string, error) {
	if b.deaf {
		return nil, "", fmt.Errorf("other: listen: %w", sandbox.ErrUnsupported)
	}
	return b.Sandbox.Listen(ctx)
}

func TestElsewhereNothingOfThisMachineGoesAlong(t *testing.T) {
	for _, deaf := range []bool{false, true} {
		t.Run(fmt.Sprintf("deaf=%t", deaf), func(t *testing.T) {
			place := &otherPlace{Backend: local.New(local.Config{}), deaf: deaf}
			e, err := New(Config{
				Backends: map[string]sandbox.Backend{"other": place}, Backend: "other", Tools: testTools,
				Environ:     []string{"PATH=/nowhere", "HOME=/nobody", "VIRTUAL_ENV=/nowhere/venv", "OF=here", "LET=through"},
				Passthrough: []string{"LET"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			if _, err := e.Open(t.Context(), Task{Policy: &sandbox.Policy{Name: "here"}}); !errors.Is(err, ErrRefused) {
				t.Errorf("a policy with paths of this machine: %v", err)
			}
			s, err := e.Open(t.Context(), Task{WorkDir: "/not/here", Mode: Strict, Env: []string{"SET=by the task"}})
			if err != nil {
				t.Fatal(err)
			}
			if p := place.spec; p.Profile.Name != "sealed" || p.WorkDir != "" || strings.Join(p.Env, " ") != "LET=through SET=by the task" {
				t.Errorf("the backend was asked for %+v", p)
			}
			r, err := s.Run(t.Context(), Script{Code: "import os\nfrom hermes_tools import read_file\n" +
				"print(read_file(text='there and back')['text'], os.environ['OF'], os.environ['SET'], os.environ['LET'], os.environ['HOME'])"})
			if err != nil || r.Status != Success {
				t.Fatalf("%v %+v", err, r)
			}
			if want := "there and back elsewhere by the task through /\n"; r.Output != want {
				t.Errorf("got %q, want %q", r.Output, want)
			}
			if r.ToolCallsMade != 1 {
				t.Errorf("%d calls", r.ToolCallsMade)
			}
			// Which paths the policy has there is not known here; the network is.
			r, err = s.Run(t.Context(), Script{Code: "print('Network is unreachable')\nopen('/not/there')"})
			if err != nil || len(r.Denials) != 1 || r.Denials[0].What != "network access" {
				t.Errorf("%v, denials %+v", err, r.Denials)
			}
		})
	}
}
