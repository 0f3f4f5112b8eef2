package sandbox

import (
	"path"
	"strings"
	"testing"
)

func TestAccess(t *testing.T) {
	p := Policy{
		Read: []string{"/"}, Write: []string{"/home/u/work", "/tmp/build"}, Private: []string{"/home/u/.cache/x"},
		DenyRead: []string{"/home/u/.ssh", "/home/u/work/.env"}, DenyWrite: []string{"/home/u/work/.git/hooks", "/etc"},
	}
	for _, c := range []struct{ name, read, write string }{
		{"/usr/bin/python3", "+read /", "-nothing allows it"},
		{"/home/u/work", "+write /home/u/work", "+write /home/u/work"},
		{"/home/u/work/a/b", "+write /home/u/work", "+write /home/u/work"},
		{"/home/u/workshop", "+read /", "-nothing allows it"},
		{"/home/u/.ssh", "-deny_read /home/u/.ssh", "-deny_read /home/u/.ssh"},
		{"/home/u/.ssh/id", "-deny_read /home/u/.ssh", "-deny_read /home/u/.ssh"},
		{"/home/u/.sshx", "+read /", "-nothing allows it"},
		{"/home/u/work/.env", "-deny_read /home/u/work/.env", "-deny_read /home/u/work/.env"},
		{"/home/u/work/.git", "+write /home/u/work", "+write /home/u/work"},
		{"/home/u/work/.git/hooks/pre-commit", "+write /home/u/work", "-deny_write /home/u/work/.git/hooks"},
		{"/home/u/.cache/x/pip", "+private /home/u/.cache/x", "+private /home/u/.cache/x"},
		{"/etc/passwd", "+read /", "-nothing allows it"},
		{"/tmp/other", "-the box has its own /tmp", "-the box has its own /tmp"},
		{"/tmp", "-the box has its own /tmp", "-the box has its own /tmp"},
		{"/tmpfile", "+read /", "-nothing allows it"},
		{"/tmp/build/out", "+write /tmp/build", "+write /tmp/build"},
		{"/run/docker.sock", "-the box has its own /run", "-the box has its own /run"},
		{"/", "+read /", "-nothing allows it"},
		{"relative", "-not a clean absolute path", "-not a clean absolute path"},
		{"", "-not a clean absolute path", "-not a clean absolute path"},
		{"/home/u/work/../.ssh", "-not a clean absolute path", "-not a clean absolute path"},
		{"/home/u/work/", "-not a clean absolute path", "-not a clean absolute path"},
		{"/home/u/work/\x00", "-not a clean absolute path", "-not a clean absolute path"},
	} {
		a := p.Access(c.name)
		sign := map[bool]string{true: "+", false: "-"}
		if got := sign[a.Read] + a.ReadRule.String(); got != c.read {
			t.Errorf("read %q: got %s, want %s", c.name, got, c.read)
		}
		if got := sign[a.Write] + a.WriteRule.String(); got != c.write {
			t.Errorf("write %q: got %s, want %s", c.name, got, c.write)
		}
	}
	if a := (Policy{}).Access("/usr"); a.Read || a.Write || a.ReadRule.String() != "nothing allows it" {
		t.Errorf("the zero policy gives %+v", a)
	}
	if a := (Policy{Read: []string{"/tmp"}, Write: []string{"/tmp"}}).Access("/tmp/x"); a.Read || a.Write {
		t.Errorf("the host's /tmp cannot be named as a whole, got %+v", a)
	}
	if a := (Policy{Unconfined: true, DenyRead: []string{"/"}}).Access("/x"); !a.Read || !a.Write || a.ReadRule.String() != "no confinement" {
		t.Errorf("an unconfined policy gives %+v", a)
	}
}

// Whatever the lists hold: nothing is allowed below a deny, a deny more widens
// nothing, an allow more narrows nothing, and writing implies reading.
func FuzzAccess(f *testing.F) {
	f.Add("/", "/home/u/w", "/home/u/.ssh", "/home/u/w/.git", "/home/u/w/.git/hooks", "/home/u")
	f.Add("/usr /tmp/a", "/tmp/a/b", "/tmp", "", "/tmp/a/b/c", "/tmp/a/b")
	f.Add("/a/b", "/a", "/a/b", "/a/b", "/a/b", "/a")
	f.Add("relative", "/a/../b", "//", "/", "/b", "a")
	f.Fuzz(func(t *testing.T, read, write, denyRead, denyWrite, name, more string) {
		p := Policy{
			Read: strings.Fields(read), Write: strings.Fields(write),
			DenyRead: strings.Fields(denyRead), DenyWrite: strings.Fields(denyWrite),
		}
		a := p.Access(name)
		if a.Write && !a.Read {
			t.Fatalf("%q can be written, not read: %+v", name, p)
		}
		if a.Read == (a.ReadRule.Clause == "" || a.ReadRule.Clause == "own" || a.ReadRule.Clause == "not_clean" || strings.HasPrefix(a.ReadRule.Clause, "deny")) {
			t.Fatalf("%q: read %v by %q", name, a.Read, a.ReadRule)
		}
		for _, d := range p.DenyRead {
			if path.IsAbs(d) && path.Clean(d) == d && Covers(d, name) && (a.Read || a.Write) {
				t.Fatalf("%q is below %q and allowed: %+v", name, d, a)
			}
		}
		for _, d := range p.DenyWrite {
			if path.IsAbs(d) && path.Clean(d) == d && Covers(d, name) && a.Write {
				t.Fatalf("%q is below %q and can be written: %+v", name, d, a)
			}
		}
		with := func(to *[]string) Access {
			old := *to
			defer func() { *to = old }()
			*to = append(append([]string(nil), old...), more)
			return p.Access(name)
		}
		for _, list := range []*[]string{&p.DenyRead, &p.DenyWrite} {
			if b := with(list); b.Read && !a.Read || b.Write && !a.Write {
				t.Fatalf("denying %q widened %q from %+v to %+v", more, name, a, b)
			}
		}
		for _, list := range []*[]string{&p.Read, &p.Write, &p.Private} {
			if b := with(list); a.Read && !b.Read || a.Write && !b.Write {
				t.Fatalf("allowing %q narrowed %q from %+v to %+v", more, name, a, b)
			}
		}
	})
}
