package sandbox

import (
	"context"
	"errors"
	"net"
)

// Sentinels a caller may branch on. Backends wrap them with what and where.
var (
	// ErrClosed is returned by every method of a closed Sandbox or Backend.
	ErrClosed = errors.New("sandbox is closed")
	// ErrUnsupported marks something this backend cannot do (a PTY, a resource
	// limit, a policy clause). What is asked and cannot be kept is refused.
	ErrUnsupported = errors.New("not supported by this backend")
	// ErrPolicy marks a refusal: the policy asks for what cannot be enforced.
	ErrPolicy = errors.New("policy cannot be enforced")
	// ErrUnavailable marks a backend that cannot run anything here: no daemon,
	// an operating system it does not support.
	ErrUnavailable = errors.New("backend is unavailable")
	// ErrLost marks a process whose supervisor or connection died: its fate is
	// unknown and its Exit is not to be believed.
	ErrLost = errors.New("process was lost")
)

// Backend makes sandboxes in one kind of place. All methods are safe for
// concurrent use.
type Backend interface {
	// Create makes a sandbox. It fails with ErrPolicy when Spec.Policy or
	// Spec.Resources ask for what the backend cannot enforce, and then nothing
	// has been started.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
	// Check reports whether the backend is usable and what to do if not.
	Check(ctx context.Context) []Finding
	// Close ends every sandbox made and frees connections and pools. It may be
	// repeated.
	Close() error
}

// Sandbox is one box, made once per session. All methods are safe for
// concurrent use.
type Sandbox interface {
	// Info describes the box; it does not change over the box's life.
	Info() Info
	// Start runs one command. When ctx is done the command's whole tree gets
	// SIGTERM, then SIGKILL after cmd.Grace. Start itself returns as soon as
	// the command runs or cannot be run; a program that cannot be found or
	// executed is an error that wraps fs.ErrNotExist or fs.ErrPermission.
	Start(ctx context.Context, cmd Cmd) (Process, error)
	// Listen opens a stream socket that processes inside the box can dial, in
	// a directory of its own that only the box's user can enter. It returns
	// the listener and the path as the box sees it. Closing the listener
	// removes both. Done ctx closes it.
	Listen(ctx context.Context) (net.Listener, string, error)
	// Files gives access to exactly what a process inside would see.
	Files() Files
	// Close ends every process that still runs, kept ones included, and
	// removes the scratch directory. It may be repeated; the context bounds
	// how long a graceful end may take.
	Close(ctx context.Context) error
}

// Listening is implemented by a Sandbox that can begin to make a socket, and do
// something else before it waits for it.
type Listening interface {
	// BeginListen is Listen, but for the wait: wait is to be called.
	BeginListen(ctx context.Context) (wait func() (net.Listener, string, error))
}

// Info is what is known about a box.
type Info struct {
	ID      string // unique in the engine, safe in file names
	Backend string // "local", "docker", …
	OS      string // GOOS inside
	Arch    string // GOARCH inside

	Home string // home directory inside, "" if there is none
	// Env is the environment the box itself starts from, NAME=value each: PATH,
	// HOME and LANG of a container or a remote host. nil where the box sees the
	// engine's machine, and the engine's environment is the one to start from.
	Env []string
	// Guest is the guest program as a process inside may execute it, for work
	// that is best done where the files are; "" where there is none.
	Guest      string
	WorkDir    string // where commands start when Cmd.Dir is empty; absolute, symlinks resolved
	ScratchDir string // 0700, owned by the box's user, removed by Close

	// UID is the user id processes of the box have as seen by a peer on the
	// socket Listen returned; -1 where the socket cannot tell.
	UID int

	// Rung names the level of mechanisms that holds the box, from strongest to
	// weakest: RungNamespaces, RungLandlock; "" when nothing confines it.
	Rung        string
	Enforcement Enforcement
}

// The rungs of the ladder on Linux.
const (
	RungNamespaces = "namespaces" // namespaces and a file tree of its own, Landlock and seccomp besides
	RungLandlock   = "landlock"   // Landlock and seccomp alone: no user namespaces here
)

// Spec describes the box to make. Its zero value asks for the strictest policy.
type Spec struct {
	ID        string   // "" lets the backend choose
	Image     string   // container backends only
	WorkDir   string   // "" means the backend's default
	Env       []string // environment of commands whose Cmd.Env is nil
	Mounts    []Mount
	Policy    Policy
	Resources Resources
	// Profile is what Policy was made from. A backend that is Elsewhere makes
	// the policy from it where the box is, and ignores Policy.
	Profile Profile
}

// Profile is a policy as its user named it, before it is resolved to the paths
// of one machine.
type Profile struct {
	Name       string   `json:"name"`           // "sealed", "workspace", "open", or a policy file's name
	File       []byte   `json:"file,omitempty"` // the policy file's content, if it is one
	OpenGuards []string `json:"open_guards,omitempty"`
	DenyRead   []string `json:"deny_read,omitempty"`
}

// Elsewhere is implemented by a Backend whose boxes do not see the engine's
// machine: paths, homes, interpreters and policies are resolved where the box
// is. What Spec.WorkDir means there is the backend's to say: a directory of the
// remote host, or one of this machine that is mounted.
type Elsewhere interface {
	Backend
	// Elsewhere does nothing; it marks the backend.
	Elsewhere()
}

// Mount makes a directory of the engine's machine visible inside.
type Mount struct {
	Source, Target string
	Writable       bool
}

// Resources bound a box. Zero means no limit of its own.
type Resources struct {
	CPU    float64 // cores
	Memory int64   // bytes, the whole tree
	Disk   int64   // bytes of scratch and private /tmp
	PIDs   int     // processes and threads
}

// Severity says how bad a Finding is.
type Severity string

// What a Finding can be.
const (
	OK      Severity = "ok"
	Warning Severity = "warning"
	Failure Severity = "failure"
)

// Finding is one line of a health report: what was looked at, what was seen,
// and, when it is not ok, how to fix it.
type Finding struct {
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject"`
	Detail   string   `json:"detail"`
	Fix      string   `json:"fix,omitempty"`
}
