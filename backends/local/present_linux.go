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
			is = unix.Lstat(name, &st) == nil
		}
		if is {
			found = append(found, name)
		}
	}
	return found
}

// crowd is what crowded said last: the same policy denies the same, and to group
// what it does takes as long as to look.
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
// or not at once, or takes one name for another.
func shortList(dir string) (list map[string]bool, ok bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	defer unix.Close(fd)
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

// foldsCase reports whether a directory finds a name that is not in it as it is
// spelled: then a list does not tell what there is.
func foldsCase(dir int, list map[string]bool) bool {
	for name := range list {
		other := strings.ToUpper(name)
		if other == name {
			other = strings.ToLower(name)
		}
		if !list[other] {
			var st unix.Stat_t
			return unix.Fstatat(dir, other, &st, unix.AT_SYMLINK_NOFOLLOW) == nil
		}
	}
	return false
}
