package guest

// startMain makes the copy that becomes the command. The copy shares memory with
// its caller, which stands still meanwhile: to copy the tables of pages twice
// would take as long as everything else of a start. A negative pid is an errno.
//
//go:noescape
func startMain(l *launch, stack uintptr) (pid uintptr)
