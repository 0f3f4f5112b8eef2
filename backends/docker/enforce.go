package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// clauses in the order they are told.
var clauses = []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseNetwork, sandbox.ClauseGuards,
	sandbox.ClauseProcesses, sandbox.ClauseSyscalls, sandbox.ClauseResources, sandbox.ClauseKill}

// enforcement joins what the container keeps with what the guest in it says it
// keeps besides. A clause that neither keeps, and that may not be missing, is an
// error.
func enforcement(inner sandbox.Enforcement, o *order, f facts) (sandbox.Enforcement, error) {
	var all sandbox.Enforcement
	for _, name := range clauses {
		c := outer(name, o, f)
		for _, in := range inner {
			if in.Clause == name {
				c = join(c, in)
			}
		}
		// What of the resources cannot be kept was refused before.
		if c.State != sandbox.Enforced && !o.Posture.Open && name != sandbox.ClauseResources && !slices.Contains(o.Posture.Best, name) {
			why := c.Why
			if why == "" {
				why = "only " + c.Mechanism
			}
			return nil, fmt.Errorf("%s: %s: %w", name, why, sandbox.ErrPolicy)
		}
		all = append(all, c)
	}
	return all, nil
}

// join is what a clause comes to when two keep it: the better of them, by both.
func join(wall, inner sandbox.Clause) sandbox.Clause {
	out := wall
	// Both guard what was found: what was not found neither does.
	if inner.State == sandbox.Enforced && wall.State != sandbox.Enforced && !(wall.Clause == sandbox.ClauseGuards && wall.State == sandbox.Partial) {
		out.State, out.Why = sandbox.Enforced, ""
	}
	if inner.State != sandbox.Unsupported && inner.Mechanism != "" && !strings.Contains(out.Mechanism, inner.Mechanism) {
		if out.Mechanism != "" {
			out.Mechanism += "; inside: "
		}
		out.Mechanism += inner.Mechanism
	}
	return out
}

// outer is what the container alone keeps of a clause.
func outer(name sandbox.ClauseName, o *order, f facts) sandbox.Clause {
	c := sandbox.Clause{Clause: name, State: sandbox.Enforced}
	switch name {
	case sandbox.ClauseFiles:
		c.Mechanism = "container with the image's files"
		if o.Posture.Sealed {
			c.Mechanism += ", read-only"
		}
		if o.Posture.WorkDir != "" {
			c.Mechanism += ", work directory bound in"
			if slices.Contains(o.Shown, o.Posture.WorkDir) {
				c.Mechanism += fmt.Sprintf(", root's files shown as user %d's", o.User.ID)
			}
		}
		if n := len(o.Volumes); n > 0 {
			c.Mechanism += fmt.Sprintf(", %d volumes", n)
		}
	case sandbox.ClauseNetwork:
		c.Mechanism = "no network but a loopback of its own"
		if o.Posture.Network {
			c.Mechanism = "the docker engine's bridge, as the policy says"
		}
	case sandbox.ClauseGuards:
		switch {
		case o.Posture.WorkDir == "":
			c.Mechanism = "nothing of this machine is in reach"
		case o.Posture.Open:
			c.State, c.Why = sandbox.Unsupported, "policy open"
		case o.Posture.WorkReadOnly:
			c.Mechanism = "work directory read-only"
		default:
			c.Mechanism = "read-only and pinned binds"
			if len(o.Posture.Unsearched) > 0 {
				c.State, c.Why = sandbox.Partial, strings.Join(o.Posture.Unsearched, "; ")
			}
		}
	case sandbox.ClauseProcesses:
		c.Mechanism = "pid and cgroup namespaces of the container"
		if o.cgroup != "" {
			c.Mechanism = "pid namespace of the container (" + o.cgroup + ")"
		}
	case sandbox.ClauseSyscalls:
		c.Mechanism = "no capabilities, no_new_privs"
		if f.seccomp {
			c.Mechanism = "seccomp, " + c.Mechanism
		} else {
			c.State, c.Why = sandbox.Partial, "the docker engine has no seccomp"
		}
		if o.asRoot != "" {
			c.Mechanism += ", but uid 0 (" + o.asRoot + ")"
		}
	case sandbox.ClauseResources:
		c = resources(o, f)
	case sandbox.ClauseKill:
		c.Mechanism = "the container ends with its connection"
	}
	if o.Runtime != "" && (name == sandbox.ClauseSyscalls || name == sandbox.ClauseProcesses) {
		c.Mechanism += ", runtime " + o.Runtime
	}
	return c
}

// resources tells which limits hold.
func resources(o *order, f facts) sandbox.Clause {
	c := sandbox.Clause{Clause: sandbox.ClauseResources, State: sandbox.Enforced}
	pids := o.Res.PIDs
	if pids == 0 {
		pids = usualPIDs
	}
	var has []string
	if f.pids {
		has = append(has, fmt.Sprintf("%d processes", pids))
	}
	if o.Res.Memory > 0 {
		has = append(has, fmt.Sprintf("memory %d MiB", o.Res.Memory/mib))
	}
	if o.Res.CPU > 0 {
		has = append(has, fmt.Sprintf("%g cores", o.Res.CPU))
	}
	has = append(has, fmt.Sprintf("tmpfs of %d MiB each", o.tmp/mib))
	if o.Quota {
		has = append(has, "quota of the container's layer")
	}
	c.Mechanism = "control group of the container: " + strings.Join(has, ", ")
	lacks := o.lacks
	if o.Res.Disk > 0 && !o.Quota && !o.Posture.Sealed {
		lacks = append(lacks[:len(lacks):len(lacks)], "disk: the container's own layer is not bounded")
	}
	if len(lacks) > 0 {
		c.State, c.Why = sandbox.Partial, strings.Join(lacks, "; ")
	}
	return c
}
