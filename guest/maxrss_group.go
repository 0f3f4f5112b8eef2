//go:build unix && !linux && !darwin

package guest

import "syscall"

// maxRSS is in kilobytes on this system.
func maxRSS(u *syscall.Rusage) int64 { return int64(u.Maxrss) << 10 }
