package guest

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// OpenTree returns a copy of all mounts at and below an absolute path in which no
// component is a link, attached nowhere. What is open is what has the name now.
func OpenTree(name string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	tree, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return nil, &fs.PathError{Op: "open_tree", Path: name, Err: err}
	}
	return os.NewFile(uintptr(tree), name), nil
}

// IDMaps keeps the user namespaces through which trees are shown. The zero value
// is ready; it is safe for concurrent use.
type IDMaps struct {
	mu   sync.Mutex
	open map[[2]int]*os.File
}

// Show makes what root owns in a tree the user's, and what the user makes in it
// root's outside. Not every file system can.
func (m *IDMaps) Show(tree *os.File, uid, gid int) error {
	ns, err := m.namespace(uid, gid)
	if err != nil {
		return err
	}
	err = unix.MountSetattr(int(tree.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())})
	if err != nil {
		return &fs.PathError{Op: "map ids of", Path: tree.Name(), Err: err}
	}
	return nil
}

func (m *IDMaps) namespace(uid, gid int) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := [2]int{uid, gid}
	if f := m.open[key]; f != nil {
		return f, nil
	}
	f, err := rootAs(uid, gid)
	if err != nil {
		return nil, err
	}
	if m.open == nil {
		m.open = map[[2]int]*os.File{}
	}
	m.open[key] = f
	return f, nil
}

// Close lets go of the namespaces; trees that were shown stay as they are.
func (m *IDMaps) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.open {
		f.Close()
	}
	m.open = nil
}

// rootAs returns a user namespace in which this machine's root is the given
// user: a mount that is shown through it shows root's files as that user's. The
// others are who they are, where this machine lets that be said: what has an owner
// or a group nobody knows cannot be written, whatever its mode. The caller closes it.
func rootAs(uid, gid int) (*os.File, error) {
	f, err := mapped(rootAndOthers(uid), rootAndOthers(gid))
	if err != nil { // in a container not all of them are to be had
		f, err = mapped(rootAndOthers(uid)[:1], rootAndOthers(gid)[:1])
	}
	return f, err
}

// rootAndOthers maps 0 to an id, and all others to themselves.
func rootAndOthers(id int) []syscall.SysProcIDMap {
	const most = 1<<32 - 2 // the last one is no id
	all := []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}, {ContainerID: 1, HostID: 1, Size: id - 1}, {ContainerID: id + 1, HostID: id + 1, Size: most - id}}
	return slices.DeleteFunc(all, func(m syscall.SysProcIDMap) bool { return m.Size <= 0 })
}

// mapped returns a user namespace with those maps.
func mapped(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	proc, err := os.StartProcess("/proc/self/exe", []string{argv0, hold}, &os.ProcAttr{
		Dir: "/", Env: []string{marker + "=1"}, Files: []*os.File{r},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: uids,
			GidMappings: gids,
			Pdeathsig:   syscall.SIGKILL,
		},
	})
	r.Close()
	if err != nil {
		return nil, fmt.Errorf("guest: user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
	_ = proc.Kill()
	_, _ = proc.Wait()
	if err != nil {
		return nil, fmt.Errorf("guest: user namespace: %w", err)
	}
	return f, nil
}

// holdOne does nothing until the other end of its input closes.
func holdOne() int {
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	return 0
}
