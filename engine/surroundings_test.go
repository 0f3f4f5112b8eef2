package engine

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// A script asks what it may do, in both ways of calling, before and after its
// budget is spent; asking counts nowhere.
func TestSandboxFromAScript(t *testing.T) {
	r := run(t, `
import asyncio, json
import hermes_tools
from hermes_tools import *
first = sandbox()
print(json.dumps(first))
write_file()
write_file()
assert "limit reached" in write_file()["error"]
last = asyncio.run(aio.sandbox())
assert last["limits"]["seconds_left"] <= first["limits"]["seconds_left"]
assert (first["calls_left"], last["calls_left"]) == (2, 0), (first, last)
assert "sandbox" in hermes_tools.__all__ and "sandbox" in aio.__all__ and "readable" in sandbox.__doc__
`, func(_ *Config, task *Task, s *Script) {
		s.Limits = Limits{MaxToolCalls: 2, Timeout: time.Minute}
		task.Resources = sandbox.Resources{}
		task.Policy = &sandbox.Policy{Name: "open", Unconfined: true}
	})
	if r.Status != Success || r.ToolCallsMade != 2 || len(r.ToolCalls) != 2 {
		t.Fatalf("got %s", r.JSON())
	}
	var got surroundings
	d := json.NewDecoder(strings.NewReader(r.Output))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.Mode != Project || got.Policy != "open" || got.Rung != r.Rung || got.Network != "host" || got.Cwd == "" || got.Scratch == "" || got.Scratch == got.Cwd {
		t.Errorf("got %s", r.Output)
	}
	if l := got.Limits; l.TimeoutSeconds != 60 || l.SecondsLeft <= 0 || l.SecondsLeft > 60 || l.MaxToolCalls != 2 || l.Memory != nil || l.PIDs != nil || l.CPU != nil || l.Disk != nil {
		t.Errorf("limits %s", r.Output)
	}
	for clause, state := range r.Enforcement {
		if got.Enforcement[sandbox.ClauseName(clause)].State != sandbox.ClauseState(state) {
			t.Errorf("%s is told as %+v, the result says %s", clause, got.Enforcement[sandbox.ClauseName(clause)], state)
		}
	}
}

// Strict mode's cwd is the scratch directory, and nothing granted is no reason
// to keep silent.
func TestSandboxOfAStrictScript(t *testing.T) {
	r := run(t, `
import os, hermes_tools
here = hermes_tools.sandbox()
print(here["mode"], here["cwd"] == here["scratch"] == os.getcwd() == os.path.dirname(__file__), here["calls_left"])
`, func(_ *Config, task *Task, s *Script) {
		task.Mode, task.Tools, s.Limits.MaxToolCalls = Strict, []string{}, NoToolCalls
	})
	wantOutput(t, r, "strict True 0\n")
}

// What is told is what the policy and the task say, not more.
func TestSurroundingsOfAPolicy(t *testing.T) {
	e := newEngine(t, func(c *Config) {
		c.Backends = map[string]sandbox.Backend{"local": reporting{Backend: &sandboxtest.Fake{}, rung: sandbox.RungLandlock}}
	})
	s := open(t, e, Task{
		Policy: &sandbox.Policy{
			Name: "mine", Read: []string{"/usr"}, Write: []string{"/w"}, Private: []string{"/cache"}, DenyRead: []string{"/w/.env"},
		},
		Resources: sandbox.Resources{CPU: 1.5, Memory: 1 << 30, Disk: 1 << 20, PIDs: 64},
	})
	g := &gate{place: s.place, max: 50, cwd: "/w", scratch: "/s/run-1", timeout: 90 * time.Second, deadline: time.Now().Add(-time.Hour)}
	got := string(g.handle(t.Context(), rpc.Call{ID: 1, Tool: rpc.SandboxCall, Args: json.RawMessage(`{"x":1}`)}))
	want := `{"mode":"project","policy":"mine","rung":"landlock","cwd":"/w","scratch":"/s/run-1","network":"off",` +
		`"limits":{"timeout_seconds":90,"seconds_left":0,"max_tool_calls":50,"memory":1073741824,"pids":64,"cpu":1.5,"disk":1048576},` +
		`"calls_left":50,"enforcement":{"kill":{"state":"unsupported","mechanism":""}},"readable":["/usr"],"writable":["/w","/cache"]}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s = open(t, e, Task{Policy: &sandbox.Policy{}})
	if got := string((&gate{place: s.place}).surroundings()); !strings.HasSuffix(got, `"readable":[],"writable":[]}`) {
		t.Errorf("nothing is allowed: %s", got)
	}
	if strings.Contains(got, ".env") {
		t.Error("what is hidden is named")
	}
}

// No tool can take the name, and nothing near it is answered.
func TestSandboxCallIsNoTool(t *testing.T) {
	for _, name := range []string{rpc.SandboxCall, "sandbox"} {
		tool := registry.New(name, "t", "", func(context.Context, registry.Caller, struct{}) (string, error) { return "", nil })
		if _, err := registry.NewRegistry(tool); err == nil {
			t.Errorf("a tool is called %s", name)
		}
	}
	s := open(t, newEngine(t, nil), Task{})
	g := &gate{place: s.place, run: "run-1", granted: s.granted, max: 5, ctx: t.Context()}
	for _, name := range []string{"sandbox", "_Sandbox", "_sandbox ", "__sandbox", "_sandbox\x00", "hermes_tools._sandbox"} {
		if got := string(g.handle(t.Context(), rpc.Call{Tool: name})); !strings.Contains(got, "is not available in execute_code") {
			t.Errorf("%q: %s", name, got)
		}
	}
	// A model, which goes through another door, has no such call at all.
	if got := string(s.Call(t.Context(), rpc.Call{Tool: rpc.SandboxCall})); !strings.Contains(got, "Unknown tool") {
		t.Errorf("got %s", got)
	}
}

// reporting is a backend whose boxes say how they are held, and look for what
// was left if audit is set.
type reporting struct {
	sandbox.Backend
	rung  string
	audit func(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error)
}

func (r reporting) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := r.Backend.Create(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case r.audit != nil:
		return auditing{rungBox{box, r.rung}, r.audit}, nil
	}
	return rungBox{box, r.rung}, nil
}

type rungBox struct {
	sandbox.Sandbox
	rung string
}

func (b rungBox) Info() sandbox.Info {
	info := b.Sandbox.Info()
	info.Rung = b.rung
	return info
}

type auditing struct {
	rungBox
	audit func(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error)
}

func (b auditing) FutureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	return b.audit(ctx, since)
}
