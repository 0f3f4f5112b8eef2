package local

import (
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// A confined box keeps every law an unconfined one keeps.
func TestConfinedLaws(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(testing.TB) sandbox.Backend { return New(Config{}) },
		Spec: sandbox.Spec{
			WorkDir: dir,
			Policy:  sandbox.Policy{Name: "law", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost},
		},
	})
}
