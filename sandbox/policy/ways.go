package policy

import (
	"fmt"
	"path"
	"slices"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// way is how a place that is denied was named, and where that leads.
type way struct{ clause, guard, place, real string }

// step is what a name passes on its way: a link, or a directory that .. leaves
// again.
type step struct {
	name string
	link bool
}

func (s step) String() string {
	if s.link {
		return "the link " + s.name
	}
	return "the directory " + s.name + " and .."
}

// checkWays refuses what is denied by a name that a script could lead elsewhere:
// the next session would deny another place, and nobody the one that was meant.
func (b *builder) checkWays() error {
	var firm, rest []way
	for _, w := range b.ways {
		if w.place == w.real {
			firm = append(firm, w)
		} else {
			rest = append(rest, w)
		}
	}
	// What is denied for good holds the links in it, and those what they lead to.
	for again := true; again; {
		again = false
		rest = slices.DeleteFunc(rest, func(w way) bool {
			if _, loose := b.loose(w, firm); loose {
				return false
			}
			firm, again = append(firm, w), true
			return true
		})
	}
	for _, w := range rest {
		if b.matters(w, firm) {
			at, _ := b.loose(w, firm)
			return b.refuseWay(w, at)
		}
	}
	return nil
}

// loose is the first step on a way that a script could replace.
func (b *builder) loose(w way, firm []way) (first step, found bool) {
	b.links.walk(w.place, func(s step) {
		if !found && b.writable(s.name) && !b.held(s, firm) {
			first, found = s, true
		}
	})
	return first, found
}

// held tells whether a step stays what it is: it lies in what is denied, or it is
// a directory above that, which is pinned.
func (b *builder) held(s step, firm []way) bool {
	in := s.name
	if s.link {
		in = path.Dir(s.name)
	} else if slices.Contains(b.policy.Write, s.name) {
		return true // a tree itself is where it is
	}
	return slices.ContainsFunc(firm, func(w way) bool {
		return sandbox.Covers(w.real, in) ||
			!s.link && sandbox.Covers(s.name, w.real) && (w.clause == "deny_write" || b.links.exists(w.real))
	})
}

// matters tells whether it makes a difference that a way can be changed.
func (b *builder) matters(w way, firm []way) bool {
	p := &b.policy
	if w.clause == "deny_read" { // it is where it leads that counts
		return len(within([]string{w.real}, slices.Concat(p.Read, p.Write, p.Private))) > 0 &&
			!slices.ContainsFunc(firm, func(f way) bool { return f.clause == w.clause && sandbox.Covers(f.real, w.real) })
	}
	// A link in the place itself is refused by who would have to guard it.
	at := b.links.at(w.place)
	return !b.writable(at) || b.links.look(at).link == ""
}

func (b *builder) refuseWay(w way, at step) error {
	what, fix := "guarded", "replace that by what it leads to"
	switch {
	case w.clause == "deny_read":
		what, fix = "hidden", fmt.Sprintf("hide %s by its own name too, with deny_read: [%s], or ", w.real, w.real)+fix
	case w.guard == "":
		what, fix = "read-only", fmt.Sprintf("name it as %s, or ", w.real)+fix
	}
	if w.guard != "" && !fixedGuard(w.guard) {
		fix += fmt.Sprintf(", or open the guard: open_guards: [%s]", w.guard)
	}
	return refuse("policy: %s is to be %s and leads to %s through %s, which a script could replace: %s", w.place, what, w.real, at, fix)
}
