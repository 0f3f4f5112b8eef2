package guest

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// whole has something in every field.
var whole = Confinement{
	UID: 1000, GID: 100, Mapped: true, Namespaces: true, NetworkOff: true, Base: true, Size: 1 << 40, Scratch: "/run/x",
	Mounts: []Mount{
		{Kind: MountBind, Source: "/a b", Target: "/é\n", Tree: 3, Write: true, Optional: true},
		{Kind: MountFile, Target: "/etc/passwd", Text: "root:\xff\x00"}, {Kind: MountSelf, Optional: true}, {},
	},
	Links: []Link{{"/bin", "usr/bin"}, {}}, Read: []string{"/", ""}, Write: []string{"/w"}, Devices: []string{"/dev/pts"},
	PIDs: 7, Files: true, Groups: 2, Trees: 5, More: true,
}

func TestConfinementRoundTrip(t *testing.T) {
	for _, c := range []Confinement{{}, whole, whole.foundation(), {Mapped: true}, {Base: true}, {Files: true}, {UID: -1, Size: -1}} {
		got, err := parseConfinement(c.message())
		if diff := cmp.Diff(c, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v (-sent +received)\n%s", err, diff)
		}
	}
	for _, s := range []Setup{{}, {Landlock: 7, Error: "dev: no", Stage: "dev", Errno: 13, UIDMap: "0 0 1"}} {
		if got, err := parseSetup(s.message()); err != nil || got != s {
			t.Errorf("%+v became %+v, %v", s, got, err)
		}
	}
	message := whole.message()
	for cut := range message {
		if _, err := parseConfinement(message[:cut]); err == nil {
			t.Errorf("cut to %d of %d bytes, it was read", cut, len(message))
		}
	}
}

func FuzzParseConfinement(f *testing.F) {
	f.Add([]byte(whole.message()))
	f.Add([]byte(Confinement{}.message()))
	f.Add([]byte(frame{}.number(1 << 60)))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := parseConfinement(b)
		if err == nil && !bytes.Equal(c.message(), b) {
			t.Errorf("% x was read as %+v, which is % x", b, c, c.message())
		}
		p := payload{rest: b}
		if list := p.mounts(); p.end() == nil && !bytes.Equal(frame{}.mounts(list), b) {
			t.Errorf("% x was read as %+v", b, list)
		}
		if s, err := parseSetup(b); err == nil && !bytes.Equal(s.message(), b) {
			t.Errorf("% x was read as %+v", b, s)
		}
	})
}
