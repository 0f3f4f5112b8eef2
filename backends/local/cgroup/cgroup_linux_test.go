package cgroup

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// A copy of the test binary does what this variable says instead of tests.
const roleVariable = "HERMES_EXEC_CGROUP_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "find":
		h := Find()
		_, err := h.New("x", sandbox.Resources{Memory: 64 << 20}, false)
		_ = json.NewEncoder(os.Stdout).Encode(found{h, h.Mechanism(), fmt.Sprint(err), errors.Is(err, sandbox.ErrPolicy)})
		os.Exit(0)
	case "own":
		os.Exit(own())
	}
	os.Exit(m.Run())
}

type found struct {
	Host      Host
	Mechanism string
	Error     string
	Policy    bool
}

// own makes a group with a process in it and waits to be killed.
func own() int {
	g, err := Find().New("owner", sandbox.Resources{Memory: 64 << 20, PIDs: 10, CPU: 1}, true)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer runtime.KeepAlive(g) // with its locks
	cmd, err := enter(g, "sleep", "1000")
	if err == nil {
		err = cmd.Start()
	}
	fmt.Println(err, cmd.Process.Pid)
	time.Sleep(time.Hour) // with nothing to wake it, the runtime would end it as deadlocked
	return 1
}

// enter prepares a command that puts itself in the groups first.
func enter(g *Group, args ...string) (*exec.Cmd, error) {
	procs, err := g.Procs()
	if err != nil {
		return nil, err
	}
	script := ""
	for i := range procs {
		script += fmt.Sprintf("echo 0 >&%d && exec %d>&- && ", 3+i, 3+i)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", script + `exec "$@"`, "sh"}, args...)...)
	cmd.ExtraFiles, cmd.WaitDelay = procs, 10*time.Second
	if d := g.Spawn(); d != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(d.Fd())}
	}
	return cmd, nil
}

// run runs a command in the groups and returns how it ended.
func run(t *testing.T, g *Group, args ...string) (string, *os.ProcessState) {
	t.Helper()
	cmd, err := enter(g, args...)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := cmd.CombinedOutput()
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	return string(out), cmd.ProcessState
}

// host is what can be had here; a test that needs more than that is skipped.
func host(t *testing.T, needs ...sandbox.Limit) Host {
	t.Helper()
	h := Find()
	for _, n := range needs {
		if c := h.Control(n); c.Version == 0 {
			skip(t, "%s cannot be bounded here: %s", n, c.Why)
		}
	}
	return h
}

func skip(t *testing.T, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "cgroup") {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

func group(t *testing.T, h Host, r sandbox.Resources, kill bool) *Group {
	t.Helper()
	g, err := h.New(t.Name(), r, kill)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, m := range g.members {
			if _, err := os.Stat(m.dir); err == nil {
				t.Errorf("%s was left", m.dir)
			}
		}
	})
	return g
}

const python = "/usr/bin/python3"

func TestMemoryIsBoundedForTheWholeTree(t *testing.T) {
	g := group(t, host(t, sandbox.LimitMemory), sandbox.Resources{Memory: 64 << 20}, false)

	mark := g.Mark()
	// Neither has too much, both together have.
	out, _ := run(t, g, python, "-c", `
import os
mine = bytearray(40 << 20)
child = os.fork()
if child == 0:
    more = bytearray(40 << 20)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
`)
	want := "-9\n"
	if g.members[0].version == 2 { // where all of them end together
		want = ""
	}
	if out != want {
		t.Errorf("the child ended with %q, want %q", out, want)
	}
	usage, limit := mark.Since()
	mark.End()
	if limit != sandbox.LimitMemory {
		t.Errorf("limit = %q after %q", limit, out)
	}
	if usage.Memory < 60<<20 || usage.Memory > 64<<20 {
		t.Errorf("peak = %d, want nearly the limit", usage.Memory)
	}
}

func TestMemoryEndsARunAndTheNextOneIsJudgedAlone(t *testing.T) {
	g := group(t, host(t, sandbox.LimitMemory), sandbox.Resources{Memory: 64 << 20}, false)
	mark := g.Mark()
	out, state := run(t, g, python, "-c", "b = bytearray(200 << 20); print('survived')")
	if ws := state.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %v: %s", state, out)
	}
	usage, limit := mark.Since()
	mark.End()
	if limit != sandbox.LimitMemory || usage.Memory < 60<<20 {
		t.Errorf("limit %q, peak %d", limit, usage.Memory)
	}

	mark = g.Mark()
	out, state = run(t, g, python, "-c", "b = bytearray(20 << 20); print('fine')")
	usage, limit = mark.Since()
	mark.End()
	if !state.Success() || out != "fine\n" || limit != "" {
		t.Errorf("%v %q, limit %q", state, out, limit)
	}
	if g.kept[0].Version == 1 && (usage.Memory < 20<<20 || usage.Memory > 50<<20) {
		t.Errorf("peak = %d for 20 MiB", usage.Memory)
	}
}

