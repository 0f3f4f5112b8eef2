package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// guardsClause says what is kept of a policy's guards where there are namespaces;
// an error when the policy does not leave the rest open. Guarded is what was found,
// which in a tree too large to be searched need not be all.
func guardsClause(p *sandbox.Policy) (sandbox.Clause, error) {
	c := sandbox.Clause{Clause: sandbox.ClauseGuards, State: sandbox.Enforced, Mechanism: "read-only and pinned mounts"}
	if len(p.Unsearched) == 0 {
		return c, nil
	}
	c.State, c.Why = sandbox.Partial, strings.Join(p.Unsearched, "; ")
	if !slices.Contains(p.BestEffort, sandbox.ClauseGuards) {
		return c, fmt.Errorf("policy %q cannot be kept: %s; use a smaller work dir, or best_effort: [guards] to leave it open: %w", p.Name, c.Why, sandbox.ErrPolicy)
	}
	return c, nil
}
