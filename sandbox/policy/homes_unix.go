//go:build unix

package policy

import (
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Homes lists the homes that a script in a work dir could reach besides the one
// HOME names: that of the account, and, when the engine is root's, that of
// the work dir's owner, whom the script becomes.
func Homes(workdir string) (homes []string) {
	uids := []int{os.Getuid()}
	if info, err := os.Stat(workdir); err == nil && uids[0] == 0 {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			uids = append(uids, int(stat.Uid))
		}
	}
	for _, uid := range uids {
		if account, err := user.LookupId(strconv.Itoa(uid)); err == nil && account.HomeDir != "" && account.HomeDir != "/" {
			homes = appendNew(homes, account.HomeDir)
		}
	}
	return homes
}

// isOthers tells whether a file is another user's, and so not a script's to open
// up. A root engine's scripts are who the work dir belongs to.
func isOthers(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Geteuid() != 0 && int(stat.Uid) != os.Geteuid()
}
