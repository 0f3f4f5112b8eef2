package guest

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKillDoesNotWait: while the tree is looked at, which takes long where others
// have the processor, it is killed all the same.
func TestKillDoesNotWait(t *testing.T) {
	child := exec.Command("/bin/sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer child.Process.Kill()
	fd, err := unix.PidfdOpen(child.Process.Pid, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	c := &command{g: &inside{c: Confinement{Namespaces: true}}, reaper: &reaper{l: &launch{}}, pidfd: fd}
	c.looking.Lock()
	defer c.looking.Unlock()
	c.kill()
	if err := child.Wait(); err == nil || c.reaper.l.ending != endAsked || !c.tree.enough.Load() {
		t.Errorf("%v, %d", err, c.reaper.l.ending)
	}
}

// TestNoSignalAfterTheKill: who is to be killed is not asked to end any more, by
// a look that may be long.
func TestNoSignalAfterTheKill(t *testing.T) {
	above := exec.Command("/bin/sh", "-c", "sleep 600 & echo; wait")
	out, err := above.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := above.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	tree := tree{root: above.Process.Pid}
	tree.enough.Store(true)
	if err := tree.terminate(); err != nil || len(tree.told) > 0 {
		t.Errorf("%v, told %v", err, tree.told)
	}
	if _, err := tree.kill(); err != nil || len(tree.told) != 1 {
		t.Errorf("%v, told %v", err, tree.told)
	}
	_ = above.Wait() // for the other
}
