package local

import (
	"encoding/binary"
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
	of := crowdsOf(names)
	lists := make([]map[string]bool, len(of.dirs)) // nil for those that do not tell
	for i, dir := range of.dirs {
		if list, ok := shortList(dir); ok {
			lists[i] = list
		}
	}
	for i, name := range names {
		is, known := listed(lists, of.within[i])
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

// crowds are the directories with many of some names in them.
type crowds struct {
	names  []string
	dirs   []string
	within [][]entry // by name: from the nearest to the outermost
}

// entry is what leads from one of the directories to a name.
type entry struct {
	dir  int
	base string
	last bool // it is the name
}

// crowd is what crowdsOf said last: the same policy denies the same.
var crowd struct {
	sync.Mutex
	last *crowds
}

func crowdsOf(names []string) *crowds {
	crowd.Lock()
	defer crowd.Unlock()
	if crowd.last != nil && slices.Equal(crowd.last.names, names) {
		return crowd.last
	}
	of := &crowds{names: slices.Clone(names), within: make([][]entry, len(names))}
	count := map[string]int{}
	for _, name := range names {
		count[filepath.Dir(name)]++
	}
	number := map[string]int{}
	for dir, n := range count {
		if n >= manyNames {
			number[dir] = len(of.dirs)
			of.dirs = append(of.dirs, dir)
		}
	}
	for i, name := range names {
		for at := name; len(at) > 1; at = filepath.Dir(at) {
			if dir, ok := number[filepath.Dir(at)]; ok {
				of.within[i] = append(of.within[i], entry{dir, filepath.Base(at), at == name})
			}
		}
	}
	crowd.last = of
	return of
}

// listed tells whether a name exists, by the lists of the directories above it,
// if they tell.
func listed(lists []map[string]bool, way []entry) (is, known bool) {
	for _, e := range way {
		if list := lists[e.dir]; list != nil && (e.last || !list[e.base]) {
			return list[e.base], true
		}
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
