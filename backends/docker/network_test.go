package docker

import (
	"errors"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestTheConfigurationCannotGiveANetwork(t *testing.T) {
	for _, c := range []struct {
		configured  string
		given, want bool
		refused     bool
	}{
		{"", true, true, false}, {"", false, false, false},
		{"off", true, false, false}, {"off", false, false, false},
		{"bridge", true, true, false}, {"bridge", false, false, true},
		{"host", true, false, true}, {"container:x", true, false, true},
	} {
		b := New(Config{Network: c.configured})
		got, err := b.network(c.given)
		if got != c.want || (err != nil) != c.refused || err != nil && !errors.Is(err, sandbox.ErrPolicy) {
			t.Errorf("network %q, policy %t: %t, %v", c.configured, c.given, got, err)
		}
	}
}
