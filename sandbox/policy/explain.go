package policy

import (
	"fmt"
	"path"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Explanation says what a script would get of one path, by which rule, and how
// to change it.
type Explanation struct {
	Path      string       `json:"path"`
	Real      string       `json:"real"` // where Path leads
	Read      bool         `json:"read"`
	ReadRule  sandbox.Rule `json:"read_rule"`
	Write     bool         `json:"write"`
	WriteRule sandbox.Rule `json:"write_rule"`
	Guard     string       `json:"guard,omitempty"` // the one that closes it
	Hint      string       `json:"hint,omitempty"`  // how to open it
}

// Explain follows the links of an absolute path and tells what the plan gives.
func (p Plan) Explain(name string) Explanation {
	var links resolver
	ways := links.both(name)
	e := Explanation{Path: name, Real: ways[len(ways)-1]}
	a := p.Policy.Access(e.Real)
	if len(ways) > 1 {
		// A link in a hidden place leads nowhere, whatever it points to.
		if at := p.Policy.Access(ways[0]); at.ReadRule.Clause == "deny_read" {
			a = at
		}
	}
	e.Read, e.ReadRule, e.Write, e.WriteRule = a.Read, a.ReadRule, a.Write, a.WriteRule
	closed, key := a.WriteRule, "write"
	if !a.Read {
		closed, key = a.ReadRule, "read"
	} else if a.Write {
		return e
	}
	e.Guard = p.Guard(closed)
	for rule, guard := range p.guards {
		// Opening the guard of a tree does not open what another keeps in it.
		if rule.Clause == closed.Clause && sandbox.Covers(rule.Path, e.Real) && fixedGuard(guard) {
			e.Guard = guard
		}
	}
	switch {
	case fixedGuard(e.Guard):
		e.Hint = "nothing opens it"
	case e.Guard != "":
		e.Hint = fmt.Sprintf("code_execution.open_guards: [%s] in config.yaml opens it, or open_guards in a policy file", e.Guard)
	case closed.Clause == "own":
		e.Hint = fmt.Sprintf("%s: [%s] in a policy file brings the host's in", key, e.Real)
	case closed.Clause == "":
		base := p.Policy.Name
		if base != Sealed && base != Workspace {
			e.Hint = fmt.Sprintf("%s: [%s] in %s gives it", key, e.Real, path.Base(base))
			break
		}
		e.Hint = fmt.Sprintf("a policy file with extends: %s and %s: [%s] gives it", base, key, e.Real)
	case closed.Clause == "deny_read" || closed.Clause == "deny_write":
		e.Hint = "take it out of the list that denies it: " + closed.Clause + " of the policy file"
		if closed.Clause == "deny_read" {
			e.Hint += " or of code_execution"
		}
	}
	return e
}
