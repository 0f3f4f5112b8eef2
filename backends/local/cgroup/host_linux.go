package cgroup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Control tells whether one resource can be bounded here, and where.
type Control struct {
	Resource sandbox.Limit // memory, pids or cpu
	Version  int           // of cgroups, 1 or 2; 0 when it cannot
	Dir      string        // where groups are made
	Why, Fix string        // when it cannot: the reason, and what to do
}

// Host is what control groups can do here for this process. The zero Host can
// do nothing and does not know why.
type Host struct {
	Controls []Control // memory, pids, cpu
	// Unified is where version 2 groups can be made, "" for nowhere. It takes no
	// controller to kill everything in one.
	Unified string
	freezer string   // the same of version 1's freezer
	tops    []string // of the hierarchies in which groups are made, here or elsewhere
	prefix  string   // of the groups' names
}

// Control returns what is known about a resource.
func (h Host) Control(r sandbox.Limit) Control {
	for _, c := range h.Controls {
		if c.Resource == r {
			return c
		}
	}
	return Control{Resource: r, Why: "no control group is known for it"}
}

// Quick tells whether a resource can be bounded without making each command
// wait for the kernel, see the package comment.
func (h Host) Quick(r sandbox.Limit) bool { return h.Control(r).Version == 1 }

// Mechanism names what can be enforced, and by what: "cgroup v1 memory, pids,
// cpu"; "" for nothing.
func (h Host) Mechanism() string { return mechanism(h.Controls) }

func mechanism(controls []Control) string {
	var all []string
	for version := 1; version <= 2; version++ {
		var names []string
		for _, c := range controls {
			if c.Version == version {
				names = append(names, string(c.Resource))
			}
		}
		if len(names) > 0 {
			all = append(all, fmt.Sprintf("cgroup v%d %s", version, strings.Join(names, ", ")))
		}
	}
	return strings.Join(all, "; ")
}

// Clauses gives one line for doctor and the like a resource: what is enforced
// and by which mechanism, or why not and what to do.
func (h Host) Clauses() []string {
	lines := make([]string, 0, len(h.Controls))
	for _, c := range h.Controls {
		if c.Version != 0 {
			lines = append(lines, fmt.Sprintf("%s: cgroup v%d in %s", c.Resource, c.Version, c.Dir))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s: not enforced: %s; %s", c.Resource, c.Why, c.Fix))
	}
	return lines
}

// refusal is the error for a limit that was asked and cannot be had.
func (c Control) refusal() error {
	why := c.Why
	if c.Fix != "" {
		why += "; to have it: " + c.Fix
	}
	return fmt.Errorf("%s limit: %w: %s", c.Resource, sandbox.ErrPolicy, why)
}

// places are the directories in which this host's groups are, each once.
func (h Host) places() []string {
	var dirs []string
	for _, c := range h.Controls {
		dirs = append(dirs, c.Dir)
	}
	dirs = append(dirs, h.Unified, h.freezer)
	slices.Sort(dirs)
	dirs = slices.Compact(dirs)
	return slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" })
}
