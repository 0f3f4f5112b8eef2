package files

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// What is staged for somebody who has given up is taken back, at whatever instant
// he did, also beside a file that is being made on the connection.
func TestStageGivenUp(t *testing.T) {
	dir := filestest.TempTree(t)
	c := remote(t, New())
	beside, err := c.Create(t.Context(), dir+"/beside", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Discard()
	for _, size := range []int{1 << 10, maxStaged + 1} {
		files := []sandbox.StagedFile{{Name: "hermes_tools.py", Content: strings.Repeat("x", size)}, {Name: "script.py", Content: "secret"}}
		look := slices.Repeat([]string{dir + "/none"}, 40)
		given := 0
		for i := range 400 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*time.Microsecond, cancel)
			name := fmt.Sprintf("%s/run-%d-%d", dir, size, i)
			if _, err := c.Stage(ctx, name, files, look); err != nil {
				given++
			} else if err := c.RemoveAll(t.Context(), name); err != nil {
				t.Error(err)
			}
			cancel()
		}
		for stop := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			list, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			left := 0
			for _, e := range list {
				if strings.HasPrefix(e.Name(), "run-") {
					left++
				}
			}
			if left == 0 {
				break
			}
			if time.Now().After(stop) {
				t.Fatalf("of %d that were given up with %d bytes %d are left", given, size, left)
			}
		}
		t.Log(given, "of 400 given up")
	}
	if err := beside.Commit(); err != nil {
		t.Error(err)
	}
}
