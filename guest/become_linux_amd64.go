//go:build !race

package guest

// The copies share memory with the guest: to copy the tables of its pages, twice,
// and to fault on each page afterwards, would take longer than everything else of
// a start. Each has a stack of its own. Not under the race detector, which looks
// at what assembly calls, and is a library's with one state a thread.

// startReaper makes a reaper in the namespaces the flags ask for. A negative pid
// is an errno.
//
//go:noescape
func startReaper(l *launch, flags, stack uintptr) (pid uintptr)

// startMain makes the copy that becomes the command. Its caller stands still until
// it has executed its program, or ended. A negative pid is an errno.
//
//go:noescape
func startMain(l *launch, stack uintptr) (pid uintptr)
