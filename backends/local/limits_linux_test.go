package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local/cgroup"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// limitedID tells this process's groups from those of others.
var limitedID = fmt.Sprintf("limited%d", os.Getpid())

// limited opens a confined box with resource limits.
func limited(t *testing.T, r sandbox.Resources, bestEffort ...sandbox.ClauseName) (sandbox.Sandbox, error) {
	t.Helper()
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	return limitedBy(t, New(Config{}), dir, r, bestEffort...)
}

// NeedNamespaces skips a test of what only those give, unless they must be there.
func NeedNamespaces(t *testing.T, box sandbox.Sandbox) {
	t.Helper()
	if box.Info().Rung == sandbox.RungNamespaces {
		return
	}
	if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "userns") {
		t.Fatal("there are no namespaces here")
	}
	t.Skip("there are no namespaces here")
}

func limitedBy(t *testing.T, backend *Backend, dir string, r sandbox.Resources, bestEffort ...sandbox.ClauseName) (sandbox.Sandbox, error) {
	t.Cleanup(func() { backend.Close() })
	return backend.Create(context.Background(), sandbox.Spec{
		ID: limitedID, WorkDir: dir, Resources: r,
		Policy: sandbox.Policy{Name: "limited", Read: []string{"/"}, Write: []string{dir}, BestEffort: bestEffort},
	})
}

// in runs a command in a box.
func in(t *testing.T, box sandbox.Sandbox, args ...string) (string, sandbox.Exit) {
	t.Helper()
	var out bytes.Buffer
	p, err := box.Start(context.Background(), sandbox.Cmd{Args: args, Stdout: &out, Stderr: &out, Env: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err, out.String())
	}
	return out.String(), exit
}

// needs skips a test where control groups are not to be had, and looks that it
// leaves none.
func needs(t *testing.T, resources ...sandbox.Limit) {
	t.Helper()
	host := cgroup.Find()
	for _, r := range resources {
		c := host.Control(r)
		if c.Version == 0 {
			if strings.Contains(os.Getenv("HERMES_EXEC_REQUIRE"), "cgroup") {
				t.Fatal(c.Why)
			}
			t.Skip(c.Why)
		}
		groups := func() []string {
			all, _ := filepath.Glob(filepath.Join(c.Dir, "hermes-exec-*-"+limitedID+"-*")) // others run at the same time
			return all
		}
		before := groups()
		t.Cleanup(func() {
			if after := groups(); len(after) > len(before) {
				t.Errorf("groups left: %v", after)
			}
		})
	}
}

