package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// What is hidden in a writable tree must not get another name by way of a
// directory above it: the next session would hide the old one.
func TestAttackHiddenBelowAName(t *testing.T) {
	box, dir, _ := attacked(t, func(dir, home string, p *sandbox.Policy) {
		put(t, filepath.Join(dir, "config", "deep", "key"), "secret")
		p.DenyRead = []string{filepath.Join(dir, "config", "deep", "key"), filepath.Join(dir, "later", "key")}
		if os.Getuid() == 0 {
			for _, name := range []string{"config", "config/deep", "config/deep/key"} {
				if err := os.Chown(filepath.Join(dir, name), 12345, 12345); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
	const script = `
import os, sys
os.chdir(sys.argv[1])
for old, new in ("config", "c2"), ("config/deep", "config/d2"), ("config/deep", "d2"), ("config/deep/key", "k2"), ("later", "l2"):
    try: os.rename(old, new); print(old, "renamed")
    except OSError as e: print(old, e.errno)
os.mkdir("config/beside"); open("config/deep/other", "w").close()
`
	if got, want := try(t, box, script, dir), "config 16\nconfig/deep 16\nconfig/deep 18\nconfig/deep/key 18\nlater 2\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// It holds for what is made while the box is open, too.
	put(t, filepath.Join(dir, "later", "key"), "secret")
	if os.Getuid() == 0 {
		if err := errors.Join(os.Chown(filepath.Join(dir, "later"), 12345, 12345), os.Chown(filepath.Join(dir, "later", "key"), 12345, 12345)); err != nil {
			t.Fatal(err)
		}
	}
	later(box)
	if got := try(t, box, "import os, sys\nos.chdir(sys.argv[1])\ntry: os.rename('later', 'l2')\nexcept OSError as e: print(e.errno)", dir); got != "16\n" {
		t.Errorf("made later: %q", got)
	}
}

// Sockets that others listen on are hidden by what they are called now, not by
// what bind was told; and none of them keeps a box from being made.
func TestAttackSocketNames(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	listen := func(at string) {
		t.Helper()
		l, err := net.Listen("unix", at)
		if err != nil {
			t.Fatal(err)
		}
		l.(*net.UnixListener).SetUnlinkOnClose(false)
		t.Cleanup(func() { l.Close() })
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(home, "real"), 0o755), os.Symlink("real", filepath.Join(home, "link")), os.Mkdir(filepath.Join(other, "many"), 0o755), os.Mkdir(filepath.Join(other, "each"), 0o755)); err != nil {
		t.Fatal(err)
	}
	listen(filepath.Join(home, "link", "s"))
	listen(filepath.Join(home, "before"))
	if err := os.Rename(filepath.Join(home, "before"), filepath.Join(home, "after")); err != nil {
		t.Fatal(err)
	}
	for i := range maxSockets + 20 {
		listen(filepath.Join(other, "many", fmt.Sprint(i)))
		if err := os.Mkdir(filepath.Join(other, "each", fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
		listen(filepath.Join(other, "each", fmt.Sprint(i), "s"))
	}
	box, _, _ := attacked(t, func(_, _ string, p *sandbox.Policy) { p.Read = append(p.Read, home, other) })
	var names []string
	for _, name := range []string{"real/s", "link/s", "after"} {
		names = append(names, filepath.Join(home, name))
	}
	names = append(names, filepath.Join(other, "many", "7"), filepath.Join(other, "each", "7", "s"))
	got := try(t, box, `
import socket, sys
for name in sys.argv[1:]:
    try: socket.socket(socket.AF_UNIX).connect(name); print("reached", name)
    except OSError: print("closed")
`, names...)
	if got != strings.Repeat("closed\n", len(names)) {
		t.Errorf("%s", got)
	}
	if err := box.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
