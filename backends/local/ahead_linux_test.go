package local_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestReaperAhead: when a command has ended, the guest forks for the next one
// while nothing is asked of it, every time.
func TestReaperAhead(t *testing.T) {
	box, _ := confinedBox(t)
	local.NeedNamespaces(t, box)
	pids := guests(t)
	if len(pids) != 1 {
		t.Fatalf("guests %v", pids)
	}
	last := ""
	for i := range 10 {
		for stop := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			if ahead := children(t, pids[0]); len(ahead) == 1 && ahead[0] != last {
				last = ahead[0]
				break
			}
			if time.Now().After(stop) {
				t.Fatalf("after %d commands nothing is forked ahead: %v", i, children(t, pids[0]))
			}
		}
		proc, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/true"}})
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := proc.Wait(); err != nil || exit.Code != 0 {
			t.Fatal(exit, err)
		}
	}
}

// children are the processes a process has as children, whichever of its threads
// forked them.
func children(t *testing.T, pid int) (list []string) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, task.Name()))
		list = append(list, strings.Fields(string(text))...)
	}
	return list
}
