package guest

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// What a box has of its own: /dev, /proc, and one private file system.

// devices are those a program may count on.
var devices = [...]string{"null", "zero", "full", "random", "urandom", "tty"}

// tmpfs makes a file system nobody has mounted yet.
func tmpfs(options ...string) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return -1, fmt.Errorf("%s: %w", o, err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, nosuid|nodev)
}

// makeDev makes /dev: what a program may count on, and the two empty nodes
// that hide others. It can be changed by nobody.
func (r *root) makeDev() error {
	dev, err := r.keep(tmpfs("mode=0755", "size=1m", "nr_inodes=256"))
	if err != nil {
		return err
	}
	r.dev, r.done = dev, append(r.done, dev)
	for _, dir := range [...]string{"pts", "shm", ".hidden"} {
		if err := unix.Mkdirat(dev, dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Fchmodat(dev, ".hidden", 0, 0); err != nil {
		return err
	}
	files := append([]string{".hidden-file"}, devices[:]...)
	for _, name := range files {
		fd, err := unix.Openat(dev, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
		if err != nil {
			return err
		}
		if name == ".hidden-file" {
			err = unix.Fchmod(fd, 0)
		}
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := unix.Symlinkat(target, dev, name); err != nil {
			return err
		}
	}
	if err := r.over(dev, "dev"); err != nil {
		return err
	}
	for _, name := range devices {
		tree, err := unix.OpenTree(unix.AT_FDCWD, "/dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = r.over(tree, "dev/"+name)
		unix.Close(tree)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := r.makePts(); err != nil {
		return fmt.Errorf("pts: %w", err)
	}
	return nil
}

func (r *root) makePts() error {
	fs, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	for _, o := range [...][2]string{{"ptmxmode", "0666"}, {"mode", "0620"}} {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, nosuid)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return r.over(tree, "dev/pts")
}

// makePrivate makes the one file system of /run, /tmp, /var/tmp, /dev/shm and
// scratch, so that one size bounds them all.
func (r *root) makePrivate(c *Confinement) error {
	options := []string{"mode=0755"}
	if c.Size > 0 {
		// Files without content cost memory as well, a kilobyte each.
		options = append(options, "size="+strconv.FormatInt(c.Size, 10), "nr_inodes="+strconv.FormatInt(max(4096, c.Size>>14), 10))
	}
	private, err := r.keep(tmpfs(options...))
	if err != nil {
		return err
	}
	for _, d := range [...]struct {
		name string
		mode uint32
	}{{".tmp", 0o1777}, {".vartmp", 0o1777}, {".shm", 0o1777}, {strings.TrimPrefix(c.Scratch, "/run/"), 0o700}} {
		if err := unix.Mkdirat(private, d.name, d.mode); err != nil {
			return err
		}
		if err := unix.Fchmodat(private, d.name, d.mode, 0); err != nil { // whatever the umask
			return err
		}
	}
	if err := r.over(private, "run"); err != nil {
		return err
	}
	for _, p := range [...][2]string{{".tmp", "tmp"}, {".vartmp", "var/tmp"}, {".shm", "dev/shm"}} {
		tree, err := unix.OpenTree(private, p[0], unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return fmt.Errorf("%s: %w", p[1], err)
		}
		err = r.over(tree, p[1])
		unix.Close(tree)
		if err != nil && !(p[1] == "var/tmp" && missing(err)) {
			return fmt.Errorf("%s: %w", p[1], err)
		}
	}
	return nil
}

// makeProc mounts the pid namespace's own /proc, read-only: nothing in it is
// for the box to change.
func (r *root) makeProc() error {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return err
	}
	tree, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, rdonly|nosuid|nodev|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	return r.over(tree, "proc")
}

// file covers a file with one of the box's own. That is made in /dev, which is
// attached: only since Linux 6.15 can a part of a tree that is not be cloned.
func (r *root) file(m Mount) error {
	target, err := r.place(m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	r.made++
	name := ".file-" + strconv.Itoa(r.made)
	fd, err := unix.Openat(r.dev, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err != nil {
		return err
	}
	n, err := unix.Write(fd, []byte(m.Text))
	unix.Close(fd)
	if err == nil && n < len(m.Text) {
		err = unix.ENOSPC
	}
	if err != nil {
		return err
	}
	tree, err := unix.OpenTree(r.fd, "dev/"+name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := restrict(tree, rdonly|nosuid|nodev|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return attach(tree, target)
}

// dir covers a directory with an empty one, in which target makes what later
// mounts need.
func (r *root) dir(m Mount) error {
	target, err := r.place(m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	tree, err := r.keep(tmpfs("mode=0755", "size=64k", "nr_inodes=1024"))
	if err != nil {
		return err
	}
	r.done = append(r.done, tree)
	return attach(tree, target)
}
