package cgroup

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rounds bounds how often a kill looks for what was forked in the meantime.
const rounds = 100

// frozenWithin bounds how long a kill waits until everything stands still.
const frozenWithin = 200 * time.Millisecond

// Kill sends SIGKILL to everything in the groups, at once where the kernel has
// a way. The group is then done with: nothing may enter it any more.
func (g *Group) Kill() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.killed = true
	if err := kill(g.members); err != nil {
		return fmt.Errorf("cgroup: kill: %w", err)
	}
	return nil
}

// kill kills what is in groups of one box.
func kill(members []*member) error {
	var errs []error
	for _, m := range members {
		if m.has("cgroup.kill") {
			errs = append(errs, m.write("cgroup.kill", "1"))
		}
		if m.has("pids.max") && m.version == 1 {
			errs = append(errs, m.write("pids.max", "0")) // no more forks
		}
	}
	for _, m := range members {
		if m.has("freezer.state") {
			errs = append(errs, m.write("freezer.state", "FROZEN"))
			for stop := time.Now().Add(frozenWithin); !slices.Equal(words(m.dir, "freezer.state"), []string{"FROZEN"}) && time.Now().Before(stop); {
				time.Sleep(time.Millisecond)
			}
			defer func() { _ = m.write("freezer.state", "THAWED") }()
		}
	}
	for _, m := range members {
		if !m.has("cgroup.kill") {
			errs = append(errs, m.killEach())
		}
	}
	return errors.Join(errs...)
}

// killEach kills one by one until nothing new is found.
func (m *member) killEach() error {
	killed := map[string]bool{}
	var errs []error
	for range rounds {
		fresh := false
		for _, pid := range words(m.dir, "cgroup.procs") {
			if killed[pid] {
				continue
			}
			killed[pid], fresh = true, true
			errs = append(errs, m.killOne(pid))
		}
		if !fresh {
			break
		}
	}
	return errors.Join(errs...)
}

// killOne kills a process that is in the group, and not another one that got
// its number in the meantime.
func (m *member) killOne(pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 0 { // 0 is one of another pid namespace
		return fmt.Errorf("process %q of %s is out of reach", pid, m.dir)
	}
	fd, err := unix.PidfdOpen(n, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(fd)
	if !slices.Contains(words(m.dir, "cgroup.procs"), pid) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, syscall.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("pidfd_send_signal", err)
	}
	return nil
}
