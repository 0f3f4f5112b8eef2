//go:build unix

package guards

import "golang.org/x/sys/unix"

// Directories are those in a workspace's root, by name, with their inodes' numbers.
type Directories map[string]uint64

// maxBefore bounds the names that are looked at for Directories.
const maxBefore = 512

// ReadDirectories returns the directories of root, a real path; nil if there are too
// many names or they cannot be read.
func ReadDirectories(root string) Directories {
	at, err := openReal(root)
	if err != nil {
		return nil
	}
	fd, err := openBeneath(at, ".")
	unix.Close(at)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	dirs, seen := Directories{}, 0
	err = entries(fd, make([]byte, 8<<10), func(name []byte, kind entryKind) bool {
		if seen++; kind == entryDir || kind == entryUnknown {
			var st unix.Stat_t
			if unix.Fstatat(fd, string(name), &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
				dirs[string(name)] = st.Ino
			}
		}
		return seen <= maxBefore
	})
	if err != nil || seen > maxBefore {
		return nil
	}
	return dirs
}

// has reports whether a directory, open as fd, had its name before. While it did,
// nothing else had its number.
func (d Directories) has(name string, fd int) bool {
	ino, ok := d[name]
	var st unix.Stat_t
	return ok && unix.Fstat(fd, &st) == nil && st.Ino == ino
}
