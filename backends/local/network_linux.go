package local

import (
	"fmt"
	"slices"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// scopes is the first Landlock ABI that keeps signals in and abstract sockets of
// others away.
const scopes = 6

// networkClause says what is kept of a policy's network where there are
// namespaces; an error when the policy does not leave the rest open. Who has this
// machine's network has its abstract sockets, unless Landlock hides them; in a
// container they are nobody else's.
func networkClause(p *sandbox.Policy, abi int, contained bool) (sandbox.Clause, error) {
	c := sandbox.Clause{Clause: sandbox.ClauseNetwork, State: sandbox.Enforced, Mechanism: "network namespace"}
	if p.Network != sandbox.NetworkHost {
		return c, nil
	}
	c.Mechanism = "the host's, as the policy says; host sockets hidden"
	if abi >= scopes || contained {
		return c, nil
	}
	c.State, c.Mechanism = sandbox.Partial, "the host's, as the policy says; host sockets in the file system hidden"
	c.Why = fmt.Sprintf("abstract sockets of this machine can be connected to, as this kernel has Landlock ABI %d and %d hides them (Linux 6.12)", abi, scopes)
	if !slices.Contains(p.BestEffort, sandbox.ClauseNetwork) {
		return c, fmt.Errorf("policy %q cannot be kept: %s; use network: off, or best_effort: [network] to leave it open: %w", p.Name, c.Why, sandbox.ErrPolicy)
	}
	return c, nil
}