func TestSwapDoesNotHelp(t *testing.T) {
	g := group(t, host(t, sandbox.LimitMemory), sandbox.Resources{Memory: 64 << 20}, false)
	dir := g.members[0].dir
	if g.members[0].has("memory.memsw.limit_in_bytes") {
		if n, err := readNumber(dir, "memory.memsw.limit_in_bytes"); n != 64<<20 {
			t.Errorf("memory and swap together: %d, %v", n, err)
		}
	}
}

func TestProcessesAreBounded(t *testing.T) {
	g := group(t, host(t, sandbox.LimitPIDs), sandbox.Resources{PIDs: 20}, false)
	mark := g.Mark()
	defer mark.End()
	out, _ := run(t, g, python, "-c", `
import errno, os, time
n = 0
try:
    while True:
        if os.fork() == 0:
            os.close(1); os.close(2)
            time.sleep(100)
            os._exit(0)
        n += 1
except OSError as e:
    print(n, errno.errorcode[e.errno], flush=True)
os._exit(0)
`)
	if !strings.HasPrefix(out, "19 EAGAIN") {
		t.Errorf("forks: %q", out)
	}
	if _, limit := mark.Since(); limit != sandbox.LimitPIDs {
		t.Errorf("limit = %q", limit)
	}
	next := g.Mark()
	defer next.End()
	if _, limit := next.Since(); limit != "" {
		t.Errorf("limit = %q since nothing happened", limit)
	}
}

func TestProcessorTimeIsBounded(t *testing.T) {
	// So little is had on a busy machine, too, and more would be.
	g := group(t, host(t, sandbox.LimitCPU), sandbox.Resources{CPU: 0.1}, false)
	mark := g.Mark()
	defer mark.End()
	// Until a fifth of a second of processor time is used, by two at once.
	began := time.Now()
	if out, state := run(t, g, "sh", "-c", `eat='import time
while time.process_time() < 0.1: pass'
$1 -c "$eat" & $1 -c "$eat"; wait`, "sh", python); !state.Success() {
		t.Fatal(state, out)
	}
	usage, limit := mark.Since()
	if usage.Throttled == 0 || limit != "" {
		t.Errorf("usage %+v, limit %q", usage, limit)
	}
	if wall := time.Since(began); wall < time.Second {
		t.Errorf("a fifth of a second of processor time was had in %v", wall)
	}
}

// Version 1 refuses a group more than the one above has: the bound holds.
func TestATighterBoundAboveIsEnough(t *testing.T) {
	h := host(t, sandbox.LimitCPU)
	if h.Control(sandbox.LimitCPU).Version != 1 {
		skip(t, "it is how version 1 behaves")
	}
	above := group(t, h, sandbox.Resources{CPU: 0.5}, false)
	inside := Host{Controls: []Control{{Resource: sandbox.LimitCPU, Version: 1, Dir: above.members[0].dir}}, prefix: h.prefix}
	group(t, inside, sandbox.Resources{CPU: 2}, false)
	group(t, inside, sandbox.Resources{CPU: 0.25}, false)
}

