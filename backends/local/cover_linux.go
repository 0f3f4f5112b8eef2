package local

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
)

// coverAfter is how long a box's view is taken for whole after it was looked at.
const coverAfter = time.Second

// cover keeps up a view that commands are started in for hours, while the
// machine goes on: a file that is replaced, as many programs save theirs, loses
// the mount that was over it, and secrets and sockets are made that were not
// there. What a command meanwhile runs in is not changed.
type cover struct {
	plan   *plan
	looked time.Time
	over   map[string]inode // what a mount was put over
}

// inode tells a file from a later one of the same name and number.
type inode struct {
	dev, ino uint64
	birth    unix.StatxTimestamp
	kind     uint16
}

func inodeOf(name string) (id inode, ok bool) {
	var x unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_TYPE|unix.STATX_INO|unix.STATX_BTIME, &x)
	if err != nil {
		return id, false
	}
	return inode{unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino, x.Btime, x.Mode & unix.S_IFMT}, true
}

func newCover(pl *plan, mounts []guest.Mount, guarded []string) *cover {
	c := &cover{plan: pl, looked: time.Now(), over: map[string]inode{}}
	for _, m := range mounts {
		if m.Kind == guest.MountHide {
			c.over[m.Target], _ = inodeOf(m.Target)
		}
	}
	for _, name := range guarded {
		c.over[name], _ = inodeOf(name)
	}
	return c
}

// missing are the mounts that the view has come to lack. What is guarded and
// was removed cannot be covered: it is looked for after the run.
func (c *cover) missing(guarded []string) ([]guest.Mount, error) {
	if time.Since(c.looked) < coverAfter {
		return nil, nil
	}
	secrets, err := c.plan.secrets(denied(c.plan.policy))
	if err != nil {
		return nil, err
	}
	mounts := c.plan.hide(slices.DeleteFunc(secrets, func(name string) bool { return !c.changed(name) }))
	var again []string
	for _, name := range guarded {
		if _, err := os.Lstat(name); err == nil && c.changed(name) {
			again = append(again, name)
		}
	}
	ro, err := c.plan.guards(again)
	c.looked = time.Now()
	return append(mounts, ro...), err
}

// changed reports whether something else has the name than was covered, and
// notes it.
func (c *cover) changed(name string) bool {
	id, ok := inodeOf(name)
	if !ok || c.over[name] == id {
		return false
	}
	c.over[name] = id
	return true
}
