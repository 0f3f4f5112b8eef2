package integration

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// daemons is a script that leaves what is hard to find: processes that left its
// session, forgot its environment and are deaf. It says when they are up.
const daemons = `
import os, signal, subprocess, sys, time
deaf = "trap '' TERM HUP INT; echo up >&3; while :; do sleep 1; done"
r, w = os.pipe()
for cut in (True, False):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.dup2(w, 3)
            os.set_inheritable(3, True)
            null = os.open("/dev/null", os.O_RDWR)
            for n in (0, 1, 2):
                os.dup2(null, n)
            os.execve("/bin/sh", ["sh", "-c", deaf, MARK], {} if cut else dict(os.environ))
        os._exit(0)
for _ in range(2):
    assert os.read(r, 3) == b"up\n"
print("up", flush=True)
`

// moments are when an engine is killed: what it runs, and how long after its
// script is up; one without a script that comes up is killed after its start.
func moments() []moment {
	return []moment{
		{name: "starting", most: 70 * time.Millisecond},
		{name: "running", up: true, most: 20 * time.Millisecond, then: "time.sleep(600)"},
		{name: "in a tool call", up: true, most: 150 * time.Millisecond, then: `
from hermes_tools import terminal, write_file
i = 0
while True:
    i += 1
    terminal("(trap '' TERM; sleep 600) >/dev/null 2>&1 & sleep 0.02; : " + MARK)
    write_file("/tmp/file%d" % i, "x" * 10000)`},
		{name: "timing out", up: true, flags: []string{"--timeout", "3s"}, least: 2800 * time.Millisecond, most: 3300 * time.Millisecond, then: `
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)`},
		{name: "ending", up: true, most: 40 * time.Millisecond},
	}
}

type moment struct {
	name        string
	up          bool
	flags       []string
	least, most time.Duration
	then        string
}

// An engine that is killed at any instant leaves no process two seconds later;
// the next start sweeps what it left on disk. Both policies, and none.
func TestSoakKilledAtAnyInstant(t *testing.T) {
	t.Parallel()
	kills := 40
	if os.Getenv("HERMES_EXEC_SOAK") != "" {
		kills = 400
	} else if testing.Short() {
		kills = 10
	}
	bin := binary(t)
	for _, policy := range []string{"workspace", "sealed", "open"} {
		t.Run(policy, func(t *testing.T) {
			g := newGround(t, bin)
			g.write(".git/HEAD", "ref: refs/heads/main\n")
			if got := g.run(policy, "print(1)"); got.Output != "1\n" {
				t.Fatalf("%+v", got)
			}
			left, swept := strays(g.work), 0
			for i := range kills/3 + 1 {
				m := moments()[i%len(moments())]
				if what := kill(g, policy, m); what != "" {
					t.Fatalf("kill %d, %s: %s", i, m.name, what)
				}
				reserved := slices.DeleteFunc(strays(g.work), func(name string) bool { return slices.Contains(left, name) })
				if names := slices.DeleteFunc(slices.Clone(reserved), guardedName); len(names) > 0 || len(reserved) > 0 && policy != "workspace" {
					t.Errorf("kill %d, %s: in the workspace: %q", i, m.name, reserved)
				}
				swept += len(reserved) + len(leftInTemp(g.tmp))
				// The next start, which is no killed one's heir.
				if next := g.do("--policy", policy, "run", "-q", "-c", "pass"); next.exit != 0 {
					t.Fatalf("kill %d, %s: the next start: %d %s", i, m.name, next.exit, next.stderr)
				}
				if now := strays(g.work); !slices.Equal(now, left) {
					t.Errorf("kill %d, %s: the next start leaves in the workspace: %q, want %q", i, m.name, now, left)
				}
				if rest := leftInTemp(g.tmp); len(rest) > 0 {
					t.Errorf("kill %d, %s: the next start leaves %q", i, m.name, rest)
				}
				if groups := waitFor(deadGroups); len(groups) > 0 {
					t.Errorf("kill %d, %s: the next start leaves control groups %q", i, m.name, groups)
				}
			}
			if swept == 0 && policy != "sealed" { // whose box is nowhere on disk
				t.Error("no kill has left anything to sweep: they came too late, or too early")
			}
		})
	}
}

