package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
)

// BoxUID is the user, and the group, of boxes that an engine run by root makes
// in a directory of root's. It is above what systemd and container engines
// give away and belongs to nobody.
const BoxUID = 1_900_000_000

// boxUser is who everything in a box is.
type boxUser struct {
	uid, gid int
	// foreign says that it is not the engine's own user, which is root then.
	foreign bool
	maps    *idMaps
}

// userOf decides who a box is: an ordinary user himself; for root never root,
// but the owner of the work directory, else a user of the boxes' own.
func (b *Backend) userOf(workDir string) (boxUser, error) {
	if os.Geteuid() != 0 {
		return boxUser{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	st, err := os.Stat(workDir)
	if err != nil {
		return boxUser{}, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	u := boxUser{uid: int(sys.Uid), gid: int(sys.Gid), foreign: true, maps: &b.host.maps}
	if u.uid == 0 {
		u.uid = BoxUID
	}
	if u.gid == 0 {
		u.gid = u.uid
	}
	return u, nil
}

func owner(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// mapTree makes what root owns in a tree of mounts the box user's.
func (u boxUser) mapTree(tree *os.File) error {
	ns, err := u.maps.get(u.uid, u.gid)
	if err != nil {
		return err
	}
	return unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
}

// idMaps keeps the user namespaces whose maps mounts are shown through.
type idMaps struct {
	mu   sync.Mutex
	open map[[2]int]*os.File
}

func (m *idMaps) get(uid, gid int) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]int{uid, gid}
	if f := m.open[key]; f != nil {
		return f, nil
	}
	f, err := guest.RootAs(uid, gid)
	if err != nil {
		return nil, err
	}
	if m.open == nil {
		m.open = map[[2]int]*os.File{}
	}
	m.open[key] = f
	return f, nil
}

func (m *idMaps) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.open {
		f.Close()
	}
	m.open = nil
}

// openTree returns a copy of all mounts at and below a path, attached nowhere.
func openTree(name string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(tree), name), nil
}

// enters tells whether the mode of a directory lets the user pass through it;
// mapped, what root owns is shown as his, and what he owns as nobody's.
func (u boxUser) enters(dir string, mapped bool) bool {
	st, err := os.Stat(dir)
	if err != nil {
		return false
	}
	sys, bit := st.Sys().(*syscall.Stat_t), os.FileMode(0o001)
	uid, gid := u.uid, u.gid
	if mapped {
		uid, gid = 0, 0
	}
	switch {
	case int(sys.Uid) == uid:
		bit = 0o100
	case int(sys.Gid) == gid:
		bit = 0o010
	}
	return st.Mode().Perm()&bit != 0
}

// makePrivate makes a directory of the box's own, with its parents. What root
// makes in a directory of the box's user is that user's.
func makePrivate(name string, u boxUser) error {
	var missing []string
	for dir := name; ; dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	for _, dir := range slices.Backward(missing) {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("private directory: %w", err)
		}
		parent, err := os.Stat(filepath.Dir(dir))
		if err == nil && u.foreign && int(owner(parent)) == u.uid {
			err = os.Lchown(dir, u.uid, u.gid)
		}
		if err != nil {
			return fmt.Errorf("private directory: %w", err)
		}
	}
	st, err := os.Stat(name)
	if err == nil && !st.IsDir() {
		err = &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return fmt.Errorf("private directory: %w", err)
	}
	return nil
}
