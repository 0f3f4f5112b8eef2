//go:build unix

package guest_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/guest"
)

// reaping makes this program the one that TestReap starts.
const reaping = "TEST_REAP_ORPHANS"

func TestMain(m *testing.M) {
	guest.Main()
	if os.Getenv(reaping) != "" {
		os.Exit(reapStorm())
	}
	os.Exit(m.Run())
}

// start runs a command under a guest of its own, with stdout on a pipe.
func start(t *testing.T, cmd guest.Command) (*guest.Supervisor, *os.File, error) {
	t.Helper()
	sup, err := guest.Spawn("")
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Cleanup(func() { r.Close() })
	_, err = sup.Start(context.Background(), cmd, [3]*os.File{null, w, null})
	return sup, r, err
}

func TestOneCommand(t *testing.T) {
	sup, _, err := start(t, guest.Command{Args: []string{"/bin/sh", "-c", "exit 3"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	event, err := sup.Next()
	if err != nil || !event.Exited || !event.Gone || event.Code != 3 || event.Signal != 0 {
		t.Errorf("event %+v, %v", event, err)
	}
	if state, err := sup.Close(); err != nil || (state != nil && !state.Success()) {
		t.Errorf("the guest ended with %v, %v", state, err)
	}
}

func TestStartErrors(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cmd   guest.Command
		stage string
		want  error
	}{
		{guest.Command{Args: []string{"sh"}, Dir: "/nowhere"}, "dir", fs.ErrNotExist},
		{guest.Command{Args: []string{"nothing-of-the-kind"}, Dir: "/"}, "program", fs.ErrNotExist},
		{guest.Command{Args: []string{"/"}, Dir: "/"}, "program", fs.ErrPermission},
		{guest.Command{Args: []string{file}, Dir: "/"}, "exec", nil},
	} {
		_, _, err := start(t, c.cmd)
		var failed *guest.StartError
		if !errors.As(err, &failed) || failed.Stage != c.stage || (c.want != nil && !errors.Is(err, c.want)) {
			t.Errorf("%q in %q: %v", c.cmd.Args, c.cmd.Dir, err)
		}
	}
}

// TestInside: this process is no guest, whatever it starts.
func TestInside(t *testing.T) {
	if guest.Inside() {
		t.Error("this process says that it should be a guest")
	}
}
