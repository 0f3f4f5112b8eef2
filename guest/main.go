package guest

import "os"

const (
	argv0     = "hermes-exec-guest"
	supervise = "supervise"
	confine   = "confine"
	hold      = "hold"
	// marker is set in a guest's own environment, never in a command's.
	marker = "HERMES_EXEC_GUEST"
)

// Main turns the process into a guest if it was started as one, and then never
// returns; otherwise it returns at once. Every program that uses a backend
// built on guest calls it as the first statement of main, and of TestMain.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != argv0 || os.Getenv(marker) == "" {
		return
	}
	switch os.Args[1] {
	case supervise:
		os.Exit(superviseOne())
	case confine:
		os.Exit(confineOne())
	case hold:
		os.Exit(holdOne())
	}
	os.Stderr.WriteString(argv0 + ": unknown part " + os.Args[1] + "\n")
	os.Exit(2)
}

// Inside reports whether this process was started to be a guest and its main
// did not call Main. A backend must not start anything in such a process: it
// would start itself over and over.
func Inside() bool { return os.Getenv(marker) != "" }
