//go:build unix

package guards

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain lets the test binary be an engine that only holds and releases.
func TestMain(m *testing.M) {
	if dir, root := os.Getenv("GUARDS_TEST_STORE"), os.Getenv("GUARDS_TEST_ROOT"); dir != "" {
		fmt.Println("started")
		for s := (Store{Dir: dir, named: os.Getenv("GUARDS_TEST_NAMED") != ""}); ; {
			h, err := s.Hold(context.Background(), root, usual)
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			for _, p := range h.Paths() {
				text, isFile := inert[strings.TrimPrefix(p, root+"/")]
				if !isFile {
					_, err = os.Lstat(p)
				} else if got, err2 := os.ReadFile(p); err2 != nil || string(got) != text {
					err = fmt.Errorf("%s: %q, %v", p, got, err2)
				}
				if err != nil {
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
// others go on in the same workspace: a sweep leaves nothing. Nobody ever sees
// a file that is not complete.
func TestKilledAtAnyInstant(t *testing.T) {
	t.Run("nameless", func(t *testing.T) { killedAtAnyInstant(t) })
	t.Run("named", func(t *testing.T) { killedAtAnyInstant(t, "GUARDS_TEST_NAMED=1") })
}

func killedAtAnyInstant(t *testing.T, env ...string) {
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
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() { // as a git on the host
		for {
			select {
			case <-stop:
				return
			default:
			}
			for name, text := range inert {
				got, err := os.ReadFile(filepath.Join(root, name))
				if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && string(got) != text {
					t.Errorf("%s: %q, %v", name, got, err)
					return
				}
			}
		}
	})
	defer watch.Wait()
	defer close(stop)
	left := 0
	for range rounds {
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				cmd := exec.Command(self)
				cmd.Env = append(os.Environ(), "GUARDS_TEST_STORE="+s.Dir, "GUARDS_TEST_ROOT="+root)
				cmd.Env = append(cmd.Env, env...)
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

// Engines that were given other directories for temporary files share reservations.
func TestOneStoreWhateverTMPDIR(t *testing.T) {
	root := t.TempDir()
	var holds []*Hold
	for range 2 {
		t.Setenv("TMPDIR", t.TempDir())
		h, err := Store{}.Hold(t.Context(), root, []string{".vscode"})
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h)
	}
	for _, h := range holds {
		if _, err := os.Lstat(root + "/.vscode"); err != nil {
			t.Errorf("while somebody holds it: %v", err)
		}
		if kept, err := h.Release(); err != nil || len(kept) > 0 {
			t.Errorf("%q, %v", kept, err)
		}
	}
	if _, err := os.Lstat(root + "/.vscode"); !os.IsNotExist(err) {
		t.Errorf("after the last one: %v", err)
	}
}
