package guest

import "syscall"

// maxRSS is in bytes on this system.
func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss }
