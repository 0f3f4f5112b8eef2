// Package bench measures what the project claims about speed. Each row is
// measured side by side with its baseline, interleaved in one run, and given
// as medians: machines are noisy, ratios less so. bench/report prints the
// table; `go test -bench . ./bench` gives the same workloads to benchstat.
package bench
