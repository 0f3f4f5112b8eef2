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
		New: func(testing.TB) sandbox.Backend { return New(Config{Guest: plainGuest()}) },
		Spec: sandbox.Spec{
			WorkDir: dir,
			Policy:  sandbox.Policy{Name: "law", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost},
		},
	})
}

// plainGuest is a guest without the race detector, whose start costs a second,
// where a run of it is about what concurrency there is: in the engine's process.
// "" is this test itself.
func plainGuest() string {
	if testing.Short() {
		return os.Getenv("HERMES_EXEC_BIN")
	}
	return ""
}
