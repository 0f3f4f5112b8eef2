package guest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestParseStat(t *testing.T) {
	const tail = " 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200\n"
	for _, c := range []struct {
		line string
		want proc
		ok   bool
	}{
		{"1 (init) S" + tail, proc{parent: 42, group: 7, session: 7, threads: 1, identity: identity{start: 987654}}, true},
		{"9 (a b) c) Z" + tail, proc{parent: 42, group: 7, session: 7, threads: 1, dead: true, identity: identity{start: 987654}}, true},
		{"9 () R 1 1 1 (x) S" + tail, proc{parent: 42, group: 7, session: 7, threads: 1, identity: identity{start: 987654}}, true},
		{"9 (\n\xff) R" + tail, proc{parent: 42, group: 7, session: 7, threads: 1, identity: identity{start: 987654}}, true},
		{"9 (led by the dead) Z 42 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 2 0 987654 1\n", proc{parent: 42, group: 7, session: 7, threads: 2, identity: identity{start: 987654}}, true},
		{"", proc{}, false},
		{"1 init S 1", proc{}, false},
		{"1 (init)", proc{}, false},
		{"1 (init) S 42 7 7 0", proc{}, false},
		{"1 (init) S -1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1", proc{}, false},
		{"1 (init) S x 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1", proc{}, false},
	} {
		got, ok := parseStat([]byte(c.line))
		if ok != c.ok || (ok && got != c.want) {
			t.Errorf("%q: %+v, %v", c.line, got, ok)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 200\n"))
	f.Add([]byte("9 (a) b) R 1"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, ok := parseStat(b); ok && (p.parent < 0 || p.session < 0) {
			t.Errorf("%q: %+v", b, p)
		}
	})
}

// TestTreeSeesDescendants looks at this very process's children.
func TestTreeSeesDescendants(t *testing.T) {
	child := exec.Command("/bin/sh", "-c", "sleep 1000 & echo; wait")
	child.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-child.Process.Pid, unix.SIGKILL)
		_ = child.Wait()
	}()
	if _, err := out.Read(make([]byte, 1)); err != nil { // the grandchild was forked
		t.Fatal(err)
	}
	members := func(root int) (pids []int) {
		tree := tree{root: root}
		if err := tree.scan(0); err != nil {
			t.Fatal(err)
		}
		for i := range tree.procs {
			if tree.isMember(i) {
				pids = append(pids, tree.procs[i].pid)
			}
		}
		return pids
	}
	all := members(os.Getpid())
	if !slices.Contains(all, child.Process.Pid) {
		t.Errorf("the child %d is not among the descendants %v", child.Process.Pid, all)
	}
	below := members(child.Process.Pid)
	if len(below) != 1 || !slices.Contains(all, below[0]) {
		t.Errorf("below the child there is %v, below this process %v", below, all)
	}
	if slices.Contains(all, os.Getpid()) || slices.Contains(all, os.Getppid()) || slices.Contains(all, 1) {
		t.Errorf("this process, its parent or init is among the descendants %v", all)
	}
}

// TestSendVerifies: a pid whose process is not the one that was seen is left
// alone.
func TestSendVerifies(t *testing.T) {
	child := exec.Command("sleep", "1000")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	tree := tree{root: os.Getpid()}
	seen, ok := tree.read(child.Process.Pid)
	if !ok {
		t.Fatal("the child is not in /proc")
	}
	reused, moved := seen, seen
	reused.start--
	moved.parent = 1
	tree.send(&reused, unix.SIGKILL)
	tree.root = 1 << 30
	if tree.send(&moved, unix.SIGKILL) {
		t.Error("a process with another parent than was seen counts as told")
	}
	if now, ok := tree.read(child.Process.Pid); !ok || now != seen {
		t.Errorf("the process was hit: %+v, %v", now, ok)
	}
	if !tree.send(&seen, unix.SIGUSR1) {
		t.Error("the process itself was not told")
	}
	err := child.Wait()
	if status := child.ProcessState.Sys().(interface{ Signal() unix.Signal }); status.Signal() != unix.SIGUSR1 {
		t.Errorf("the process ended with %v", err)
	}
}

// A signal to the groups of a tree reaches who joined one after the scan, and not
// the root, whose group its children may share.
func TestGroupsOfTheTree(t *testing.T) {
	root := exec.Command("sh", "-c", `sleep 1000 & setsid sh -c 'sleep 1000 & exec sleep 1000' & wait`)
	root.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := root.Start(); err != nil {
		t.Fatal(err)
	}
	tr := tree{root: root.Process.Pid}
	defer func() {
		_, _ = tr.kill()
		_ = root.Process.Kill()
		_ = root.Wait()
	}()
	find := func() (mine, theirs []proc) {
		if err := tr.scan(0); err != nil {
			t.Fatal(err)
		}
		for i := range tr.procs {
			switch p := tr.procs[i]; {
			case !tr.isMember(i):
			case p.session == tr.root:
				mine = append(mine, p)
			default:
				theirs = append(theirs, p)
			}
		}
		return mine, theirs
	}
	mine, theirs := find()
	for ; len(mine) != 1 || len(theirs) != 2; mine, theirs = find() {
		time.Sleep(time.Millisecond)
	}
	if err := tr.scan(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := func(pid int) bool {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, state, _ := strings.Cut(string(b), ") ")
		return strings.HasPrefix(state, "T")
	}
	for _, p := range theirs {
		for !stopped(p.pid) {
			time.Sleep(time.Millisecond)
		}
	}
	if stopped(tr.root) || stopped(mine[0].pid) {
		t.Error("the group of the root was stopped")
	}
}
