package tools

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// BenchmarkSearchFiles times whole calls over Go's own source tree, about
// 10,000 files: with the box's ripgrep, and over the box's files.
func BenchmarkSearchFiles(b *testing.B) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Fatal(err)
	}
	for _, pattern := range []string{"NewReplacer", `func needle\w+`, `\w+_\w+\(`} {
		raw, err := json.Marshal(args{"pattern": pattern, "path": strings.TrimSpace(string(goroot)) + "/src"})
		if err != nil {
			b.Fatal(err)
		}
		for _, engine := range []string{"rg", "native"} {
			b.Run(pattern+"/"+engine, func(b *testing.B) {
				bench := searchSetup(b, engine, nil)
				for b.Loop() {
					if answer := bench.reg.Dispatch(context.Background(), script, "search_files", raw); strings.Contains(string(answer), `"error"`) {
						b.Fatalf("%s", answer)
					}
				}
			})
		}
	}
}
