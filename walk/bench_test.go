//go:build unix

package walk

import (
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BenchmarkSearch compares this package with ripgrep, its start included, on a
// tree of 10,000 source files (about 60 MB), turn by turn in one run so that
// both meet the same machine. ns/op is one round of all; the metrics tell them
// apart: median wall time, and processor time, which a busy machine disturbs
// less. "plain" is ripgrep as a person would call it, with its own idea of \w.
func BenchmarkSearch(b *testing.B) {
	needRipgrep(b)
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	sources(b, dir, 10_000)
	write(b, dir, map[string]string{".git/": "", ".gitignore": "*.log\nbuild/\nnode_modules/\n*.o\n/dist\n"})
	for _, pattern := range []string{
		"needleInHaystack", `func needle\w+`, `\w+_\w+\(`, "errors", "(?i)haystack", `^\s*return nil$`, `\bparse\b.*\bheader\b`,
	} {
		b.Run(pattern, func(b *testing.B) {
			p, err := Compile(pattern)
			if err != nil {
				b.Fatal(err)
			}
			args, _ := Ripgrep(p, dir, Options{})
			plain := []string{"--no-config", "--count", "--regexp=" + pattern, "--", dir}
			var own, rg, user clock
			var ownCPU, userCPU clock
			for b.Loop() {
				own.time(func() {
					before := cpu(b)
					if _, err := Search(b.Context(), Disk{}, dir, Options{}, p, func(Hit) {}); err != nil {
						b.Fatal(err)
					}
					ownCPU = append(ownCPU, cpu(b)-before)
				})
				rg.time(func() { _ = exec.Command("rg", args...).Run() })
				user.time(func() {
					cmd := exec.Command("rg", plain...)
					_ = cmd.Run()
					userCPU = append(userCPU, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
				})
			}
			b.ReportMetric(own.median(), "own-ms")
			b.ReportMetric(rg.median(), "rg-ms")
			b.ReportMetric(user.median(), "plain-ms")
			b.ReportMetric(own.median()/user.median(), "own/plain")
			b.ReportMetric(ownCPU.median(), "own-cpu-ms")
			b.ReportMetric(userCPU.median(), "plain-cpu-ms")
		})
	}
}

// cpu is the processor time this process has used.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
