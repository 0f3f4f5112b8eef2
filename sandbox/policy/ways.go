package policy

import (
	"fmt"
	"path"
	"slices"
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

// firm are places that stay denied, to look them up by name.
type firm struct {
	closed map[string]bool // denied, one way or the other
	hidden map[string]bool // those that cannot be read
	pinned map[string]bool // what cannot be moved away because of them
}

func (b *builder) keepFirm(f firm, w way) {
	f.closed[w.real] = true
	if w.clause == "deny_read" {
		f.hidden[w.real] = true
		if !b.links.exists(w.real) {
			return
		}
	}
	for dir := w.real; !f.pinned[dir]; dir = path.Dir(dir) {
		f.pinned[dir] = true
	}
}

// inOne tells whether a place is, or is below, one of the set.
func inOne(set map[string]bool, place string) bool {
	for ; !set[place]; place = path.Dir(place) {
		if place == "/" {
			return false
		}
	}
	return true
}

// checkWays refuses what is denied by a name that a script could lead elsewhere:
// the next session would deny another place, and nobody the one that was meant.
func (b *builder) checkWays() error {
	f := firm{map[string]bool{}, map[string]bool{}, map[string]bool{}}
	var rest []way
	for _, w := range b.ways {
		if w.place == w.real {
			b.keepFirm(f, w)
		} else {
			rest = append(rest, w)
		}
	}
	// What is denied for good holds the links in it, and those what they lead to:
	// as far as a name may lead.
	for again, n := true, 0; again && n < maxLinks; n++ {
		again = false
		rest = slices.DeleteFunc(rest, func(w way) bool {
			if _, loose := b.loose(w, f); loose {
				return false
			}
			b.keepFirm(f, w)
			again = true
			return true
		})
	}
	for _, w := range rest {
		if b.matters(w, f) {
			at, _ := b.loose(w, f)
			return b.refuseWay(w, at)
		}
	}
	return nil
}

// loose is the first step on a way that a script could replace.
func (b *builder) loose(w way, f firm) (first step, found bool) {
	b.links.walk(w.place, func(s step) {
		if !found && b.writable(s.name) && !b.held(s, f) {
			first, found = s, true
		}
	})
	return first, found
}

// held tells whether a step stays what it is: it lies in what is denied, or it is
// a directory above that, which is pinned.
func (b *builder) held(s step, f firm) bool {
	if s.link {
		return inOne(f.closed, path.Dir(s.name))
	}
	// A tree itself is where it is.
	return slices.Contains(b.policy.Write, s.name) || inOne(f.closed, s.name) || f.pinned[s.name]
}

// matters tells whether it makes a difference that a way can be changed.
func (b *builder) matters(w way, f firm) bool {
	p := &b.policy
	if w.clause == "deny_read" { // it is where it leads that counts
		return len(within([]string{w.real}, slices.Concat(p.Read, p.Write, p.Private))) > 0 && !inOne(f.hidden, w.real)
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
