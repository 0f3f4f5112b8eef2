//go:build unix

package serve

import (
	"io/fs"
	"syscall"
)

// inode is the number of a file on its file system.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}
