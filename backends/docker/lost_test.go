package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestRemovedUnderASession is docker rm -f of a session's container, in the
// middle of a run and between two: what follows has another container.
func TestRemovedUnderASession(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	e, err := engine.New(engine.Config{
		Backends: map[string]sandbox.Backend{"docker": b}, Backend: "docker", Environ: []string{},
		Tools: func(box sandbox.Sandbox) []registry.Tool { return tools.New(box, tools.Config{}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	dir := ownedDir(t)
	s, err := e.Open(t.Context(), engine.Task{WorkDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	b.mu.Lock()
	lease := b.lease.id
	b.mu.Unlock()
	remove := func() {
		list := w.of(t, lease)
		if len(list) != 1 {
			t.Errorf("%d containers of one session", len(list))
		}
		for _, c := range list {
			if _, err := w.api(t).ContainerRemove(context.Background(), c.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}
	}
	terminal := func(command string) string {
		return string(s.Call(t.Context(), rpc.Call{Tool: "terminal", Args: []byte(`{"command":"` + command + `"}`)}))
	}

	if got := terminal("cd / && touch /tmp/mine && pwd"); !strings.Contains(got, `"output":"/"`) {
		t.Errorf("terminal: %s", got)
	}
	var once sync.Once
	r, err := s.Run(t.Context(), engine.Script{
		Code:   "import time\nopen('count', 'a').write('x')\nprint('partial')\ntime.sleep(600)",
		Stdout: writerFunc(func(p []byte) (int, error) { once.Do(remove); return len(p), nil }),
	})
	if !errors.Is(err, sandbox.ErrLost) || !strings.Contains(r.Error, "rm -f") || r.Output != "partial\n" || len(r.Warnings) != 0 {
		t.Errorf("%v: %s", err, r.JSON())
	}
	const look = "import os\nfrom hermes_tools import terminal\nprint(os.path.exists('/tmp/mine'), terminal('ls')['output'])"
	r, err = s.Run(t.Context(), engine.Script{Code: look})
	if err != nil || r.Output != "False count\n" || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "rm -f") {
		t.Errorf("%v: %s", err, r.JSON())
	}
	remove()
	if got := terminal("pwd; ls"); !strings.Contains(got, `"output":"`+s.Info().WorkDir+`\ncount"`) {
		t.Errorf("terminal: %s", got)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if list := w.of(t, lease); len(list) != 0 {
		t.Errorf("%d containers left", len(list))
	}
	if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != "x" {
		t.Errorf("the script that was lost ran %q, %v", text, err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
