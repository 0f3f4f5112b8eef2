package local

import (
	"encoding/binary"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// manyNames are as many in one directory as are found sooner by reading it.
const manyNames = 24

// present are those of the absolute names that exist. Of what a policy denies
// most do not: where many are in one directory, and that is not large, it is read
// once instead of asked for each, and each below what is not in it.
func present(names []string) (found []string) {
	dirs := map[string]int{}
	for _, name := range names {
		dirs[filepath.Dir(name)]++
	}
	lists := map[string]map[string]bool{}
	for dir, n := range dirs {
		if n >= manyNames {
			if list, ok := shortList(dir); ok {
				lists[dir] = list
			}
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
