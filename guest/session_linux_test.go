package guest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// usual is a box of this user's, or of an ordinary one's if that is root.
func usual() Confinement {
	c := Confinement{
		UID: os.Getuid(), GID: os.Getgid(), Namespaces: true, Base: true,
		Scratch: "/run/hermes-exec", Read: []string{"/"}, PIDs: 512,
	}
	if c.UID == 0 {
		c.UID, c.GID, c.Mapped = 12345, 12345, true
	}
	return c
}

func confined(t testing.TB, change func(*Confinement)) *Session {
	t.Helper()
	var s Spawner
	c := usual()
	if change != nil {
		change(&c)
	}
	box := start(t, &s, c)
	t.Cleanup(func() { box.Close(); s.Close() })
	return box
}

// begin starts a command of the box, whose output comes from out.
func begin(t testing.TB, box *Session, cmd Command) (r *Remote, out *os.File) {
	t.Helper()
	r, err := box.Command()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	out, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	t.Cleanup(func() { out.Close() })
	cmd.Dir = "/"
	if cmd.Env == nil {
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
	}
	if _, err = r.Start(context.Background(), cmd, [3]*os.File{null, theirs, theirs}); err != nil {
		t.Fatal(err)
	}
	return r, out
}

func output(t testing.TB, box *Session, args ...string) (string, Event) {
	t.Helper()
	r, out := begin(t, box, Command{Args: args})
	var b bytes.Buffer
	io.Copy(&b, out)
	var last Event
	for {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.Exited {
			last = e
		}
		if e.Gone {
			last.Crowded = e.Crowded
			break
		}
	}
	r.Close()
	return b.String(), last
}

func TestConfinedLook(t *testing.T) {
	box := confined(t, nil)
	t.Logf("%+v", box.Setup())
	text, e := output(t, box, "sh", "-c", "id; ps ax; ls -la / /run /dev /tmp; cat /proc/self/status | grep -i -e cap -e seccomp -e nonew; mount | tail -20; touch /etc/x; touch /tmp/ok && echo ok; cat /root/.bashrc | head -1; unshare -U true; hostname")
	t.Logf("%s\n%+v", text, e)
}

// TestRefusedWhileMoreIsAsked: a guest that could not confine itself ends with the
// next order unread. What it said of the reason arrives all the same.
func TestRefusedWhileMoreIsAsked(t *testing.T) {
	var s Spawner
	defer s.Close()
	none := filepath.Join(t.TempDir(), "none")
	c := usual()
	c.More, c.Mounts = true, []Mount{{Kind: MountBind, Source: none, Target: "/mnt"}}
	for range 5 {
		box, err := s.Spawn("", c)
		if err != nil {
			t.Fatal(err)
		}
		if err = box.BeginConfine(c, nil); err != nil {
			t.Fatal(err)
		}
		_, _ = box.BeginMount([]Mount{{Kind: MountHide, Target: "/boot"}})
		select {
		case <-box.Done():
		case <-time.After(time.Minute):
			t.Fatal("it is not refused")
		}
		var refused *SetupError
		if err = box.Confined(context.Background()); !errors.As(err, &refused) || refused.Stage != "open "+none {
			t.Fatalf("%v", err)
		}
	}
}

