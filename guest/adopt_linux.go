package guest

import (
	"context"
	"os"
	"os/signal"
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

// Reap waits for orphans that come to this process, until ctx is done: it is for
// PID 1 of a container, which has nobody else to do it. A guest's tree never
// comes here while the guest lives; processes that others start in the
// container, and guests' trees after KillAdopted, do. Children of this process's
// own session are left to who has started them.
func Reap(ctx context.Context) {
	own, err := unix.Getsid(0)
	if err != nil {
		return
	}
	news := make(chan os.Signal, 1)
	signal.Notify(news, unix.SIGCHLD)
	defer signal.Stop(news)
	t := tree{root: os.Getpid()}
	for {
		if t.scan(0) == nil {
			for i := range t.procs {
				if p := &t.procs[i]; p.parent == t.root && p.session != own {
					_, _ = unix.Wait4(p.pid, nil, unix.WNOHANG|unix.WALL, nil)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reapEvery): // a storm is one look, not a thousand
		}
		select {
		case <-ctx.Done():
			return
		case <-news:
		}
	}
}

// reapEvery is how often Reap looks at most.
const reapEvery = 100 * time.Millisecond
