package local

import (
	"encoding/binary"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// manyNames are as many in one directory as are found sooner by reading it.
const manyNames = 24

// present are those of the absolute names that exist. Of what a policy denies
// most do not: where many are in one directory, and that is not large, it is read
// once instead of asked for each.
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
		if list, ok := lists[filepath.Dir(name)]; ok {
			if list[filepath.Base(name)] {
				found = append(found, name)
			}
			continue
		}
		var st unix.Stat_t
		if unix.Lstat(name, &st) == nil {
			found = append(found, name)
		}
	}
	return found
}

// shortList are the names in a directory; it fails for one that cannot be read,
// or not at once.
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
			return list, true
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
