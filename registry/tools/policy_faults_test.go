package tools

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The reference's faults that let a call past its policy, by their numbers:
// wrong is what it answered or did. TestFaults has those of single answers.

// 6: a policy that broke let the call through.
func TestFault06ABrokenPolicyShowsNothing(t *testing.T) {
	var reached atomic.Int64
	s := webServer(t, func(w http.ResponseWriter, _ *http.Request) { reached.Add(1); io.WriteString(w, "the page") })
	broken := func(string) string { panic("the redactor broke") }
	b := setup(t, func(c *Config) {
		c.Redact = broken
		c.Web = WebConfig{AllowPrivate: true, Secret: func(string) bool { panic("the detector broke") }}
	})
	b.file("f", "the secret\n")
	for _, tt := range []struct {
		tool, wrong string
		in          args
	}{
		{"read_file", "the secret", args{"path": "f"}},
		{"search_files", "the secret", args{"pattern": "secret"}},
		{"web_extract", "the page", args{"urls": []string{s.URL}}},
	} {
		raw, err := json.Marshal(tt.in)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(b.reg.Dispatch(t.Context(), model, tt.tool, raw)); strings.Contains(got, tt.wrong) || !strings.HasPrefix(got, `{"error":"[TOOL_ERROR] Tool execution failed: `) {
			t.Errorf("%s: %s", tt.tool, got)
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// 7: an ordinary call that named an unknown provider made the plugins be read
// again, and the policy was gone.
func TestFault07NoCallLosesThePolicy(t *testing.T) {
	cfg := WebConfig{SearchBackend: "gogle", ExtractBackend: "local"}
	cfg.Blocklist.Enabled, cfg.Blocklist.Domains = true, []string{"bad.example"}
	b := setup(t, func(c *Config) { c.Web = cfg })
	checks := func() string {
		var all []byte
		for _, call := range []struct {
			tool string
			in   string
		}{
			{"web_extract", `{"urls":["http://a.bad.example/"]}`},
			{"read_file", `{"path":"~/.ssh/id_rsa"}`},
			{"write_file", `{"path":"~/.ssh/id_rsa","content":""}`},
			{"terminal", `{"command":"rm --dry -rf \"/\" || echo ran"}`},
		} {
			all = append(append(all, b.reg.Dispatch(t.Context(), registry.Caller{Kind: registry.Shell}, call.tool, json.RawMessage(call.in))...), '\n')
		}
		return string(all)
	}
	want := checks()
	for _, refusal := range []string{"Blocked by website policy: ", "protected system/credential file", "BLOCKED (hardline): "} {
		if !strings.Contains(want, refusal) {
			t.Fatalf("no %q in the first place:\n%s", refusal, want)
		}
	}
	for range 3 {
		matches(t, "an unknown provider", b.call(model, "web_search", args{"query": "q"}),
			args{"success": false, "error": `web.search_backend: unknown backend "gogle"…`})
		b.call(model, "web_extract", args{"urls": []string{"nonsense://x"}})
		b.reg.Dispatch(t.Context(), model, "image_generate", json.RawMessage(`{}`))
		b.reg.Dispatch(t.Context(), model, "terminal", json.RawMessage(`{`))
		if got := checks(); got != want {
			t.Fatalf("the policy changed to\n%swas\n%s", got, want)
		}
	}
}

// 5, 11, 13, 49: whether a tool could be used was found out once, was one
// answer for both web tools, and was not asked for when one was called.
func TestFault11AvailabilityFollowsTheEnvironment(t *testing.T) {
	var asked atomic.Int64
	s := webServer(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); io.WriteString(w, `{"results":[]}`) })
	env := map[string]string{"TAVILY_BASE_URL": s.URL}
	b := setup(t, func(c *Config) { c.Web.Getenv = func(name string) string { return env[name] } })
	extract, ok := b.reg.Get("web_extract")
	if !ok {
		t.Fatal("there is no web_extract")
	}
	search, ok := b.reg.Get("web_search")
	if !ok {
		t.Fatal("there is no web_search")
	}
	wrong := search.Check(t.Context()) // the first look, before there was a key
	for i, key := range []string{"tvly-key", "", "tvly-key"} {
		env["TAVILY_API_KEY"] = key
		before := asked.Load()
		err, answer := search.Check(t.Context()), b.call(model, "web_search", args{"query": "q"})
		requests := asked.Load() - before
		if key != "" && (err == wrong || err != nil || answer["success"] != true || requests != 1) {
			t.Errorf("step %d, with a key: %v, %v, %d requests", i, err, answer, requests)
		}
		if key == "" && (err == nil || answer["success"] != false || answer["error"] != err.Error() || requests != 0) {
			t.Errorf("step %d, without: %v, %v, %d requests", i, err, answer, requests)
		}
		if extract.Check != nil && extract.Check(t.Context()) != nil {
			t.Errorf("step %d: web_extract needs no key", i)
		}
	}
}

// elsewhere is a box of another backend, as far as it says.
type elsewhere struct {
	sandbox.Sandbox
	backend string
}

func (e elsewhere) Info() sandbox.Info {
	info := e.Sandbox.Info()
	info.Backend = e.backend
	return info
}

// 45: what nobody could be asked about was granted, and inside a container
// nothing was looked at.
func TestFault45NobodyToAskIsNoPermission(t *testing.T) {
	for _, name := range []string{"HERMES_INTERACTIVE", "HERMES_YOLO_MODE", "HERMES_GATEWAY_SESSION", "HERMES_EXEC_ASK", "CI"} {
		t.Setenv(name, "1")
	}
	b := setup(t, nil)
	const wrong = `"exit_code":0`
	for _, backend := range []string{"local", "docker", "podman", "ssh", "modal", "singularity", ""} {
		reg, err := registry.NewRegistry(New(elsewhere{b.box, backend}, Config{})...)
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []registry.CallerKind{registry.Model, registry.Script, registry.MCP, registry.Shell, "", "cron"} {
			// Were it run, rm would refuse the option.
			in := json.RawMessage(`{"command":"touch ran; rm --dry -rf \"/\" || true"}`)
			got := string(reg.Dispatch(context.Background(), registry.Caller{Kind: kind}, "terminal", in))
			if strings.Contains(got, wrong) || !strings.Contains(got, `"status":"blocked"`) || !strings.Contains(got, "BLOCKED (hardline): ") {
				t.Errorf("%s, %q: %s", backend, kind, got)
			}
			if _, err := os.Stat(b.path("ran")); err == nil {
				t.Fatalf("%s, %q: it ran", backend, kind)
			}
		}
	}
}

// 47: a command that failed was run again.
func TestFault47ACommandRunsOnce(t *testing.T) {
	b := setup(t, nil)
	for _, end := range []string{"exit 1", "exit 126", "exit 255", "kill -KILL $$", "exec 1>&- 2>&-; exit 3", "sleep 600"} {
		b.file("runs", "")
		b.call(model, "terminal", args{"command": "echo x >> runs; " + end, "timeout": 2})
		const wrong = "x\nx\n"
		if got := b.disk("runs"); strings.HasPrefix(got, wrong) || got != "x\n" {
			t.Errorf("%s: ran as %q", end, got)
		}
	}
}
