package cgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Usage is what a box used since a Mark. Zero fields are unknown.
type Usage struct {
	// Memory is the peak of the whole box in bytes, with its private /tmp and
	// page cache. Where commands of a box overlap, and in version 2, it is the
	// peak since an earlier mark or the group's beginning.
	Memory int64
	// CPU is the processor time used; known where a group with a cpu limit says.
	CPU time.Duration
	// Throttled is how often the box had to wait for processor time.
	Throttled int64
}

// Mark is a moment, for what happened since.
type Mark struct {
	group *Group
	at    counters
	end   sync.Once
}

// counters are a group's, which never go down.
type counters struct {
	oom, pids, cpu, throttled int64

	peak int64 // bytes
	// How often the memory limit was reached. Version 1 has no count that every
	// kernel keeps, but a peak that begins anew: there whether it is near.
	full int64
	near bool
}

// Mark marks this moment. Every Mark is to be ended.
func (g *Group) Mark() *Mark {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.marks == 0 {
		for _, m := range g.members {
			_ = m.write("memory.max_usage_in_bytes", "0") // version 1: begins anew
		}
	}
	g.marks++
	return &Mark{group: g, at: g.count()}
}

// End releases the mark. It may be repeated.
func (m *Mark) End() {
	m.end.Do(func() {
		m.group.mu.Lock()
		m.group.marks--
		m.group.mu.Unlock()
	})
}

// Since tells what was used since the mark, and the limit that was hit, "" for
// none: memory when the kernel killed for it, else pids when it refused to
// fork. A limit on processor time slows and never ends.
func (m *Mark) Since() (Usage, sandbox.Limit) {
	now, limit := m.group.count(), sandbox.Limit("")
	switch {
	case now.oom > m.at.oom && (now.full > m.at.full || now.near): // not because the machine was short of it
		limit = sandbox.LimitMemory
	case now.pids > m.at.pids:
		limit = sandbox.LimitPIDs
	}
	return Usage{Memory: now.peak, CPU: time.Duration(now.cpu - m.at.cpu), Throttled: now.throttled - m.at.throttled}, limit
}

// count reads the counters of what there is.
func (g *Group) count() (c counters) {
	for _, k := range g.kept {
		m := g.at(k.Dir)
		if m == nil {
			continue
		}
		switch {
		case k.Resource == sandbox.LimitPIDs:
			c.pids = field(m.dir, "pids.events", "max")
		case k.Resource == sandbox.LimitCPU && k.Version == 1:
			c.throttled = field(m.dir, "cpu.stat", "nr_throttled")
			c.cpu, _ = readNumber(m.dir, "cpuacct.usage") // mostly mounted together
		case k.Resource == sandbox.LimitCPU:
			c.throttled = field(m.dir, "cpu.stat", "nr_throttled")
			c.cpu = 1000 * field(m.dir, "cpu.stat", "usage_usec")
		case k.Version == 1:
			c.oom = field(m.dir, "memory.oom_control", "oom_kill")
			c.peak, _ = readNumber(m.dir, "memory.max_usage_in_bytes")
			c.near = c.peak > g.memory/8*7
		default:
			c.oom = field(m.dir, "memory.events", "oom_kill")
			c.full = field(m.dir, "memory.events", "max")
			c.peak, _ = readNumber(m.dir, "memory.peak")
		}
	}
	return c
}

// at is the member in a directory.
func (g *Group) at(dir string) *member {
	for _, m := range g.members {
		if filepath.Dir(m.dir) == dir {
			return m
		}
	}
	return nil
}

func readNumber(dir, file string) (int64, error) {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}

// field reads one line "name number" of a file; 0 when there is none.
func field(dir, file, name string) int64 {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return n
		}
	}
	return 0
}
