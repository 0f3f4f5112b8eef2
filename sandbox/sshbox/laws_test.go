//go:build unix

package sshbox_test

import (
	"io"
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
)

func laws(t *testing.T, streams func(testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser), spec sandbox.Spec) {
	sandboxtest.Run(t, sandboxtest.Options{
		New:  func(t testing.TB) sandbox.Backend { return newFar(t, streams, sshbox.Config{}) },
		Spec: spec,
	})
}

func TestLawsOpen(t *testing.T) {
	once(t)
	laws(t, socketPair, sandbox.Spec{})
}

// TestLawsUnbuffered: not even a stream that holds nothing makes two ends wait
// for each other.
func TestLawsUnbuffered(t *testing.T) { laws(t, pipe, sandbox.Spec{}) }

// once skips what tests the same code again.
func once(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestLawsUnbuffered tests the same code")
	}
}

func TestLawsConfined(t *testing.T) {
	once(t)
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	laws(t, socketPair, sandbox.Spec{
		WorkDir: dir,
		Policy:  sandbox.Policy{Name: "law", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost},
	})
}
