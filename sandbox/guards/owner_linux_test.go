package guards

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// An engine run by root makes what the owner of the workspace could make, as
// he would, and has its own rights back afterwards.
func TestRootActsAsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become others")
	}
	const uid = 23456
	s, root := workspace(t)
	for _, name := range append(listing(t, root), ".") {
		if err := os.Chown(filepath.Join(root, name), uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".github"), 0o755); err != nil { // root's
		t.Fatal(err)
	}
	before := listing(t, root)
	h, err := s.Hold(t.Context(), root, usual)
	if err != nil {
		t.Fatal(err)
	}
	if sk := h.Skipped(); len(sk) != 1 || sk[0].Path != root+"/.github/workflows" {
		t.Errorf("skipped %v", sk)
	}
	if !slices.Contains(h.Paths(), root+"/.vscode") {
		t.Errorf("reserved %q", h.Paths())
	}
	for _, p := range h.Paths() {
		st, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if sys := st.Sys().(*syscall.Stat_t); sys.Uid != uid || sys.Gid != uid {
			t.Errorf("%s is of %d:%d", p, sys.Uid, sys.Gid)
		}
	}
	if kept, err := h.Release(); kept != nil || err != nil {
		t.Errorf("kept %v, %v", kept, err)
	}
	clean(t, s, root, before)
	file := filepath.Join(t.TempDir(), "mine")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Stat(file); st.Sys().(*syscall.Stat_t).Uid != 0 {
		t.Error("the thread kept the owner's rights")
	}
}
