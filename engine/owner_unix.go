//go:build unix

package engine

import (
	"io/fs"
	"syscall"
)

// ownedBy tells whether a file is known to be a user's.
func ownedBy(info fs.FileInfo, uid int) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int64(st.Uid) == int64(uid)
}
