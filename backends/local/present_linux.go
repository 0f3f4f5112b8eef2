package local

import (
	"encoding/binary"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// manyNames are as many in one directory as are found sooner by reading it.
const manyNames = 24

// present are those of the absolute names that exist. Of what a policy denies
// most do not: where many are in one directory, and that is not large, it is read
// once instead of asked for each, and each below what is not in it.
func present(names []string) (found []string) {
	lists := map[string]map[string]bool{}
	for _, dir := range crowded(names) {
		if list, ok := shortList(dir); ok {
			lists[dir] = list
		}
	}
	for _, name := range names {
		is, known := listed(lists, name)
		if !known {
			var st unix.Stat_t
			err := unix.Lstat(name, &st)
			is = err != unix.ENOENT && err != unix.ENOTDIR // root may not look where its owner may
		}
		if is {
			found = append(found, name)
		}
	}
	return found
}

// crowd is what crowded said last: the same policy denies the same.
var crowd struct {
	sync.Mutex
	names, dirs []string
}

// crowded are the directories with many of the names in them.
func crowded(names []string) []string {
	crowd.Lock()
	defer crowd.Unlock()
	if slices.Equal(crowd.names, names) {
		return crowd.dirs
	}
	count := map[string]int{}
	for _, name := range names {
		count[filepath.Dir(name)]++
	}
	maps.DeleteFunc(count, func(_ string, n int) bool { return n < manyNames })
	crowd.names, crowd.dirs = slices.Clone(names), slices.Collect(maps.Keys(count))
	return crowd.dirs
}

// listed tells whether a name exists, by the lists of the directories above it,
// if they tell.
func listed(lists map[string]map[string]bool, name string) (is, known bool) {
	for at := name; len(at) > 1; {
		dir, base := filepath.Dir(at), filepath.Base(at)
		if list, ok := lists[dir]; ok && (at == name || !list[base]) {
			return list[base], true
		}
		at = dir
	}
	return false, false
}

// shortList are the names in a directory; it fails for one that cannot be read,
// or not at once, takes one name for another, or may have what it does not list,
// as those of snapshots and of automatic mounts have.
func shortList(dir string) (list map[string]bool, ok bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
	if !listsAll(fd) {
		return nil, false
	}
	const header = 19 // of struct linux_dirent64
	list = map[string]bool{}
	buf := make([]byte, 32<<10)
	for range 2 { // the second time there is nothing left
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, false
		}
		if n == 0 {
			return list, !foldsCase(fd, list)
		}
		for b := buf[:n]; len(b) > header; {
			size := int(binary.NativeEndian.Uint16(b[16:]))
			if size <= header || size > len(b) {
				return nil, false
			}
			list[unix.ByteSliceToString(b[header:size])] = true
			b = b[size:]
		}
	}
	return nil, false
}

// listsAll reports whether a directory is in a file system that lists every name
// it finds, and takes none for another.
func listsAll(dir int) bool {
	var in unix.Statfs_t
	if unix.Fstatfs(dir, &in) != nil {
		return false
	}
	switch uint32(in.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC:
	default:
		return false
	}
	const casefold = 0x4000_0000 // FS_CASEFOLD_FL
	flags, err := unix.IoctlGetUint32(dir, unix.FS_IOC_GETFLAGS)
	return (err == nil || err == unix.ENOTTY || err == unix.EOPNOTSUPP) && flags&casefold == 0
}

// foldsCase reports whether a directory finds a name of it that is spelled with
// other letters: a file system may do so as a whole.
func foldsCase(dir int, list map[string]bool) bool {
	other := func(name string) string {
		return strings.Map(func(r rune) rune {
			if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
				return r ^ 0x20
			}
			return r
		}, name)
	}
	tries := 3 // one may be removed just now
	for name := range list {
		swapped := other(name)
		if swapped == name || list[swapped] {
			continue
		}
		var st unix.Stat_t
		if unix.Fstatat(dir, swapped, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			return true
		}
		if tries--; tries == 0 {
			break
		}
	}
	return false
}
