package policy

import (
	"fmt"
	"os"
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
	closed := a.WriteRule
	if !a.Read {
		closed = a.ReadRule
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
	case closed.Clause == "own" || closed.Clause == "":
		e.Hint = p.allow(e.Real, a.Read, closed.Clause == "own")
	case closed.Clause == "deny_read" || closed.Clause == "deny_write":
		e.Hint = "take it out of the list that denies it: " + closed.Clause + " of the policy file"
		if closed.Clause == "deny_read" {
			e.Hint += " or of code_execution"
		}
	}
	return e
}

// onlyOpen ends what no policy file can give.
const onlyOpen = "; only --policy open gives it"

// allow says which entries of a policy file give what no rule of the plan does.
func (p Plan) allow(real string, seen, own bool) string {
	if err := ownTree(real); err != nil {
		return err.Error() + onlyOpen
	}
	give := func(entry string) string {
		switch base := p.Policy.Name; {
		case own:
			return entry + " in a policy file brings the host's in"
		case base != Sealed && base != Workspace:
			return fmt.Sprintf("%s in %s gives it", entry, path.Base(base))
		default:
			return fmt.Sprintf("a policy file with extends: %s and %s gives it", base, entry)
		}
	}
	w := p.writable(real, seen)
	if !seen {
		read := give("read: [" + real + "]")
		if w.tree == "" {
			return read + "; that it is written, only --policy open gives: " + w.why
		}
		return read + "; if it is to be changed, write: [" + w.tree + "] instead" + w.but
	}
	if w.tree == "" {
		return w.why + onlyOpen
	}
	return w.first + give("write: ["+w.tree+"]") + w.but
}

// writable is how a place can be given to be written.
type writable struct {
	tree       string // the directory to name; "" if none can be
	why        string // that none can be
	first, but string // what to do before; what it does not give
}

// writable finds the directory: the place itself, or the nearest above that may be
// given as a whole. Of what a script cannot see nothing is looked up: the hint
// must not tell it what is there.
func (p Plan) writable(real string, seen bool) writable {
	is := func(name string) bool {
		info, err := os.Stat(name)
		return err == nil && info.IsDir()
	}
	tree, below := real, real // below is what of the tree the place is, or is in
	if real != p.workdir && !(seen && is(real)) {
		tree = path.Dir(real)
	}
	for seen && !is(tree) && tree != "/" {
		tree, below = path.Dir(tree), tree
	}
	refused := p.belongs(tree)
	switch {
	case refused == nil:
		return writable{tree: tree}
	case tree == real || p.belongs(below) != nil:
		return writable{why: refused.Error()}
	case !seen:
		return writable{tree: real, but: fmt.Sprintf(", which has to be a directory: %v", refused)}
	case below == real && exists(real):
		return writable{why: fmt.Sprintf("a file is written with the directory it is in, and %v", refused)}
	case below == real:
		return writable{tree: real, first: "make it a directory first, then ", but: fmt.Sprintf("; a file there, only --policy open: %v", refused)}
	default:
		return writable{tree: below, first: "make the directory " + below + " first, then "}
	}
}
