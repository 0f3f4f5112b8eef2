package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// tree makes files in a directory that stands for a mounted hierarchy. It shows
// what is read and written, not that a kernel would obey.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	top := t.TempDir()
	for name, text := range files {
		name = filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func mount(top, kind, root, options string) string {
	return "41 31 0:38 " + root + " " + strings.ReplaceAll(top, " ", `\040`) + " rw,nosuid shared:9 - " + kind + " cgroup " + options + "\n"
}

const session = "user.slice/user-1000.slice/user@1000.service/app.slice/run-1.scope"

func TestFindOnVersion2(t *testing.T) {
	app := filepath.Dir(session)
	top := tree(t, map[string]string{
		"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "memory pids\n", "cgroup.procs": "",
		app + "/cgroup.subtree_control": "memory pids\n", app + "/cgroup.procs": "",
		session + "/cgroup.controllers": "memory pids\n", session + "/cgroup.subtree_control": "\n", session + "/cgroup.procs": "",
	})
	h := find(mount(top, "cgroup2", "/", "rw,nsdelegate"), "0::/"+session+"\n", 1000)
	// The process's own group holds it, so limits are for the nearest that hands
	// controllers on; a group for the kill can be below its own.
	if h.Mechanism() != "cgroup v2 memory, pids" || h.Control(sandbox.LimitMemory).Dir != filepath.Join(top, app) || h.Unified != filepath.Join(top, session) {
		t.Errorf("%+v", h)
	}
	if c := h.Control(sandbox.LimitCPU); !strings.Contains(c.Why, "cpu controller is not delegated to uid 1000") || !strings.Contains(c.Fix, "Delegate=cpu") {
		t.Errorf("%+v", c)
	}
	if h.Quick(sandbox.LimitPIDs) {
		t.Error("version 2 is said to be quick to enter")
	}
	// For root the remedy is another.
	h = find(mount(top, "cgroup2", "/", "rw"), "0::/"+session+"\n", 0)
	if c := h.Control(sandbox.LimitCPU); !strings.Contains(c.Fix, "echo +cpu > "+filepath.Join(top, app)+"/cgroup.subtree_control") {
		t.Errorf("%+v", c)
	}
}

func TestFindWhatCannotBeHad(t *testing.T) {
	bare := tree(t, map[string]string{"cgroup.controllers": "hugetlb\n", "cgroup.subtree_control": "", "cgroup.procs": ""})
	unified := mount(bare, "cgroup2", "/", "rw")
	for name, c := range map[string]struct{ mounts, groups, why string }{
		"nothing mounted":     {"", "0::/\n", "is mounted"},
		"no such controller":  {unified, "0::/\n", "has no memory controller"},
		"not below its mount": {mount(bare, "cgroup", "/docker/x", "rw,memory"), "4:memory:/other\n", "own group is not below"},
		"a prefix of letters": {mount(bare, "cgroup", "/docker", "rw,memory"), "4:memory:/docker2\n", "own group is not below"},
		"torn lines":          {"41 31\n - \nx - cgroup\n" + unified, "\n0:\n0::/\n", "has no memory controller"},
	} {
		t.Run(name, func(t *testing.T) {
			h := find(c.mounts, c.groups, 1000)
			if got := h.Control(sandbox.LimitMemory); got.Version != 0 || !strings.Contains(got.Why, c.why) || got.Fix == "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestFindOnVersion1(t *testing.T) {
	top := filepath.Join(t.TempDir(), "with blank")
	for _, dir := range []string{"a/b", "cpu"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, dir, "tasks"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mounts := mount(top, "cgroup", "/docker/x", "rw,memory,pids") + mount(filepath.Join(top, "cpu"), "cgroup", "/", "rw,cpu,cpuacct")
	h := find(mounts, "4:memory,pids:/docker/x/a/b\n2:cpu,cpuacct:/\n", 0)
	if h.Mechanism() != "cgroup v1 memory, pids, cpu" || h.Control(sandbox.LimitPIDs).Dir != filepath.Join(top, "a/b") || h.Control(sandbox.LimitCPU).Dir != filepath.Join(top, "cpu") {
		t.Errorf("%+v", h)
	}
}

// What is written to a version 2 group, and read from it, on files that stand
// for it.
func TestVersion2Files(t *testing.T) {
	dir := tree(t, map[string]string{
		"g/memory.max": "max", "g/memory.swap.max": "max", "g/memory.oom.group": "0", "g/pids.max": "max", "g/cpu.max": "max 100000",
		"g/memory.events": "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n", "g/memory.peak": "1000\n", "g/pids.events": "max 0\n",
		"g/cpu.stat": "usage_usec 100\nuser_usec 50\nnr_throttled 2\n",
	})
	g := &Group{members: []*member{{dir: filepath.Join(dir, "g"), version: 2}}, memory: 64 << 20}
	for _, l := range resources() {
		if err := g.members[0].set(l, sandbox.Resources{Memory: 64 << 20, PIDs: 20, CPU: 1.5}); err != nil {
			t.Error(err)
		}
		g.kept = append(g.kept, Control{Resource: l, Version: 2, Dir: dir})
	}
	for file, want := range map[string]string{
		"memory.max": "67108864", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "20", "cpu.max": "150000 100000",
	} {
		if b, _ := os.ReadFile(filepath.Join(dir, "g", file)); !strings.HasPrefix(string(b), want) {
			t.Errorf("%s: %q, want %q", file, b, want)
		}
	}
	put := func(file, text string) {
		if err := os.WriteFile(filepath.Join(dir, "g", file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	mark := g.Mark()
	defer mark.End()
	put("memory.events", "max 0\noom_kill 1\n")
	if _, limit := mark.Since(); limit != "" {
		t.Errorf("limit = %q for a kill that the group's own limit did not ask for", limit)
	}
	put("pids.events", "max 3\n")
	put("cpu.stat", "usage_usec 1100\nnr_throttled 5\n")
	usage, limit := mark.Since()
	if limit != sandbox.LimitPIDs || usage != (Usage{Memory: 1000, CPU: 1_000_000, Throttled: 3}) {
		t.Errorf("%q %+v", limit, usage)
	}
	put("memory.events", "max 7\noom_kill 2\n")
	if _, limit = mark.Since(); limit != sandbox.LimitMemory {
		t.Errorf("limit = %q", limit)
	}
}
