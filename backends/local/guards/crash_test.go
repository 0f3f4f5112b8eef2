//go:build unix

package guards

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary be an engine that only holds and releases.
func TestMain(m *testing.M) {
	if dir, root := os.Getenv("GUARDS_TEST_STORE"), os.Getenv("GUARDS_TEST_ROOT"); dir != "" {
		fmt.Println("started")
		for s := (Store{dir}); ; {
			h, err := s.Hold(context.Background(), root, usual)
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			for _, p := range h.Paths() {
				if _, err := os.Lstat(p); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
			}
			if kept, err := h.Release(); kept != nil || err != nil {
				fmt.Println(kept, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

// Engines that hold and release in a loop are killed at random instants, while
// others go on in the same workspace: a sweep leaves nothing.
func TestKilledAtAnyInstant(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, root := workspace(t)
	before := listing(t, root)
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	left := 0
	for range rounds {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				cmd := exec.Command(self)
				cmd.Env = append(os.Environ(), "GUARDS_TEST_STORE="+s.Dir, "GUARDS_TEST_ROOT="+root)
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				lines := bufio.NewScanner(out)
				lines.Scan()
				time.Sleep(rand.N(8 * time.Millisecond)) // the instant, not a wait
				cmd.Process.Kill()
				for lines.Scan() {
					t.Errorf("an engine said: %s", lines.Text())
				}
				cmd.Wait()
			})
		}
		wg.Wait()
		left += min(1, len(listing(t, root))-len(before))
		s.Sweep()
		clean(t, s, root, before)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d rounds left something to sweep", left, rounds)
}