func TestManyGroupsAtOnce(t *testing.T) {
	h := host(t, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitCPU)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			g, err := h.New("many", sandbox.Resources{Memory: 256 << 20, PIDs: 8, CPU: 4}, true)
			if err != nil {
				t.Error(err)
				return
			}
			mark := g.Mark()
			cmd, err := enter(g, "sh", "-c", fmt.Sprintf("sleep 1000 >/dev/null 2>&1 & echo %d; grep hermes-exec /proc/self/cgroup | wc -l", i))
			if err != nil {
				t.Error(err)
				return
			}
			out, err := cmd.Output()
			for _, f := range cmd.ExtraFiles {
				f.Close()
			}
			_, limit := mark.Since()
			mark.End()
			if err != nil || limit != "" || !strings.HasPrefix(string(out), fmt.Sprintf("%d\n%d\n", i, len(g.members))) {
				t.Errorf("%q %v, limit %q", out, err, limit)
			}
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// grandchildren leaves a session leader's child in the groups and returns its
// pipe, which ends with it.
func grandchildren(t *testing.T, g *Group) *bufio.Reader {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	cmd, err := enter(g, "sh", "-c", "(trap '' TERM HUP; setsid sh -c 'sleep 1000 & sleep 1000' & ) ; echo ready")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	err = cmd.Run()
	w.Close()
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(r)
	if line, err := in.ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	return in
}

func TestKillAndCloseReachGrandchildren(t *testing.T) {
	h := host(t, sandbox.LimitMemory, sandbox.LimitPIDs)
	plain := h
	plain.Unified, plain.freezer = "", ""
	old := h
	old.Unified = ""
	for name, c := range map[string]struct {
		h Host
		r sandbox.Resources
	}{
		"cgroup.kill":       {h, sandbox.Resources{}},
		"with limits":       {h, sandbox.Resources{Memory: 64 << 20, PIDs: 20}},
		"freezer":           {old, sandbox.Resources{}},
		"one by one":        {plain, sandbox.Resources{Memory: 64 << 20}},
		"without new forks": {plain, sandbox.Resources{PIDs: 20}},
	} {
		for _, how := range []string{"kill", "close"} {
			t.Run(name+" "+how, func(t *testing.T) {
				if name == "freezer" && h.freezer == "" || name == "cgroup.kill" && h.Unified == "" {
					skip(t, "this host has none")
				}
				g := group(t, c.h, c.r, true)
				pipe := grandchildren(t, g)
				end := g.Close
				if how == "kill" {
					end = g.Kill
				}
				if err := end(); err != nil {
					t.Fatal(err)
				}
				if rest, err := pipe.ReadString(0); rest != "" || err == nil {
					t.Error(rest, err)
				}
				if _, err := g.Procs(); err == nil {
					t.Error("a group that was killed can be entered")
				}
			})
		}
	}
}

// A fork bomb cannot outrun the kill.
func TestKillEndsAForkBomb(t *testing.T) {
	g := group(t, host(t, sandbox.LimitPIDs), sandbox.Resources{PIDs: 200}, false)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd, err := enter(g, python, "-c", `
import os
os.write(1, b"x")
while True:
    try: os.fork()
    except OSError: pass
`)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = w
	err = cmd.Start()
	w.Close()
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	for mark := g.Mark(); ; {
		if _, limit := mark.Since(); limit == sandbox.LimitPIDs {
			mark.End()
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func TestSweepAfterTheOwnerIsKilled(t *testing.T) {
	h := host(t, sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitCPU)
	live := group(t, h, sandbox.Resources{Memory: 64 << 20, PIDs: 5}, true)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"=own")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	var pid int
	if _, err := fmt.Sscanf(line, "<nil> %d\n", &pid); err != nil {
		t.Fatal(line, err)
	}
	fd, err := os.FindProcess(pid) // a pidfd
	if err != nil {
		t.Fatal(err)
	}
	theirs := func() (dirs []string) {
		for _, place := range h.places() {
			found, _ := filepath.Glob(filepath.Join(place, h.prefix+"owner-*"))
			dirs = append(dirs, found...)
		}
		return dirs
	}
	left := theirs()
	if len(left) < len(live.members) { // one in version 2
		t.Errorf("the owner's groups: %v", left)
	}
	for _, removed := range h.Sweep() {
		if slices.Contains(left, removed) {
			t.Errorf("%s has a living owner and was swept", removed)
		}
	}
	if err := fd.Signal(syscall.Signal(0)); err != nil {
		t.Error("the process of a living owner:", err)
	}

	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for stop := time.Now().Add(30 * time.Second); len(theirs()) > 0; time.Sleep(time.Millisecond) {
		h.Sweep()
		if left := theirs(); len(left) > 0 && time.Now().After(stop) { // another engine that begins may be sweeping it
			t.Fatalf("left: %v", left)
		}
	}
	if err := fd.Signal(syscall.Signal(0)); !errors.Is(err, os.ErrProcessDone) && !zombie(pid) {
		t.Error("the process in it lives on:", err)
	}
	for _, m := range live.members {
		if _, err := os.Stat(m.dir); err != nil {
			t.Error("a living group was swept:", err)
		}
	}
}

// What an engine left in another group than this one is found, wherever it is.
func TestSweepElsewhere(t *testing.T) {
	h := host(t, sandbox.LimitMemory)
	login := filepath.Join(h.places()[0], fmt.Sprintf("login-%d", os.Getpid()))
	scope := filepath.Join(login, "scope")
	// Locks are not seen from another namespace: whether its engine lives nobody knows.
	foreign := filepath.Join(login, strings.Replace(h.prefix, "-4", "-5", 1)+"left")
	for _, dir := range []string{login, scope, foreign} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Rmdir(dir) }()
	}
	in := func(dir string) *member {
		m, err := new(Group).in(dir, 1, h.prefix+"left-")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	alive, dead, empty := in(scope), in(login), in(scope)
	defer func() { _ = remove([]*member{alive}) }()
	cmd := exec.Command("sh", "-c", `echo 0 >"$1/cgroup.procs" && echo in && exec sleep 1000`, "sh", dead.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "in\n" {
		t.Fatal(line, err)
	}
	dead.lock.Close()
	empty.lock.Close()

	ended, end := context.WithCancel(context.Background())
	end()
	if got := h.SweepElsewhere(ended); got != nil {
		t.Errorf("it had no time, and removed %q", got)
	}
	h.SweepElsewhere(t.Context()) // or another engine that begins
	_ = cmd.Wait()
	for _, m := range []*member{dead, empty} {
		for stop := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if _, err := os.Stat(m.dir); errors.Is(err, fs.ErrNotExist) {
				break
			} else if time.Now().After(stop) {
				t.Fatalf("left: %s", m.dir)
			}
		}
	}
	for _, dir := range []string{alive.dir, foreign} {
		if _, err := os.Stat(dir); err != nil {
			t.Error("it was swept:", err)
		}
	}
}

// zombie tells of a process that nobody has waited for yet: the one that
// inherits it here may take its time.
func zombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ") || strings.Contains(string(b), ") X ")
}

