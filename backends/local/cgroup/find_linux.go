package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Find looks which control groups this process may make. It takes about a
// tenth of a millisecond; the answer holds while the process stays in its
// group.
func Find() Host {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nothing("cannot tell: " + err.Error())
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nothing("the kernel has no control groups: " + err.Error())
	}
	return find(string(mounts), string(own), os.Geteuid())
}

func resources() []sandbox.Limit {
	return []sandbox.Limit{sandbox.LimitMemory, sandbox.LimitPIDs, sandbox.LimitCPU}
}

func nothing(why string) Host {
	h := Host{prefix: prefix(os.Geteuid())}
	for _, r := range resources() {
		h.Controls = append(h.Controls, Control{Resource: r, Why: why, Fix: "mount the control groups at /sys/fs/cgroup"})
	}
	return h
}

// hierarchy is one that is mounted.
type hierarchy struct {
	version int
	top     string // its mount point
	dir     string // the process's own group in it; "" when that is not to be seen
}

// find is Find on the text of /proc/self/mountinfo and /proc/self/cgroup.
func find(mounts, groups string, uid int) Host {
	v1, unified := hierarchies(mounts, groups)
	h := Host{prefix: prefix(uid)}
	var limits, stop string // of version 2: where limits can be had, else where it ended
	if unified != nil {
		h.Unified, limits, stop = delegated(*unified)
		h.tops = append(h.tops, unified.top)
	}
	if f, ok := v1["freezer"]; ok {
		h.tops = append(h.tops, f.top)
		if f.dir != "" && writable(f.dir, "tasks") == nil {
			h.freezer = f.dir
		}
	}
	for _, r := range resources() {
		c := Control{Resource: r}
		old, ok := v1[string(r)]
		if ok && !slices.Contains(h.tops, old.top) {
			h.tops = append(h.tops, old.top)
		}
		switch {
		case ok:
			c.old(old, uid)
		case unified == nil:
			c.Why = "no cgroup hierarchy with the " + string(r) + " controller is mounted"
			c.Fix = "mount the cgroup file systems at /sys/fs/cgroup"
		default:
			c.unified(*unified, limits, stop, uid)
		}
		h.Controls = append(h.Controls, c)
	}
	return h
}

// old decides for a controller that version 1 has.
func (c *Control) old(own hierarchy, uid int) {
	if own.dir == "" {
		c.Why = "this process's own group is not below " + own.top
		c.Fix = "mount the cgroup file systems of the host"
		return
	}
	err := writable(own.dir, "tasks")
	switch {
	case err == nil:
		c.Version, c.Dir = 1, own.dir
	case errors.Is(err, syscall.EROFS):
		c.readOnly(own.dir)
	default:
		c.Why = fmt.Sprintf("cgroup v1: uid %d may not make groups in %s", uid, own.dir)
		c.Fix = "run as root, or on a host that boots with cgroup v2 (systemd.unified_cgroup_hierarchy=1), where systemd can delegate"
	}
}

// unified decides for a controller that is not in version 1.
func (c *Control) unified(own hierarchy, limits, stop string, uid int) {
	name := string(c.Resource)
	if limits != "" && slices.Contains(words(limits, "cgroup.subtree_control"), name) {
		c.Version, c.Dir = 2, limits
		return
	}
	// The top has what the kernel has; its own group has what reaches it.
	reaches := own.dir != "" && slices.Contains(words(own.dir, "cgroup.controllers"), name)
	switch {
	case !slices.Contains(words(own.top, "cgroup.controllers"), name):
		c.Why = fmt.Sprintf("cgroup v2 at %s has no %s controller", own.top, name)
		c.Fix = "boot without cgroup_disable=" + name + " (for memory some systems need cgroup_enable=memory)"
	case own.dir == "":
		c.Why = "this process's own group is not below " + own.top
		c.Fix = "mount the cgroup file system of the host"
	case errors.Is(writable(own.dir, "cgroup.procs"), syscall.EROFS):
		c.readOnly(own.dir)
	case stop == "":
		c.Why = fmt.Sprintf("cgroup v2: uid %d may not make groups in %s: it is not delegated", uid, own.dir)
		c.Fix = "systemd-run --user --scope -p Delegate=yes hermes-exec …"
	case uid != 0 && !reaches:
		c.Why = fmt.Sprintf("cgroup v2: the %s controller is not delegated to uid %d (%s)", name, uid, stop)
		c.Fix = "as root: systemctl edit user@.service, [Service] Delegate=cpu cpuset io memory pids; then log in again"
	default:
		c.Why = fmt.Sprintf("cgroup v2: %s does not hand on the %s controller", stop, name)
		c.Fix = fmt.Sprintf("echo +%s > %s/cgroup.subtree_control, which takes a group without processes of its own", name, stop)
	}
}

func (c *Control) readOnly(dir string) {
	c.Why = dir + " is mounted read-only"
	c.Fix = "in a container, mount /sys/fs/cgroup writable, or limit the container itself"
}

// delegated finds, from the process's own group upwards, the nearest in which
// it may make groups and, of those, the nearest that hands on the most of the
// controllers wanted. top is the uppermost it may make groups in. Processes may
// be moved between groups below the nearest common one only by who may write
// its cgroup.procs, so a group that may not be written is not passed.
func delegated(own hierarchy) (nearest, limits, top string) {
	if own.dir == "" {
		return "", "", ""
	}
	most := 0
	for dir := own.dir; writable(dir, "cgroup.procs") == nil; dir = filepath.Dir(dir) {
		if nearest == "" {
			nearest = dir
		}
		top = dir
		handed := words(dir, "cgroup.subtree_control")
		n := 0
		for _, r := range resources() {
			if slices.Contains(handed, string(r)) {
				n++
			}
		}
		if n > most {
			most, limits = n, dir
		}
		if dir == own.top {
			break
		}
	}
	return nearest, limits, top
}

// writable tells whether groups can be made in a directory and entered through
// a file there.
func writable(dir, file string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return err
	}
	return unix.Faccessat(unix.AT_FDCWD, filepath.Join(dir, file), unix.W_OK, unix.AT_EACCESS)
}

func words(dir, file string) []string {
	b, _ := os.ReadFile(filepath.Join(dir, file))
	return strings.Fields(string(b))
}

// hierarchies joins what is mounted with the groups this process is in.
func hierarchies(mounts, groups string) (v1 map[string]hierarchy, unified *hierarchy) {
	own := map[string]string{} // controller to group; "" for version 2
	for line := range strings.Lines(groups) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for controller := range strings.SplitSeq(parts[1], ",") {
			own[controller] = parts[2]
		}
	}
	v1 = map[string]hierarchy{}
	for line := range strings.Lines(mounts) {
		before, after, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(kind) < 3 {
			continue
		}
		root, top := unescape(fields[3]), unescape(fields[4])
		switch kind[0] {
		case "cgroup2":
			if unified == nil { // the first is where it belongs
				unified = &hierarchy{2, top, below(top, root, own, "")}
			}
		case "cgroup":
			for option := range strings.SplitSeq(kind[2], ",") {
				if _, seen := v1[option]; !seen {
					v1[option] = hierarchy{1, top, below(top, root, own, option)}
				}
			}
		}
	}
	return v1, unified
}

// below is the directory of the process's group, when a mount that shows a
// hierarchy from root on has it.
func below(top, root string, own map[string]string, controller string) string {
	group, ok := own[controller]
	if !ok || !sandbox.Covers(root, group) {
		return ""
	}
	return filepath.Join(top, strings.TrimPrefix(group, root))
}

// unescape undoes what mountinfo does to blanks and backslashes.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
