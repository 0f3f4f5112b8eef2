package policy

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Who holds a lease keeps us from reading the file for a while.
func TestLeasedConfigurationIsRefused(t *testing.T) {
	w := newWorld(t)
	w.bareRepository("home/work/.git", "[core] hooksPath = hk\n")
	f, err := os.OpenFile(w.at("home/work/.git/config"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here:", err)
	}
	w.refused(Workspace, w.at("home/work/.git/config"), "open_guards: [git]")
}
