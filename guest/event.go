package guest

import (
	"errors"
	"syscall"
	"time"
)

var (
	// ErrNoGuest means that the program that was re-executed is no guest.
	ErrNoGuest = errors.New("the re-executed program did not become a guest: its main must call guest.Main() first")
	// ErrGone means that the guest died before it ran the command.
	ErrGone = errors.New("the guest is gone")
)

// StartError tells that a command could not be run.
type StartError struct {
	// Stage is what failed: "guest" itself, to enter the "dir", to find the
	// "program" or its "interpreter", or to "exec" it.
	Stage string
	Errno syscall.Errno
}

func (e *StartError) Error() string { return e.Stage + ": " + e.Errno.Error() }
func (e *StartError) Unwrap() error { return e.Errno }

// Usage is what a tree consumed until now.
type Usage struct {
	User, System time.Duration
	MaxRSS       int64 // bytes, the largest process
}

// Event is what a guest reports.
type Event struct {
	Exited bool // the main process ended: Code, Signal
	Gone   bool // nothing of the tree is left, or Left processes cannot be killed
	Code   int  // -1 when Signal ended it
	Signal syscall.Signal
	Usage  Usage
	Left   int
	// Crowded says that, when the guest looked, there were as many processes as
	// Confinement.PIDs allows.
	Crowded bool
}

func parseEvent(kind byte, p *payload) (Event, error) {
	var e Event
	usage := func() {
		e.Usage = Usage{User: time.Duration(p.number()), System: time.Duration(p.number()), MaxRSS: int64(p.number())}
	}
	switch kind {
	case kindExited:
		e.Exited, e.Code, e.Signal = true, int(int64(p.number())), syscall.Signal(p.number())
		usage()
		e.Crowded = p.number() == 1
		e.Gone = p.number() == 1
	case kindGone:
		e.Gone = true
		usage()
		e.Crowded = p.number() == 1
		e.Left = int(p.number())
	default:
		return Event{}, errFrame
	}
	return e, p.end()
}
