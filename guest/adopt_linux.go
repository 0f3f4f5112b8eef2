package guest

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt makes this process the one that inherits what a lost guest supervised,
// so that KillAdopted can find it. It is for a program that starts no process
// in a session of its own but through guests: others' orphans come to it too.
func Adopt() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// KillAdopted kills what lost guests left to this process, after Adopt: its
// children of another session, with all that descends from them. Guests are of
// this process's session and every command leads one of its own, which nothing
// below it can leave for ours.
func KillAdopted() {
	own, err := unix.Getsid(0)
	if err != nil {
		return
	}
	t := tree{root: os.Getpid(), besides: own}
	for began := time.Now(); time.Since(began) < resist; {
		left, err := t.kill()
		if err != nil || left == 0 {
			return
		}
		for i := range t.procs { // the dead are members until they are reaped
			if p := &t.procs[i]; p.parent == t.root && t.isMember(i) {
				_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG|unix.WALL, nil)
			}
		}
		time.Sleep(time.Millisecond)
	}
}
