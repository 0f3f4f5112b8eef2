package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestMain(m *testing.M) {
	guest.Main()
	if len(os.Args) == 3 && os.Args[1] == "guest" && os.Args[2] == "walk" {
		if serve.Walk(os.Stdin, os.Stdout) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bench is a real box in a directory of its own, with a set of tools.
type bench struct {
	t    testing.TB
	dir  string // the working directory
	home string
	box  sandbox.Sandbox
	reg  *registry.Registry
}

// setup makes one; change, if not nil, alters the configuration.
func setup(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, dir: root + "/work", home: root + "/home"}
	for _, d := range []string{b.dir, b.home, root + "/scratch"} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx := context.Background()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.home}
	t.Setenv("HOME", b.home)
	backend := local.New(local.Config{Scratch: root + "/scratch"})
	b.box, err = backend.Create(ctx, sandbox.Spec{WorkDir: b.dir, Env: env, Policy: sandbox.Policy{Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.box.Close(ctx)
		backend.Close()
	})
	cfg := Config{Home: b.home, HermesHome: b.home + "/.hermes", Env: env}
	if change != nil {
		change(&cfg)
	}
	if b.reg, err = registry.NewRegistry(New(b.box, cfg)...); err != nil {
		t.Fatal(err)
	}
	return b
}

// file writes a file below the working directory.
func (b *bench) file(name, content string) string {
	b.t.Helper()
	name = b.path(name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
	return name
}

func (b *bench) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(b.dir, name)
}

func (b *bench) disk(name string) string {
	b.t.Helper()
	got, err := os.ReadFile(b.path(name))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(got)
}

type args = map[string]any

var (
	model  = registry.Caller{Kind: registry.Model, Session: "aa"}
	script = registry.Caller{Kind: registry.Script, Session: "aa", Run: "1"}
)

// call calls a tool as a caller would, over JSON, and checks that the answer
// is JSON.
func (b *bench) call(caller registry.Caller, tool string, in any) map[string]any {
	b.t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := b.reg.Dispatch(context.Background(), caller, tool, raw)
	var out map[string]any
	d := json.NewDecoder(bytes.NewReader(answer))
	if err := d.Decode(&out); err != nil || bytes.ContainsRune(answer, '\n') {
		b.t.Fatalf("%s(%s) answered %q: %v", tool, raw, answer, err)
	}
	return out
}

// matches compares the fields named in want; a string that ends in "…" is a
// prefix. Numbers are as JSON has them. A nil wants the key absent.
func matches(t testing.TB, what string, got map[string]any, want args) {
	t.Helper()
	for key, w := range want {
		g, ok := got[key]
		if w == nil {
			if ok {
				t.Errorf("%s: %s = %q, want no such key", what, key, g)
			}
			continue
		}
		if prefix, is := w.(string); is && strings.HasSuffix(prefix, "…") {
			if s, _ := g.(string); !strings.HasPrefix(s, strings.TrimSuffix(prefix, "…")) {
				t.Errorf("%s: %s = %q, want %q", what, key, g, w)
			}
			continue
		}
		wj, _ := json.Marshal(w)
		gj, _ := json.Marshal(g)
		if !bytes.Equal(wj, gj) {
			t.Errorf("%s: %s = %s, want %s", what, key, gj, wj)
		}
	}
}
