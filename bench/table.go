package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Row is one line of the table: what was measured, the baseline of the same
// run, and whether the bound holds.
type Row struct {
	What     string
	Value    float64
	Unit     string
	Baseline string // what it is compared with, and its value; "" for none
	Bound    string
	Holds    bool
}

// Print writes the table. A miss is printed as a miss.
func Print(w io.Writer, rows []Row) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "WHAT\tMEDIAN\tBASELINE\tMUST BE\t")
	for _, r := range rows {
		verdict := "ok"
		if !r.Holds {
			verdict = "MISS"
		}
		fmt.Fprintf(tw, "%s\t%.3g %s\t%s\t%s\t%s\n", r.What, r.Value, r.Unit, r.Baseline, r.Bound, verdict)
	}
	tw.Flush()
}

// median of samples in milliseconds.
func median(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return s[len(s)/2]
}

// shift is by how much what was sampled takes longer than base: the median of
// all differences between the two (the estimate of Hodges and Lehmann). Starting
// a program takes one of two times on many machines, and the difference of two
// medians then jumps from one to the other.
func shift(samples, base []float64) float64 {
	all := make([]float64, 0, len(samples)*len(base))
	for _, s := range samples {
		for _, b := range base {
			all = append(all, s-b)
		}
	}
	return median(all)
}

// series collects the samples of several workloads that take turns.
type series map[string][]float64

func (s series) time(name string, f func() error) error {
	start := time.Now()
	if err := f(); err != nil {
		return fmt.Errorf("bench: %s: %w", name, err)
	}
	s[name] = append(s[name], time.Since(start).Seconds()*1e3)
	return nil
}
