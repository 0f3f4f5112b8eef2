package main

import (
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// resources are the limits of a box under a policy. The defaults are for
// confined boxes, and best effort; once the user has set one, limits are kept or
// the box is refused, whatever a profile says: the policy is made to say so.
func (a *app) resources(p *sandbox.Policy) sandbox.Resources {
	code := a.cfg.CodeExecution
	all := sandbox.Resources{Memory: code.Memory, PIDs: code.PIDs, CPU: code.CPU, Disk: code.Disk}
	set := a.resourceSet
	if p == nil || p.Unconfined {
		if !set("pids") {
			all.PIDs = 0
		}
		if !set("disk") {
			all.Disk = 0
		}
		return all
	}
	if !set("disk") { // it is kept in memory
		for _, memory := range [...]int64{physicalMemory(), all.Memory} {
			if memory > 0 {
				all.Disk = min(all.Disk, memory/2)
			}
		}
	}
	resources := func(c sandbox.ClauseName) bool { return c == sandbox.ClauseResources }
	p.BestEffort = slices.DeleteFunc(slices.Clone(p.BestEffort), resources)
	if !slices.ContainsFunc([]string{"memory", "pids", "cpu", "disk"}, set) {
		p.BestEffort = append(p.BestEffort, sandbox.ClauseResources)
	}
	return all
}

// resourceSet tells whether the user has set a limit.
func (a *app) resourceSet(key string) bool { return a.cfg.Origin("code_execution."+key) != "default" }

// chosenResources are the limits the user has set; the others are the backend's
// to choose.
func (a *app) chosenResources() (r sandbox.Resources) {
	code := a.cfg.CodeExecution
	if a.resourceSet("memory") {
		r.Memory = code.Memory
	}
	if a.resourceSet("pids") {
		r.PIDs = code.PIDs
	}
	if a.resourceSet("cpu") {
		r.CPU = code.CPU
	}
	if a.resourceSet("disk") {
		r.Disk = code.Disk
	}
	return r
}

// physicalMemory is the machine's in bytes, 0 where it cannot be told.
func physicalMemory() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}
