package guest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// The orders of a session's socket, each the first byte of a packet.
const (
	orderCommand = 'c' // and a connection for one command
	orderFiles   = 'f' // and a connection to serve files on
	orderListen  = 'l' // and a name; answered with a listening socket
	orderMount   = 'm' // and a list of Mounts; answered with an empty one or an error

	orderTerminal = 'p' // answered with the two ends of a terminal of the box's
)

// A Confinement comes before any order, and may be preceded by one of just its
// foundation.
const (
	orderFoundation = '='
	orderConfine    = '!'
)

const (
	// socketName is that of the socket in the directory Listen names.
	socketName = "s"
	// maxRights bounds the descriptors of one packet; the kernel takes 253.
	maxRights = 250
)

// SetupError tells why a guest could not confine itself.
type SetupError struct {
	// Stage is the step that failed: "spawn" for the process itself, "ids",
	// "root", "proc", "landlock", …; StageIDMap is the engine's own.
	Stage string
	Errno syscall.Errno // 0 when it is no system call's
	Text  string
}

func (e *SetupError) Error() string { return e.Text }

func (e *SetupError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

// StageIDMap is showing what is root's as another user's.
const StageIDMap = "idmap"

// Unavailable reports whether the machine does not allow what the step needs,
// so that a confinement without namespaces may be had instead.
func (e *SetupError) Unavailable() bool {
	switch e.Stage {
	case "spawn", "ids", "private", "root", "proc", "dev", "private tmpfs", StageIDMap:
	default:
		return false
	}
	switch e.Errno {
	case syscall.EPERM, syscall.EACCES, syscall.ENOSYS, syscall.EINVAL, syscall.ENOSPC, syscall.EUSERS, syscall.EOPNOTSUPP:
		return true
	}
	return false
}

// Spawner starts session guests. They die with the thread that starts them, so
// it has one of its own, which lives until Close. The zero value is ready.
type Spawner struct{ spawner }

// ErrSpawner is returned by a Spawner that was closed.
var ErrSpawner = errors.New("guest: the spawner is closed")

// setupError reads what a guest reported.
func setupError(s Setup) error {
	if s.Error == "" {
		return nil
	}
	return &SetupError{Stage: s.Stage, Errno: syscall.Errno(s.Errno), Text: s.Error}
}

// spawnError is for a guest that could not be started at all.
func spawnError(err error) error {
	var errno syscall.Errno
	errors.As(err, &errno)
	return &SetupError{Stage: "spawn", Errno: errno, Text: fmt.Sprintf("new namespaces: %v", err)}
}

// commandFiles are a command's standard input, output and error.
type commandFiles = [3]*os.File
