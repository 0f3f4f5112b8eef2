package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestOtherUser(t *testing.T) {
	for _, c := range []struct {
		uidMap string
		uid    int
		ok     bool
	}{
		{"         0          0 4294967295\n", BoxUID, true},
		{"0 100000 65536\n", 65533, true},
		{"0 1000 1\n1 100000 1000\n", 1000, true},
		{"0 1000 1\n", 0, false},
		{"", 0, false},
		{"nonsense\n0 x 5\n", 0, false},
	} {
		if uid, ok := otherUser([]byte(c.uidMap)); uid != c.uid || ok != c.ok {
			t.Errorf("%q: %d %v, want %d %v", c.uidMap, uid, ok, c.uid, c.ok)
		}
	}
}

// Where a file system cannot show what is root's as another user's, root's work
// directory is refused on every rung, for a script is never root; a cache there
// is not writable, and everything else is as it was.
func TestNoIDMap(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root mounts file systems, and only root's directories are shown as another's")
	}
	plain := t.TempDir() // of the first file system without, on every kernel
	if err := unix.Mount("ramfs", plain, "ramfs", 0, "mode=0755"); err != nil {
		t.Skip("no file system can be mounted here: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(plain, unix.MNT_DETACH) })
	work, cache := filepath.Join(plain, "work"), filepath.Join(plain, "cache")
	for _, dir := range []string{work, cache} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	backend := New(Config{})
	defer backend.Close()
	policy := sandbox.Policy{
		Name: "plain", Read: []string{"/"}, Write: []string{work}, Network: sandbox.NetworkHost,
		BestEffort: []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseProcesses, sandbox.ClauseGuards, sandbox.ClauseResources},
	}
	_, err := backend.Create(t.Context(), sandbox.Spec{WorkDir: work, Policy: policy})
	if !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "cannot show it as another user's") || !strings.Contains(err.Error(), "chown") {
		t.Errorf("root's work directory: %v", err)
	}

	box, _, _ := attacked(t, func(_, _ string, p *sandbox.Policy) { p.Private = []string{cache} })
	if info := box.Info(); info.UID == 0 || info.Rung != sandbox.RungNamespaces {
		t.Errorf("%+v", info)
	}
	if out, _ := in(t, box, "sh", "-c", "touch x && echo work; touch "+cache+"/x 2>/dev/null || echo kept; id -u"); out != "work\nkept\n12345\n" {
		t.Errorf("%q", out)
	}
	if err := box.Files().Remove(context.Background(), filepath.Join(cache, "x")); err == nil {
		t.Error("something was written")
	}
}
