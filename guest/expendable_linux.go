package guest

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// expendable is what a guest, and all it starts, has as oom_score_adj: half of
// what memory there is counts as used by it.
const expendable = 500

// volunteer has the kernel end this process and what it will start before others
// of the machine or of the container when there is no memory left: first what
// runs scripts, then what has to report it (proc_pid_oom_score_adj(5)). It is to
// be called while the process is dumpable. Where it cannot be, nothing is lost
// but that order.
func volunteer() {
	fd, err := unix.Open("/proc/self/oom_score_adj", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var b [16]byte
	n, err := unix.Read(fd, b[:])
	if err != nil {
		return
	}
	if have, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil && have < expendable {
		_, _ = unix.Pwrite(fd, []byte(strconv.Itoa(expendable)), 0)
	}
}
