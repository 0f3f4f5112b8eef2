//go:build unix

package tools

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// BenchmarkTerminal is one command through the tool, and the same command by
// bash alone.
func BenchmarkTerminal(b *testing.B) {
	b.Run("tool", func(b *testing.B) {
		backend := local.New(local.Config{Scratch: b.TempDir()})
		defer backend.Close()
		box, err := backend.Create(b.Context(), sandbox.Spec{WorkDir: b.TempDir(), Policy: sandbox.Policy{Unconfined: true}})
		if err != nil {
			b.Fatal(err)
		}
		reg, err := registry.NewRegistry(terminalTool(newSession(box, Config{Env: []string{"PATH=/usr/bin:/bin"}})))
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			reg.Dispatch(b.Context(), registry.Caller{Kind: registry.Script, Lifetime: b.Context()}, "terminal", json.RawMessage(`{"command":"true"}`))
		}
	})
	b.Run("bash", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("bash", "-c", "true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