// kill starts the program, kills it at some instant of the moment and looks for
// what lives on. It returns what is wrong.
func kill(g *ground, policy string, m moment) string {
	script := "MARK = " + strconv.Quote(g.base) + "\n" + daemons + m.then
	cmd := g.command(append(append([]string{"--policy", policy, "run", "-q"}, m.flags...), "-c", script)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // guests keep the session, whatever they are called
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	if m.up {
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			return fmt.Sprintf("the script did not come up: %q %v %s", line, err, errOut.String())
		}
	}
	if m.then != "" {
		if seen := kin(g.base, cmd.Process.Pid, nil); len(seen) < 4 { // engine, script, two daemons, and guests
			_ = cmd.Process.Kill()
			return fmt.Sprintf("of what runs only %q can be seen", seen)
		}
	}
	time.Sleep(m.least + rand.N(m.most-m.least)) // any instant will do
	family := descendants(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	killed := time.Now()
	_ = cmd.Wait()
	for looks := 1; ; looks++ {
		alive := kin(g.base, cmd.Process.Pid, family)
		if len(alive) == 0 {
			return ""
		}
		if looks > 50 && time.Since(killed) > 2*time.Second { // else the machine stood still meanwhile
			return fmt.Sprintf("after %v live on: %q", time.Since(killed).Round(time.Millisecond), alive)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// process is one of this machine's; the instant of its start tells it from
// another with the same number.
type process struct {
	pid, parent, session int
	start                string
}

// table is all processes of this machine but those that have ended and wait
// for their parent to notice.
func table() (all []process) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(data[bytes.LastIndexByte(data, ')'):]), " ")
		f := strings.Fields(rest)
		if len(f) < 20 || f[0] == "Z" || f[0] == "X" {
			continue
		}
		p := process{start: f[19]}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(name)))
		p.parent, _ = strconv.Atoi(f[1])
		p.session, _ = strconv.Atoi(f[3])
		all = append(all, p)
	}
	return all
}

// descendants are the processes below one.
func descendants(pid int) (found []process) {
	all, below := table(), map[int]bool{pid: true}
	for more := true; more; {
		more = false
		for _, p := range all {
			if below[p.parent] && !below[p.pid] {
				below[p.pid], more = true, true
				found = append(found, p)
			}
		}
	}
	return found
}

// kin are the processes that live on of an engine that is dead: they bear the
// mark, or belong to its session, or were below it when it was killed.
func kin(mark string, engine int, family []process) (alive []string) {
	alive = processes(mark)
	for _, p := range table() {
		known := slices.ContainsFunc(family, func(f process) bool { return f.pid == p.pid && f.start == p.start })
		if p.session == engine || known {
			cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			alive = append(alive, fmt.Sprintf("%d: %q", p.pid, cmdline))
		}
	}
	return alive
}

// strays lists all that is below a directory.
func strays(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, name[len(dir):])
		return nil
	})
	return names
}

// guardedName tells the names that are reserved in a workspace while a box has
// it, which a killed engine leaves until the next start.
func guardedName(name string) bool {
	switch name {
	case "/.claude", "/.cursor", "/.envrc", "/.idea", "/.mcp.json", "/.vscode", "/.github", "/.github/workflows",
		"/.git/commondir", "/.git/config", "/.git/config.worktree", "/.git/hooks":
		return true
	}
	return false
}

// leftInTemp lists what is in a place for temporary files but for the
// directories that engines keep there.
func leftInTemp(dir string) (names []string) {
	for _, name := range strays(dir) {
		if strings.Count(name, "/") > 1 {
			names = append(names, name)
		}
	}
	return names
}

// deadGroups are control groups of this user that no living engine holds. Those
// of another namespace have their locks apart.
func deadGroups() (dead []string) {
	namespace, _ := os.Readlink("/proc/self/ns/cgroup")
	prefix := fmt.Sprintf("hermes-exec-%d-%s-", os.Getuid(), strings.Trim(namespace, "cgroup:[]"))
	for _, top := range []string{"/sys/fs/cgroup"} {
		_ = filepath.WalkDir(top, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() || !strings.HasPrefix(d.Name(), prefix) {
				return nil
			}
			if f, err := os.Open(name); err == nil {
				defer f.Close()
				if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
					dead = append(dead, name)
				}
			}
			return fs.SkipDir
		})
	}
	return dead
}
