//go:build linux

package ssh_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	sessions "github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// unwalled makes boxes without confinement, whatever is asked for.
type unwalled struct{ written }

func (u unwalled) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	spec.Policy = openSpec().Policy
	return u.written.Create(ctx, spec)
}

// daemon prints the process id of the sshd that a script is below.
const daemon = `
import os, time
pid, name = os.getpid(), ""
while "(sshd" not in name:
    name, _, rest = open(f"/proc/{pid}/stat").read().rpartition(") ")
    above, pid = pid, int(rest.split()[1])
print(above)
`

// A connection whose sshd is killed in the middle of a run and between two:
// what follows has another connection, and nothing is run twice.
func TestConnectionLostUnderASession(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		c := at(t, "hermes-test")
		if !guest {
			c = plainly(t, "hermes-test")
		}
		e, err := sessions.New(sessions.Config{
			Backends: map[string]sandbox.Backend{"ssh": unwalled{written{backend(t, c)}}}, Backend: "ssh", Environ: []string{},
			Tools: func(box sandbox.Sandbox) []registry.Tool { return tools.New(box, tools.Config{}) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		dir := t.TempDir()
		s, err := e.Open(t.Context(), sessions.Task{WorkDir: dir, Profile: sandbox.Profile{Name: "open"}})
		if err != nil {
			t.Fatal(err)
		}
		scratch := s.Info().ScratchDir
		kill := func(pid string) {
			n, err := strconv.Atoi(strings.TrimSpace(pid))
			if err == nil {
				err = syscall.Kill(n, syscall.SIGKILL)
			}
			if err != nil {
				t.Error(err)
			}
		}
		out := &waitFor{text: "\n", seen: make(chan struct{})}
		go func() {
			<-out.seen
			kill(out.String())
		}()
		r, err := s.Run(t.Context(), sessions.Script{Code: "open('count', 'a').write('x')\n" + daemon + "time.sleep(600)", Stdout: out})
		if !errors.Is(err, sandbox.ErrLost) || r.Output == "" || r.Output != out.String() || len(r.Warnings) != 0 {
			t.Fatalf("%v: %s", err, r.JSON())
		}
		r, err = s.Run(t.Context(), sessions.Script{Code: daemon + "from hermes_tools import terminal\nassert terminal('ls')['output'] == 'count'"})
		if err != nil || r.Status != sessions.Success || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "the connection ended") {
			t.Fatalf("%v: %s", err, r.JSON())
		}
		old := s.Info().ID
		kill(r.Output)
		if !soon(10*time.Second, func() bool {
			s.Call(t.Context(), rpc.Call{Tool: "terminal", Args: []byte(`{"command":"true"}`)})
			return s.Info().ID != old
		}) {
			t.Error("calls do not find another connection")
		}
		if got := string(s.Call(t.Context(), rpc.Call{Tool: "terminal", Args: []byte(`{"command":"pwd; cat count"}`)})); !strings.Contains(got, `"output":"`+dir+`\nx"`) {
			t.Errorf("terminal: %s", got)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "count")); err != nil || string(text) != "x" {
			t.Errorf("the script that was lost ran %q, %v", text, err)
		}
		if !soon(10*time.Second, func() bool { _, err := os.Lstat(scratch); return os.IsNotExist(err) }) {
			t.Errorf("the first box left %s", scratch)
		}
	})
}
