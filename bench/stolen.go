package bench

import (
	"fmt"
	"os"
)

// Processors is how long this machine's processors have done what, in ticks since
// it was started.
type Processors struct{ all, stolen uint64 }

// ReadProcessors reads /proc/stat, proc_stat(5). Elsewhere all is zero.
func ReadProcessors() (p Processors) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p
	}
	var n [8]uint64 // user, nice, system, idle, iowait, irq, softirq, steal
	if _, err := fmt.Sscanf(string(data), "cpu %d %d %d %d %d %d %d %d", &n[0], &n[1], &n[2], &n[3], &n[4], &n[5], &n[6], &n[7]); err != nil {
		return p
	}
	for _, ticks := range n {
		p.all += ticks
	}
	p.stolen = n[7]
	return p
}

// Stolen is the share of the time since before that the host of a virtual machine
// gave to others although this one had something to do, in percent. Numbers taken
// meanwhile are those of a quiet machine only if it is small.
func (p Processors) Stolen(before Processors) float64 {
	if p.all <= before.all {
		return 0
	}
	return 100 * float64(p.stolen-before.stolen) / float64(p.all-before.all)
}
