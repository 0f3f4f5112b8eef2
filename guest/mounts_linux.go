package guest

import (
	"errors"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// stageError says at which step the guest's setup failed.
type stageError struct {
	stage string
	err   error
}

func (e *stageError) Error() string { return e.stage + ": " + e.err.Error() }
func (e *stageError) Unwrap() error { return e.err }

func at(stage string, err error) error {
	if err == nil {
		return nil
	}
	return &stageError{stage, err}
}

// root builds the tree of mounts the box will see. Everything is done by
// descriptors: a name is looked up once, and what was found is what is mounted.
type root struct {
	fd    int // the new root, O_PATH
	trees []int
	rest  []int // descriptors to close at the end
	done  []int // mounts to make read-only when all is in place
	dev   int   // the file system of /dev, which is also where covers come from
	made  int   // files in it
}

const (
	nosuid = unix.MOUNT_ATTR_NOSUID
	nodev  = unix.MOUNT_ATTR_NODEV
	rdonly = unix.MOUNT_ATTR_RDONLY
)

// newRoot makes what every tree of a kind has: its base and what a box has of
// its own. It is attached over /proc; the rest of this machine is still there.
func newRoot(c *Confinement) (r *root, err error) {
	r = &root{fd: -1}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, at("private", err)
	}
	if err := r.makeBase(c); err != nil {
		return nil, at("root", err)
	}
	if err := r.makeDev(); err != nil {
		return nil, at("dev", err)
	}
	if err := r.makePrivate(c); err != nil {
		return nil, at("private tmpfs", err)
	}
	if err := r.makeProc(); err != nil {
		return nil, at("proc", err)
	}
	return r, nil
}

// build makes the mounts c asks for and moves into the tree. trees are what the
// engine opened. What was the root is out of reach of every path, but not let
// go of before leave.
func (r *root) build(c *Confinement, trees []int) error {
	defer r.close()
	r.trees = trees
	// What is opened here is this machine's, before anything of the box's
	// covers it.
	binds := make([]int, len(c.Mounts))
	for i, m := range c.Mounts {
		binds[i] = -1
		if m.Kind != MountBind {
			continue
		}
		fd, err := r.source(m)
		if err != nil {
			if m.Optional && missing(err) {
				continue
			}
			return at("open "+m.Source, err)
		}
		binds[i] = fd
	}
	for _, l := range c.Links {
		if err := r.link(l); err != nil {
			return at("link "+l.Path, err)
		}
	}
	for i, m := range c.Mounts {
		if err := r.mount(m, binds[i]); err != nil {
			return err
		}
	}
	if !c.Base { // else it is read-only from the start
		r.done = append(r.done, r.fd)
	}
	for _, fd := range r.done {
		if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: rdonly}); err != nil {
			return at("read-only", err)
		}
	}
	return at("pivot", r.enter())
}

// amend makes mounts in the tree this process is in already.
func amend(mounts []Mount) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return at("root", err)
	}
	r := &root{fd: fd}
	defer r.close()
	for _, m := range mounts {
		if err := r.mount(m, -1); err != nil {
			return err
		}
	}
	return nil
}

// mount makes one of a Confinement's Mounts; tree is a bind's, or -1 if what it
// is of is missing.
func (r *root) mount(m Mount, tree int) error {
	var err error
	switch m.Kind {
	case MountBind:
		if tree < 0 {
			return nil
		}
		err = r.bind(tree, m)
	case MountSelf:
		err = r.self(m)
	case MountHide:
		err = r.hide(m)
	case MountFile:
		err = r.file(m)
	case MountDir:
		err = r.dir(m)
	default:
		err = unix.EINVAL
	}
	if err != nil && !(m.Optional && missing(err)) {
		return at(string(m.Kind)+" "+m.Target, err)
	}
	return nil
}

func missing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EACCES)
}

func (r *root) close() {
	for _, fd := range r.rest {
		unix.Close(fd)
	}
	if r.fd >= 0 {
		unix.Close(r.fd)
	}
}

// keep closes fd with the root.
func (r *root) keep(fd int, err error) (int, error) {
	if err == nil {
		r.rest = append(r.rest, fd)
	}
	return fd, err
}

// source opens what a bind is of. Its path is a real one: a link in it was put there
// since, by who may write what is above.
func (r *root) source(m Mount) (int, error) {
	if m.Tree > 0 {
		if m.Tree > len(r.trees) {
			return -1, unix.EBADF
		}
		return r.trees[m.Tree-1], nil
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return r.keep(unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE))
}

