package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/backends/local/cgroup"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// ownProcesses is how much the guest's bound on processes is above that of a
// control group, so that the group, which counts, is the one that is met.
const ownProcesses = 64

// limiter makes the control groups of a backend's boxes.
type limiter struct {
	once sync.Once
	host cgroup.Host
	soon sync.WaitGroup // what nobody waits for but close
	end  context.CancelFunc
}

// look finds what there is and, the first time, removes what killed engines
// have left: where groups are made at once, elsewhere meanwhile.
func (l *limiter) look(log *slog.Logger) cgroup.Host {
	l.once.Do(func() {
		removed := func(dirs []string) {
			for _, left := range dirs {
				log.Info("removed what a killed engine left behind", "dir", left)
			}
		}
		l.host = cgroup.Find()
		removed(l.host.Sweep())
		var ctx context.Context
		ctx, l.end = context.WithCancel(context.Background())
		l.soon.Go(func() { removed(l.host.SweepElsewhere(ctx)) })
	})
	return l.host
}

func (l *limiter) close() {
	l.once.Do(func() {}) // not any more
	if l.end != nil {
		l.end()
	}
	l.soon.Wait()
}

// bounds are the limits of one box.
type bounds struct {
	group  *cgroup.Group // nil without one
	groups []*os.File    // through which a command enters it
	pids   int           // for the guest to bound
	lacks  []string      // what is asked and not kept
}

// bound bounds what a box is to use. What cannot be bounded is an error unless
// bestEffort.
func (b *Backend) bound(name string, r sandbox.Resources, bestEffort bool) (bounds, error) {
	out := bounds{pids: r.PIDs}
	ask := sandbox.Resources{Memory: r.Memory, CPU: r.CPU}
	if ask == (sandbox.Resources{}) && r.PIDs == 0 {
		return out, nil
	}
	host := b.host.limits.look(b.log)
	if bestEffort {
		for _, c := range host.Controls {
			switch {
			case c.Version != 0:
			case c.Resource == sandbox.LimitMemory && r.Memory != 0:
				ask.Memory, out.lacks = 0, append(out.lacks, "memory: "+c.Why)
			case c.Resource == sandbox.LimitCPU && r.CPU != 0:
				ask.CPU, out.lacks = 0, append(out.lacks, "cpu: "+c.Why)
			}
		}
	}
	// The guest bounds processes itself. A group besides tells when the bound was
	// met, where entering it costs nothing or one is entered anyhow.
	if host.Quick(sandbox.LimitPIDs) || ask != (sandbox.Resources{}) && host.Control(sandbox.LimitPIDs).Version != 0 {
		ask.PIDs = r.PIDs
	}
	var err error
	if out.group, err = host.New(name, ask, false); err != nil || out.group == nil {
		return out, err
	}
	if ask.PIDs > 0 {
		out.pids += ownProcesses
	}
	if out.groups, err = out.group.Procs(); err != nil {
		err = errors.Join(err, out.group.Close())
	}
	return out, err
}

// apply has a guest keep the bounds, and gives what it is to be sent first.
func (l bounds) apply(c *guest.Confinement) []*os.File {
	c.PIDs, c.Groups = l.pids, len(l.groups)
	return slices.Clone(l.groups)
}

// sent closes what the guest has got.
func (l bounds) sent() {
	for _, f := range l.groups {
		f.Close()
	}
}

// clause tells what is kept. own is what the guest bounds by itself.
func (l bounds) clause(own ...string) sandbox.Clause {
	c := sandbox.Clause{Clause: sandbox.ClauseResources, State: sandbox.Enforced}
	if l.group != nil {
		own = append(own, l.group.Mechanism())
	}
	c.Mechanism = strings.Join(own, ", ")
	if len(own)+len(l.lacks) == 0 {
		c.Mechanism = "none is asked"
	}
	if len(l.lacks) > 0 {
		c.State, c.Why = sandbox.Partial, strings.Join(l.lacks, "; ")
	}
	return c
}

// wall is the clause of a box without namespaces, which has no private file
// system, and whose user's processes are counted with all others of his.
func (l bounds) wall(r sandbox.Resources) sandbox.Clause {
	if r.PIDs > 0 && l.pids == r.PIDs {
		l.lacks = append(l.lacks, "pids: without namespaces they need a control group")
	}
	if r.Disk > 0 {
		l.lacks = append(l.lacks, "disk: there is no private file system without namespaces, only 0 for no bound can be kept")
	}
	return l.clause()
}

// ownBounds are what a guest in namespaces bounds of what is asked.
func ownBounds(r sandbox.Resources) (names []string) {
	if r.Disk == 0 {
		names = append(names, "tmpfs of half the memory")
	} else {
		names = append(names, fmt.Sprintf("tmpfs of %d MiB", r.Disk>>20))
	}
	if r.PIDs > 0 {
		names = append(names, "process limit of the user namespace")
	}
	return names
}

// limitFindings tells which limits can be had, and what to do for the others.
func (b *Backend) limitFindings() (findings []sandbox.Finding) {
	host := b.host.limits.look(b.log)
	if m := host.Mechanism(); m != "" {
		findings = append(findings, sandbox.Finding{Severity: sandbox.OK, Subject: "limits", Detail: m})
	}
	for _, c := range host.Controls {
		if c.Version == 0 && c.Resource != sandbox.LimitPIDs { // which the guest bounds
			findings = append(findings, sandbox.Finding{Severity: sandbox.Warning, Subject: string(c.Resource) + " limit", Detail: c.Why, Fix: c.Fix})
		}
	}
	return findings
}

// boxMeter measures a command by its box's groups, if it has any, and by the
// room in its private file system.
type boxMeter struct {
	mark *cgroup.Mark
	full func() bool
}

func (in *confined) meter() meter {
	m := boxMeter{full: in.session.Full}
	if in.bounds.group != nil {
		m.mark = in.bounds.group.Mark()
	}
	return m
}

// read is called when the command has ended. What it could write no more to is
// full then, unless it has made room by itself.
func (m boxMeter) read() (peak int64, limit sandbox.Limit) {
	if m.mark != nil {
		usage, hit := m.mark.Since()
		peak, limit = usage.Memory, hit
	}
	if limit == "" && m.full() {
		limit = sandbox.LimitDisk
	}
	return peak, limit
}

func (m boxMeter) stop() {
	if m.mark != nil {
		m.mark.End()
	}
}
