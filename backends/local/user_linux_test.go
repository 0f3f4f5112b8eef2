package local

import "testing"

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
