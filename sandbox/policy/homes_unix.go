//go:build unix

package policy

import (
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
