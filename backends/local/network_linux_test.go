package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// What is said of the network is what Landlock keeps of it: with the network of
// this machine come its abstract sockets, which kernels before 6.12 cannot hide.
func TestNetworkClause(t *testing.T) {
	leaves := []sandbox.ClauseName{sandbox.ClauseNetwork}
	for _, c := range []struct {
		name      string
		network   sandbox.Network
		best      []sandbox.ClauseName
		abi       int
		contained bool
		state     sandbox.ClauseState
		refused   bool
	}{
		{"off", sandbox.NetworkOff, nil, 2, false, sandbox.Enforced, false},
		{"off without Landlock", sandbox.NetworkOff, nil, 0, false, sandbox.Enforced, false},
		{"host", sandbox.NetworkHost, nil, 6, false, sandbox.Enforced, false},
		{"host on an old kernel", sandbox.NetworkHost, nil, 5, false, sandbox.Partial, true},
		{"left open", sandbox.NetworkHost, leaves, 5, false, sandbox.Partial, false},
		{"left open without Landlock", sandbox.NetworkHost, leaves, 0, false, sandbox.Partial, false},
		{"left open and kept", sandbox.NetworkHost, leaves, 7, false, sandbox.Enforced, false},
		{"in a container", sandbox.NetworkHost, nil, 2, true, sandbox.Enforced, false},
	} {
		clause, err := networkClause(&sandbox.Policy{Name: "p", Network: c.network, BestEffort: c.best}, c.abi, c.contained)
		if errors.Is(err, sandbox.ErrPolicy) != c.refused || clause.State != c.state || (clause.State == sandbox.Partial) != strings.Contains(clause.Why, "abstract sockets") {
			t.Errorf("%s: %+v, %v", c.name, clause, err)
		}
	}
}
