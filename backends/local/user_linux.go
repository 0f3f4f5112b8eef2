package local

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// boxUser is who everything in a box is.
type boxUser struct {
	uid, gid int
	// foreign says that it is not the engine's own user, which is root then.
	foreign bool
	maps    *guest.IDMaps
}

// userOf decides who a box is: an ordinary user himself; for root never root,
// but the owner of the work directory, else a user of the boxes' own.
func (b *Backend) userOf(workDir string) (boxUser, error) {
	own := boxUser{uid: os.Getuid(), gid: os.Getgid()}
	if os.Geteuid() != 0 {
		return own, nil
	}
	uids, err := uidMap()
	if err == nil && !mapped(uids, own.uid) {
		err = fmt.Errorf("/proc/self/uid_map does not have user %d", own.uid)
	}
	if err != nil {
		return boxUser{}, fmt.Errorf("who root is here: %w", err)
	}
	other, ok := otherUser(uids)
	if !ok {
		return own, nil
	}
	st, err := os.Stat(workDir)
	if err != nil {
		return boxUser{}, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	u := boxUser{uid: int(sys.Uid), foreign: true, maps: &b.host.maps}
	if u.uid == 0 {
		u.uid, u.gid = other, other
		return u, nil
	}
	if !mapped(uids, u.uid) {
		return boxUser{}, fmt.Errorf("%s belongs to a user this user namespace does not know: %w", workDir, sandbox.ErrPolicy)
	}
	u.gid = groupOf(u.uid, int(sys.Gid))
	return u, nil
}

// uidMap is that of this process's user namespace, which does not change once it
// is written. Without it nobody could tell whether root here is root.
func uidMap() ([]byte, error) {
	if known := uids.Load(); known != nil {
		return *known, nil
	}
	text, err := os.ReadFile("/proc/self/uid_map")
	if err == nil && len(text) == 0 {
		err = errors.New("/proc/self/uid_map is empty: this process has no user yet")
	}
	if err != nil {
		return nil, err
	}
	uids.Store(&text)
	return text, nil
}

var uids atomic.Pointer[[]byte]

// otherUser is the boxes' own user where this process's user namespace has it,
// else the last ordinary one it has. With none but root that root is somebody
// else outside, who stays himself.
func otherUser(uidMap []byte) (uid int, ok bool) {
	if mapped(uidMap, BoxUID) {
		return BoxUID, true
	}
	for first, end := range extents(uidMap) {
		if last := min(end-1, 65533); last >= first && last > uid { // 65534 stands for who has no number
			uid, ok = last, true
		}
	}
	return uid, ok
}

// mapped reports whether a user namespace has a user, by its uid_map.
func mapped(uidMap []byte, uid int) bool {
	for first, end := range extents(uidMap) {
		if uid >= first && uid < end {
			return true
		}
	}
	return false
}

// extents are the ranges of users of a uid_map.
func extents(uidMap []byte) iter.Seq2[int, int] {
	return func(yield func(first, end int) bool) {
		for line := range strings.Lines(string(uidMap)) {
			var first, outside, count int
			if n, _ := fmt.Sscan(line, &first, &outside, &count); n == 3 && !yield(first, first+count) {
				return
			}
		}
	}
}

// groupOf decides the group of a user's boxes in a directory that has a group:
// that one if the user is in it, else his own. A directory's group may be one
// that gives rights its owner does not have.
func groupOf(uid, gid int) int {
	if gid == uid {
		return gid
	}
	who, err := user.LookupId(strconv.Itoa(uid))
	if err != nil {
		return uid
	}
	if groups, err := who.GroupIds(); err == nil && gid != 0 && slices.Contains(groups, strconv.Itoa(gid)) {
		return gid
	}
	if own, err := strconv.Atoi(who.Gid); err == nil && own != 0 {
		return own
	}
	return uid
}

func owner(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// connects tells whether the user may connect to a socket, which takes what writing
// a file does and the way there.
func (u boxUser) connects(socket string) bool {
	if !u.foreign {
		return unix.Access(socket, unix.W_OK) == nil
	}
	var st unix.Stat_t
	if unix.Lstat(socket, &st) != nil {
		return false
	}
	bit := uint32(0o002)
	switch {
	case int(st.Uid) == u.uid:
		bit = 0o200
	case int(st.Gid) == u.gid:
		bit = 0o020
	}
	if st.Mode&bit == 0 {
		return false
	}
	for dir := filepath.Dir(socket); dir != "/"; dir = filepath.Dir(dir) {
		if !u.enters(dir, false) {
			return false
		}
	}
	return true
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
// makes in a directory of the box's user is that user's. The way is gone by
// descriptors and through no link: the user may own a part of it.
func makePrivate(name string, u boxUser) error {
	dir, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for comp := range strings.SplitSeq(strings.Trim(filepath.Clean(name), "/"), "/") {
		if err != nil {
			break
		}
		var next int
		next, err = u.enterOrMake(dir, comp)
		unix.Close(dir)
		dir = next
	}
	if err != nil {
		return fmt.Errorf("private directory: %w", &fs.PathError{Op: "mkdir", Path: name, Err: err})
	}
	return unix.Close(dir)
}

// enterOrMake opens a directory in dir, and makes it when it is missing.
func (u boxUser) enterOrMake(dir int, name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(dir, name, flags, 0)
	if err != unix.ENOENT {
		return fd, err
	}
	if err := unix.Mkdirat(dir, name, 0o700); err != nil && err != unix.EEXIST {
		return -1, err
	}
	if fd, err = unix.Openat(dir, name, flags, 0); err != nil || !u.foreign {
		return fd, err
	}
	var in, made unix.Stat_t
	if err = errors.Join(unix.Fstat(dir, &in), unix.Fstat(fd, &made)); err == nil && int(in.Uid) == u.uid && made.Uid == 0 {
		err = unix.Fchownat(fd, "", u.uid, u.gid, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
