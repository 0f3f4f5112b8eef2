package local

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// What cannot be looked at is not taken for missing: who a box is for may look.
func TestDeniedBehindAClosedDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root looks everywhere, but on file systems of other machines")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed, link := filepath.Join(dir, "closed"), filepath.Join(dir, "link")
	if err := os.MkdirAll(filepath.Join(closed, "in"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(closed, 0o700)
	got := denied(sandbox.Policy{DenyRead: []string{filepath.Join(link, "closed/in/.ssh"), filepath.Join(dir, "none/.ssh")}})
	if want := filepath.Join(closed, "in/.ssh"); !slices.Contains(got, want) {
		t.Errorf("%q, without %s", got, want)
	}
	if slices.ContainsFunc(got, func(name string) bool { return filepath.Dir(name) == filepath.Join(dir, "none") }) {
		t.Errorf("%q: what is missing is in it", got)
	}
}