// TestSwappedSource: who may write above a place that a box shows could put a link
// there just before the guest opens it.
func TestSwappedSource(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.MkdirAll(dir+"/real/sub", 0o755), os.Symlink("real", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	var s Spawner
	defer s.Close()
	for source, want := range map[string]syscall.Errno{dir + "/real/sub": 0, dir + "/link": syscall.ELOOP, dir + "/link/sub": syscall.ELOOP} {
		c := usual()
		c.Mounts = []Mount{{Kind: MountBind, Source: source, Target: "/mnt", Write: true, Optional: true}}
		box, err := s.Spawn("", c)
		if err != nil {
			t.Fatal(err)
		}
		refused := &SetupError{}
		if err := box.Confine(context.Background(), c, nil); (err == nil) != (want == 0) || err != nil && !errors.As(err, &refused) || refused.Errno != want {
			t.Errorf("%s: %v", source, err)
		}
		_ = box.Close()
	}
}

// TestUsedByTheKilled: what had to be killed tells nothing itself, but what it
// used is known, of all its processes.
func TestUsedByTheKilled(t *testing.T) {
	for name, orphaned := range map[string]string{"with the main process": "os.wait()", "after it": "raise SystemExit(3)"} {
		t.Run(name, func(t *testing.T) {
			r, out := begin(t, confined(t, nil), Command{Keep: true, Env: []string{}, Args: []string{"/usr/bin/python3", "-c", `
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def burn():
    while time.process_time() < 0.2: pass
    os.write(1, b"x")
burn()
for _ in range(2):
    if os.fork() == 0:
        burn()
        while True: signal.pause()
` + orphaned}})
			if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			if orphaned != "os.wait()" {
				if e, err := r.Next(); err != nil || e.Gone || e.Code != 3 {
					t.Fatalf("%+v, %v", e, err)
				}
			}
			if err := r.End(0); err != nil {
				t.Fatal(err)
			}
			e, err := r.Next()
			if used := e.Usage.User + e.Usage.System; err != nil || !e.Gone || e.Left > 0 || used < 600*time.Millisecond {
				t.Errorf("%+v, %v, used %v of 0.6 s", e, err, used)
			}
			if e.Exited && e.Signal != syscall.SIGKILL {
				t.Errorf("ended by %v", e.Signal)
			}
			r.Close()
		})
	}
}

// forkAll forks until it may not, and leaves what it made.
const forkAll = `
import os, time
n = 0
try:
    while True:
        if os.fork() == 0: time.sleep(1000)
        n += 1
except BlockingIOError:
    print(n)
    raise SystemExit(1)
`

// TestProcessesOfTheCommand: what the guest is itself made of takes nothing of
// what its commands may have, but for the little it makes meanwhile.
func TestProcessesOfTheCommand(t *testing.T) {
	box := confined(t, func(c *Confinement) { c.PIDs = 30 })
	for range 2 {
		text, e := output(t, box, "/usr/bin/python3", "-c", forkAll)
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err != nil || n < 26 || n > 30 || e.Code != 1 || !e.Crowded {
			t.Errorf("%q, %+v", text, e)
		}
	}
	few := "for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; exit 1"
	if text, e := output(t, box, "sh", "-c", few); text != "" || e.Code != 1 || e.Crowded {
		t.Errorf("%q, %+v", text, e)
	}
}

func BenchmarkConfine(b *testing.B) {
	var s Spawner
	defer s.Close()
	for b.Loop() {
		start(b, &s, usual()).Close()
	}
}

func BenchmarkConfinedTrue(b *testing.B) {
	box := confined(b, nil)
	for b.Loop() {
		output(b, box, "/bin/true")
	}
}

func start(t testing.TB, s *Spawner, c Confinement) *Session {
	t.Helper()
	box, err := s.Spawn("", c)
	if err == nil {
		err = box.Confine(context.Background(), c, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// TestKillOfTheDeaf: a guest that does not obey any more is killed with all it has
// started, also what has left its session, which nobody could tell from others'
// processes afterwards.
func TestKillOfTheDeaf(t *testing.T) {
	for name, change := range map[string]func(*Confinement){
		"namespaces": nil,
		"none":       func(c *Confinement) { c.Namespaces, c.Base, c.Scratch, c.PIDs = false, false, os.TempDir(), 0 },
	} {
		t.Run(name, func(t *testing.T) {
			box := confined(t, change)
			const deaf = "trap '' TERM; setsid sh -c 'setsid sh -c \"echo up; exec sleep 600\" & exec sleep 600' & exec sleep 600"
			r, out := begin(t, box, Command{Args: []string{"sh", "-c", deaf}})
			if _, err := io.ReadFull(out, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			if err := box.proc.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			if !r.Kill() {
				t.Error("not everything was found")
			}
			_ = out.SetReadDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, out); err != nil { // until the last has let go of it
				t.Errorf("lives on: %v", err)
			}
		})
	}
}