// restrict adds attributes to a tree of mounts.
func restrict(fd int, attr uint64) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr})
}

func attach(tree, target int) error {
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// makeBase attaches the new root where it hides nothing that is still needed.
func (r *root) makeBase(c *Confinement) (err error) {
	var tree int
	if c.Base {
		tree, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err == nil {
			err = restrict(tree, rdonly|nosuid)
		}
	} else {
		if tree, err = tmpfs("mode=0755", "size=1m", "nr_inodes=4096"); err == nil {
			for _, dir := range [...]string{"dev", "proc", "tmp", "run", "var", "var/tmp"} {
				if err = unix.Mkdirat(tree, dir, 0o755); err != nil {
					break
				}
			}
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	place, err := unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(place)
	if err := attach(tree, place); err != nil {
		return err
	}
	r.fd, err = unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return err
}

// system opens a directory every system has; there it may be a link.
func (r *root) system(name string) (int, error) {
	return unix.Openat2(r.fd, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
}

// place opens a path of the box, in which no component may be a link.
func (r *root) place(name string) (int, error) {
	return unix.Openat2(r.fd, relative(name), &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	})
}

func relative(name string) string {
	if name = strings.TrimPrefix(path.Clean(name), "/"); name == "" {
		return "."
	}
	return name
}

// over attaches a tree at a place of every system.
func (r *root) over(tree int, name string) error {
	target, err := r.system(name)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return attach(tree, target)
}

// bind attaches a tree of this machine's.
func (r *root) bind(tree int, m Mount) error {
	attr := uint64(nosuid | nodev)
	if !m.Write {
		attr |= rdonly
	}
	if err := restrict(tree, attr); err != nil {
		return err
	}
	target, err := r.target(tree, m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	return attach(tree, target)
}

// target opens the place a tree goes to and, in the file systems that are the
// box's own, makes it first.
func (r *root) target(tree int, name string) (int, error) {
	fd, err := r.place(name)
	if err != unix.ENOENT {
		return fd, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(tree, &st); err != nil {
		return -1, err
	}
	dir, err := r.place(path.Dir(name))
	if err == unix.ENOENT {
		dir, err = r.makeDirs(path.Dir(name))
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = unix.Mkdirat(dir, path.Base(name), 0o755)
	} else {
		var file int
		if file, err = unix.Openat(dir, path.Base(name), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o444); err == nil {
			unix.Close(file)
		}
	}
	if err != nil {
		return -1, err
	}
	return r.place(name)
}

func (r *root) makeDirs(name string) (int, error) {
	if name == "/" || name == "." {
		return r.place("/")
	}
	parent, err := r.place(path.Dir(name))
	if err == unix.ENOENT {
		parent, err = r.makeDirs(path.Dir(name))
	}
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)
	if err := unix.Mkdirat(parent, path.Base(name), 0o755); err != nil {
		return -1, err
	}
	return r.place(name)
}

// self makes Target a mount of its own: whatever becomes of the names above
// it, it stays where it is.
func (r *root) self(m Mount) error {
	target, err := r.place(m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	tree, err := unix.OpenTree(target, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if !m.Write {
		if err := restrict(tree, rdonly); err != nil {
			return err
		}
	}
	return attach(tree, target)
}

// hide covers Target with something empty that nobody can open.
func (r *root) hide(m Mount) error {
	target, err := r.place(m.Target)
	if err != nil {
		return err
	}
	defer unix.Close(target)
	var st unix.Stat_t
	if err := unix.Fstat(target, &st); err != nil {
		return err
	}
	empty := "dev/.hidden-file"
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		empty = "dev/.hidden"
	}
	tree, err := unix.OpenTree(r.fd, empty, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := restrict(tree, rdonly|nosuid|nodev|unix.MOUNT_ATTR_NOEXEC); err != nil {
		return err
	}
	return attach(tree, target)
}

// link makes a symbolic link in an empty root.
func (r *root) link(l Link) error {
	dir, err := r.place(path.Dir(l.Path))
	if err == unix.ENOENT {
		dir, err = r.makeDirs(path.Dir(l.Path))
	}
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return unix.Symlinkat(l.Target, dir, path.Base(l.Path))
}

// enter makes the new root the root, with the old one mounted over it: paths do
// not lead there, as they begin below.
func (r *root) enter() error {
	if err := unix.Fchdir(r.fd); err != nil {
		return err
	}
	return unix.PivotRoot(".", ".")
}

// leave lets go of the old root, which takes its time.
func (r *root) leave() error {
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Chdir("/")
}
