package engine

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Runs that are given up while they are prepared leave nothing: no directory with
// the script's code, no socket, no descriptor.
func TestGivenUpWhilePrepared(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	e := newEngine(t, nil)
	s := open(t, e, Task{WorkDir: dir, Policy: &sandbox.Policy{
		Name: "mine", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost,
		BestEffort: []sandbox.ClauseName{sandbox.ClauseResources},
	}})
	for i := range 150 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Duration(i)*10*time.Microsecond, cancel)
		if _, err := s.Run(ctx, Script{Code: "pass #" + strings.Repeat("x", (i%2)*50000)}); err != nil {
			t.Errorf("run %d: %v", i, err)
		}
		cancel()
	}
	files, scratch := s.current().box.Files(), s.Info().ScratchDir
	for stop := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		list, err := files.ReadDir(t.Context(), scratch)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, entry := range list {
			left = append(left, entry.Name())
		}
		if len(left) == 0 {
			break
		}
		if time.Now().After(stop) {
			t.Fatalf("left in scratch: %q", left)
		}
	}
}
