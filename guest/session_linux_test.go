package guest

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
)

func confined(t testing.TB, change func(*Confinement)) *Session {
	t.Helper()
	var s Spawner
	c := Confinement{
		UID: os.Getuid(), GID: os.Getgid(), Namespaces: true, Base: true,
		Scratch: "/run/hermes-exec", Read: []string{"/"}, PIDs: 512,
	}
	if c.UID == 0 {
		c.UID, c.GID, c.Mapped = 12345, 12345, true
	}
	if change != nil {
		change(&c)
	}
	box := start(t, &s, c)
	t.Cleanup(func() { box.Close(); s.Close() })
	return box
}

func output(t testing.TB, box *Session, args ...string) (string, Event) {
	t.Helper()
	r, err := box.Command()
	if err != nil {
		t.Fatal(err)
	}
	null, _ := os.Open(os.DevNull)
	defer null.Close()
	out, theirs, _ := os.Pipe()
	defer out.Close()
	_, err = r.Start(context.Background(), Command{Args: args, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}}, [3]*os.File{null, theirs, theirs})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
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

func BenchmarkConfine(b *testing.B) {
	var s Spawner
	defer s.Close()
	for b.Loop() {
		c := Confinement{
			UID: os.Getuid(), GID: os.Getgid(), Namespaces: true, Base: true,
			Scratch: "/run/hermes-exec", Read: []string{"/"}, PIDs: 512,
		}
		if c.UID == 0 {
			c.UID, c.GID, c.Mapped = 12345, 12345, true
		}
		start(b, &s, c).Close()
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
