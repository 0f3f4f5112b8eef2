//go:build unix

package guards

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrSymlink tells that a symbolic link stands where a guard needs a directory:
// what is behind it is not the workspace's, so the guard cannot hold.
var ErrSymlink = errors.New("a symbolic link is in the way of a guard")

// dirFlags open a directory itself: no link, and nothing that blocks.
const dirFlags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// node is what there is about an entry.
type node struct {
	identity
	mode     uint32
	uid, gid uint32
	nlink    uint64
}

func (n node) isDir() bool  { return n.mode&unix.S_IFMT == unix.S_IFDIR }
func (n node) isFile() bool { return n.mode&unix.S_IFMT == unix.S_IFREG }
func (n node) isLink() bool { return n.mode&unix.S_IFMT == unix.S_IFLNK }

// marked reports whether n is a directory as mkdir left it in reserve.
func (n node) marked() bool { return n.isDir() && n.mode&unix.S_ISVTX != 0 }

// tree opens directories below a root, one name at a time and never through a
// link, whatever is renamed meanwhile.
type tree struct {
	root int // not the tree's own
	dirs map[string]int
}

func newTree(root int) *tree { return &tree{root, map[string]int{}} }

func (t *tree) close() {
	for _, fd := range t.dirs {
		unix.Close(fd)
	}
	clear(t.dirs)
}

// dir returns a descriptor, valid until close, of a directory below the root.
func (t *tree) dir(name string) (int, error) {
	if name == "." {
		return t.root, nil
	}
	if fd, ok := t.dirs[name]; ok {
		return fd, nil
	}
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return -1, err
	}
	fd, err := openSearch(parent, path.Base(name))
	if err == unix.ENOTDIR || err == unix.ELOOP {
		if n, err := identify(parent, path.Base(name)); err == nil && n.isLink() {
			return -1, &fs.PathError{Op: "open", Path: name, Err: ErrSymlink}
		}
		err = unix.ENOTDIR
	}
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	t.dirs[name] = fd
	return fd, nil
}

// stat returns the entry name.
func (t *tree) stat(name string) (node, error) {
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return node{}, err
	}
	n, err := identify(parent, path.Base(name))
	if err != nil {
		err = &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return n, err
}

// untouched reports whether the reservation name is certainly as it was made.
func (t *tree) untouched(name string, f form) bool {
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return false
	}
	fd, err := unix.Openat(parent, path.Base(name), f.openFlags(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return f.untouched(fd)
}

// openRoot opens a workspace's root, which is a real path.
func openRoot(root string) (int, node, error) {
	fd, err := openReal(root)
	if err != nil {
		return -1, node{}, fmt.Errorf("open %s: %w", root, err)
	}
	n, err := identify(fd, "")
	if err != nil {
		unix.Close(fd)
		return -1, node{}, fmt.Errorf("stat %s: %w", root, err)
	}
	return fd, n, nil
}

// empty reports whether a directory, open for reading at its start, is empty.
func empty(fd int) (bool, error) {
	var buf [2048]byte
	for {
		n, err := unix.ReadDirent(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err == nil, err
		}
		if _, count, _ := unix.ParseDirent(buf[:n], 1, nil); count > 0 {
			return false, nil
		}
	}
}

// flock locks without waiting; false when somebody else's lock forbids it.
func flock(fd, how int) (bool, error) {
	err := unix.Flock(fd, how|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

// openSteps opens a directory below dir, or by an absolute path, for reading:
// one name at a time, where the kernel has no call that does it at once.
func openSteps(dir int, name string) (int, error) {
	at := dir
	if path.IsAbs(name) {
		fd, err := unix.Open("/", dirFlags, 0)
		if err != nil {
			return -1, err
		}
		at = fd
	}
	for step := range strings.SplitSeq(strings.Trim(name, "/"), "/") {
		if step == "" {
			step = "."
		}
		fd, err := unix.Openat(at, step, dirFlags, 0)
		if at != dir {
			unix.Close(at)
		}
		if err != nil {
			return -1, err
		}
		at = fd
	}
	return at, nil
}
