package sandbox

import (
	"io"
	"syscall"
	"time"
)

// Cmd is one command to start. Args are passed exactly, without a shell.
type Cmd struct {
	// Args are the program and its arguments. A program without a slash is
	// looked up on the PATH of Env, its absolute entries only; without PATH in
	// /usr/bin and /bin.
	Args []string
	Dir  string   // "" means Info.WorkDir
	Env  []string // nil means Spec.Env; an empty non-nil slice is an empty environment

	// Stdin nil means end of file at once. Stdout and Stderr nil discard. When
	// Stdout and Stderr are the same comparable writer the command gets one
	// stream for both, order kept. A writer is called from one goroutine at a
	// time; one that fails ends the copying, not the command.
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	PTY    *Winsize      // non-nil: a terminal instead of pipes; Stdout gets its output, Stderr nothing
	Grace  time.Duration // between SIGTERM and SIGKILL; 0 means 5 s
	Policy *Policy       // nil means the box's; a stricter one for this command alone

	// Keep lets what the main process leaves behind live on after it has
	// ended: until ctx is done or the box closes. Without Keep the rest of the
	// tree is ended when the main process ends.
	Keep bool
}

// Winsize is a terminal's size in characters.
type Winsize struct{ Rows, Cols uint16 }

// Process is a started command with everything it starts. All methods are safe
// for concurrent use.
type Process interface {
	// PID is the main process's id as the backend numbers it.
	PID() int
	// Exited is closed as soon as the main process has ended, which is before
	// its output is drained and before what it left behind is gone; also when
	// the process is lost.
	Exited() <-chan struct{}
	// Wait returns when the main process has ended and its output has been
	// drained: all that was written before its end, and what descendants that
	// hold the pipe write within the drain grace (200 ms). Any number of
	// callers may wait, any number of times; all get the same answer. The
	// error is about us (ErrLost), never about the command.
	Wait() (Exit, error)
	// Signal sends sig to the whole tree. After the end it does nothing and
	// returns os.ErrProcessDone.
	Signal(sig syscall.Signal) error
	// Resize changes the size of the terminal; an error without one.
	Resize(rows, cols uint16) error
}

// Exit tells how a command ended.
type Exit struct {
	Code   int            // exit status, or -1 when a signal ended it
	Signal syscall.Signal // 0 when it exited by itself
	Usage  Usage          // of the whole tree, as far as the backend can tell
	Limit  Limit          // "" unless a resource limit ended it
}

// Usage is what a tree consumed. Zero fields are unknown.
type Usage struct {
	User, System time.Duration
	Wall         time.Duration
	MaxRSS       int64 // bytes, the largest process
	MaxMemory    int64 // bytes, the whole tree at its peak
}

// Limit names the resource limit that ended a command.
type Limit string

// The limits a backend can report.
const (
	LimitMemory Limit = "memory"
	LimitPIDs   Limit = "pids"
	LimitCPU    Limit = "cpu"
	LimitDisk   Limit = "disk"
)