func TestWhatIsNotAskedIsNotMade(t *testing.T) {
	g, err := Find().New("x", sandbox.Resources{Disk: 1 << 30}, false)
	if g != nil || err != nil {
		t.Errorf("%v, %v", g, err)
	}
	for _, r := range []sandbox.Resources{{Memory: -1}, {PIDs: -1}, {CPU: -1}, {CPU: 0.001}, {CPU: 1e300}} {
		if g, err := Find().New("x", r, false); g != nil || !errors.Is(err, sandbox.ErrPolicy) {
			t.Errorf("%+v: %v, %v", r, g, err)
		}
	}
	zero := Host{}
	if _, err := zero.New("x", sandbox.Resources{Memory: 1 << 30}, false); !errors.Is(err, sandbox.ErrPolicy) {
		t.Error(err)
	}
}

func TestAnOrdinaryUserIsToldWhy(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("it takes root to become somebody else; as an ordinary user the other tests tell")
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), roleVariable+"=find")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.Output()
	var f found
	if err != nil || json.Unmarshal(out, &f) != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if f.Mechanism != "" || f.Host.Unified != "" {
		t.Fatalf("uid 12345 is said to have %q, %q", f.Mechanism, f.Host.Unified)
	}
	for _, c := range f.Host.Controls {
		if !strings.Contains(c.Why, "12345") || c.Fix == "" {
			t.Errorf("%s: %q, fix %q", c.Resource, c.Why, c.Fix)
		}
	}
	if !f.Policy || !strings.Contains(f.Error, "memory limit") || !strings.Contains(f.Error, f.Host.Control("memory").Fix) {
		t.Errorf("New: %s (ErrPolicy: %v)", f.Error, f.Policy)
	}
}

func BenchmarkNewClose(b *testing.B) {
	h := Find()
	for name, c := range map[string]struct {
		r    sandbox.Resources
		kill bool
	}{
		"nothing":     {},
		"kill":        {kill: true},
		"pids":        {r: sandbox.Resources{PIDs: 100}},
		"memory":      {r: sandbox.Resources{Memory: 1 << 30}},
		"limits":      {r: sandbox.Resources{Memory: 1 << 30, PIDs: 100, CPU: 1}},
		"limits+kill": {r: sandbox.Resources{Memory: 1 << 30, PIDs: 100, CPU: 1}, kill: true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				g, err := h.New("bench", c.r, c.kill)
				if err != nil {
					b.Skip(err)
				}
				if g == nil {
					continue
				}
				files, err := g.Procs()
				if err != nil {
					b.Fatal(err)
				}
				for _, f := range files {
					f.Close()
				}
				if err := g.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