func TestMemoryLimitOfABox(t *testing.T) {
	needs(t, sandbox.LimitMemory, sandbox.LimitPIDs)
	box, err := limited(t, sandbox.Resources{Memory: 64 << 20, PIDs: 100, Disk: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	for _, c := range box.Info().Enforcement {
		if c.Clause == sandbox.ClauseResources && (c.State != sandbox.Enforced || !strings.Contains(c.Mechanism, "memory, pids")) {
			t.Errorf("%+v", c)
		}
	}
	out, exit := in(t, box, "/usr/bin/python3", "-c", "b = bytearray(200 << 20)")
	if exit.Limit != sandbox.LimitMemory || exit.Signal != syscall.SIGKILL || exit.Usage.MaxMemory < 60<<20 || exit.Usage.MaxMemory > 64<<20 {
		t.Errorf("%q %+v", out, exit)
	}
	// The private /tmp counts, and so does what many small processes hold.
	_, exit = in(t, box, "sh", "-c", "exec dd if=/dev/zero of=/tmp/big bs=1M count=200")
	if exit.Limit != sandbox.LimitMemory {
		t.Errorf("a large file in /tmp: %+v", exit)
	}
	if out, exit = in(t, box, "rm", "/tmp/big"); exit.Code != 0 {
		t.Errorf("the box is no longer of use: %q %+v", out, exit)
	}
	out, exit = in(t, box, "/usr/bin/python3", "-c", `
import os, time
for i in range(60):
    if os.fork() == 0:
        b = bytearray(3 << 20); time.sleep(100)
for i in range(60):
    if os.waitstatus_to_exitcode(os.wait()[1]): raise SystemExit("one died")
`)
	if exit.Limit != sandbox.LimitMemory || exit.Code == 0 {
		t.Errorf("many: %q %+v", out, exit)
	}
	if out, exit := in(t, box, "echo", "well"); out != "well\n" || exit.Limit != "" || exit.Usage.MaxMemory == 0 || exit.Usage.MaxMemory > 30<<20 {
		t.Errorf("the next command: %q %+v", out, exit)
	}
}

func TestProcessLimitOfABox(t *testing.T) {
	needs(t, sandbox.LimitPIDs)
	box, err := limited(t, sandbox.Resources{PIDs: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	out, exit := in(t, box, "/usr/bin/python3", "-c", `
import os, time
n = 0
try:
    while True:
        if os.fork() == 0: time.sleep(100)
        n += 1
except BlockingIOError: raise SystemExit(f"{n} forks")
`)
	if exit.Limit != sandbox.LimitPIDs || !strings.HasPrefix(out, "29 forks") { // with itself 30
		t.Errorf("%q %+v", out, exit)
	}
	if out, exit := in(t, box, "echo", "well"); out != "well\n" || exit.Limit != "" {
		t.Errorf("the next command: %q %+v", out, exit)
	}
}

// Where no control group counts, the processes at the end do.
func TestProcessLimitWithoutAGroup(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	backend := New(Config{})
	backend.host.limits.once.Do(func() {}) // there are none
	box, err := limitedBy(t, backend, dir, sandbox.Resources{PIDs: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	NeedNamespaces(t, box)
	for script, want := range map[string]sandbox.Limit{
		"while true; do sleep 1000 & done":                      sandbox.LimitPIDs,
		"for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; false": "",
	} {
		if out, exit := in(t, box, "sh", "-c", script); exit.Code == 0 || exit.Limit != want {
			t.Errorf("%s: %q %+v", script, out, exit)
		}
	}
}

func TestDiskLimitOfABox(t *testing.T) {
	box, err := limited(t, sandbox.Resources{Disk: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	if box.Info().Rung != sandbox.RungNamespaces {
		t.Skip("only a box in namespaces has a file system of its own")
	}
	for _, c := range []struct {
		script string
		code   int
		limit  sandbox.Limit
	}{
		{"head -c 4M /dev/zero >/tmp/fits", 0, ""},
		{"exit 3", 3, ""},
		{"head -c 16M /dev/zero >/tmp/big", 1, sandbox.LimitDisk},
		{"head -c 16M /dev/zero >/tmp/big; rm /tmp/big; exit 3", 3, ""}, // it made room, and failed for its own reasons
		{"rm -r /tmp/*; i=0; while true >/tmp/$i; do i=$((i+1)); done 2>/dev/null; exit 4", 4, sandbox.LimitDisk},
		{"find /tmp -type f -delete; head -c 4M /dev/zero >$PWD/elsewhere", 0, ""},
	} {
		if out, exit := in(t, box, "sh", "-c", c.script); exit.Code != c.code || exit.Limit != c.limit {
			t.Errorf("%s: %q %+v, want code %d, limit %q", c.script, out, exit, c.code, c.limit)
		}
	}
}

// A fork bomb that also eats memory and processor time is ended at once.
func TestLimitsDoNotStandInTheWayOfTheKill(t *testing.T) {
	needs(t, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitCPU)
	box, err := limited(t, sandbox.Resources{Memory: 64 << 20, PIDs: 60, CPU: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close() // not before: what the command writes is copied to it
	p, err := box.Start(ctx, sandbox.Cmd{Stdout: w, Grace: 1, Env: []string{}, Args: []string{"/usr/bin/python3", "-c", `
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"x")
while True:
    try: os.fork()
    except OSError: pass
    b = bytearray(1 << 20)
`}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel(errors.New("enough"))
	if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGKILL {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := box.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestLimitsThatCannotBeKept(t *testing.T) {
	host := cgroup.Find()
	if host.Control(sandbox.LimitMemory).Version != 0 {
		t.Skip("memory can be bounded here")
	}
	_, err := limited(t, sandbox.Resources{Memory: 64 << 20})
	if !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), host.Control(sandbox.LimitMemory).Fix) {
		t.Errorf("%v", err)
	}
	box, err := limited(t, sandbox.Resources{Memory: 64 << 20, PIDs: 100}, sandbox.ClauseResources)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range box.Info().Enforcement {
		if c.Clause == sandbox.ClauseResources && (c.State != sandbox.Partial || !strings.Contains(c.Why, "memory")) {
			t.Errorf("%+v", c)
		}
	}
}

// What limits cost a session of one command, by turns.
func BenchmarkLimitedBox(b *testing.B) {
	dir := b.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			b.Fatal(err)
		}
	}
	backend := New(Config{})
	defer backend.Close()
	kinds := []sandbox.Resources{{}, {PIDs: 1024}, {PIDs: 1024, Memory: 1 << 30, CPU: 2}}
	took := make([][]time.Duration, len(kinds))
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		box, err := backend.Create(context.Background(), sandbox.Spec{WorkDir: dir, Resources: kinds[i%3],
			Policy: sandbox.Policy{Name: "limited", Read: []string{"/"}, Write: []string{dir}}})
		if err != nil {
			b.Skip(err)
		}
		p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"true"}, Env: []string{}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
		box.Close(context.Background())
		took[i%3] = append(took[i%3], time.Since(began))
	}
	for i, name := range []string{"none-µs", "pids-µs", "all-µs"} {
		if len(took[i]) > 0 {
			slices.Sort(took[i])
			b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), name)
		}
	}
}
