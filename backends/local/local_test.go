//go:build unix

package local_test

import (
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}

func TestLaws(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(t testing.TB) sandbox.Backend { return local.New(local.Config{Scratch: t.TempDir()}) },
	})
}
