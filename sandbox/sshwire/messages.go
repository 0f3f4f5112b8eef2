package sshwire

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The versions of both sides, as RFC 4253 section 4.2 has them exchanged.
const (
	ClientVersion = "SSH-2.0-hermes-exec_1"
	ServerVersion = "SSH-2.0-hermes-guest_1"
)

// Channels and requests of our own.
const (
	ChannelBox    = "box@hermes-exec"
	ChannelSocket = "forwarded-streamlocal@openssh.com"

	RequestBox  = "use-box@hermes-exec" // ssh.Marshal of BoxID
	RequestPart = "part@hermes-exec"    // what the JSON of the next RequestExec begins with
	RequestExec = "exec@hermes-exec"    // JSON Command
	RequestEnd  = "end@hermes-exec"     // the command's context is done: TERM, grace, KILL

	EventFailure = "failure@hermes-exec" // JSON Failure
	EventStarted = "started@hermes-exec" // JSON Started
	EventExited  = "exited@hermes-exec"  // no payload
	EventExit    = "exit@hermes-exec"    // JSON Exit
)

// Bounds of what is sent. A packet of SSH takes 256 KiB: a Command that does not
// fit in one goes in parts.
const (
	MaxPart    = 128 << 10
	MaxCommand = 16 << 20 // of JSON, which is a little more than the command
	MaxBox     = 200 << 10
	MaxLine    = 4 << 20 // of an Answer; an Order is far below
)

// BoxID is the payload of RequestBox.
type BoxID struct{ ID string }

// SocketID is the extra data of ChannelSocket, as OpenSSH defines it: the box's
// id is in the string it reserves.
type SocketID struct{ Path, Box string }

// PTY, Winsize and Signal are the payloads of pty-req, window-change and signal
// (RFC 4254, sections 6.2, 6.7 and 6.9).
type (
	PTY struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	Winsize struct{ Columns, Rows, Width, Height uint32 }
	Signal  struct{ Name string }
)

// BoxRequest asks for a box. Paths are of the machine the guest is on.
type BoxRequest struct {
	ID        string            `json:"id"`
	WorkDir   string            `json:"work_dir,omitempty"`
	Env       []string          `json:"env,omitempty"`
	Profile   sandbox.Profile   `json:"profile"`
	Resources sandbox.Resources `json:"resources"`
	// Read and Write are places that were put there for this box: its policy
	// allows them besides.
	Read  []string `json:"read,omitempty"`
	Write []string `json:"write,omitempty"`
	// Contained says that the guest is in a container that already keeps the
	// policy: what the guest itself cannot keep is left to it.
	Contained bool `json:"contained,omitempty"`
}

// Order is what the client asks of a box.
type Order struct {
	ID   uint64 `json:"id"` // from 1
	Op   string `json:"op"`
	Path string `json:"path,omitempty"` // of OrderUnlisten
	// Age is of OrderFuture: how long ago what is looked for began, since clocks
	// differ.
	Age time.Duration `json:"age,omitempty"`
}

// The orders.
const (
	OrderListen   = "listen"   // answer: Path
	OrderUnlisten = "unlisten" // closes the socket at Path
	OrderClose    = "close"    // ends the box; the answer comes when all is gone
	OrderFuture   = "future"   // answer: Future, Complete
)

// Answer is what the server answers to an Order.
type Answer struct {
	ID      uint64        `json:"id"`
	Info    *sandbox.Info `json:"info,omitempty"` // of order 0
	Path    string        `json:"path,omitempty"`
	Failure *Failure      `json:"failure,omitempty"`

	Future   []sandbox.FutureInput `json:"future,omitempty"`
	Complete bool                  `json:"complete,omitempty"`
}

// Command is sandbox.Cmd without its streams.
type Command struct {
	Args  []string      `json:"args"`
	Dir   string        `json:"dir,omitempty"`
	Env   []string      `json:"env"` // null means the box's
	Grace time.Duration `json:"grace,omitempty"`
	Keep  bool          `json:"keep,omitempty"`
	Stdin bool          `json:"stdin,omitempty"` // false: end of file at once
	// NoStdout and NoStderr say that nobody listens.
	NoStdout bool `json:"no_stdout,omitempty"`
	NoStderr bool `json:"no_stderr,omitempty"`
	Merge    bool `json:"merge,omitempty"` // stdout and stderr are one stream
}

// Started tells that a command runs.
type Started struct {
	PID int `json:"pid"`
}

// Exit is sandbox.Exit, or that the process was lost.
type Exit struct {
	Exit   sandbox.Exit `json:"exit"`
	Signal string       `json:"signal,omitempty"` // the name of Exit.Signal: numbers differ
	Lost   string       `json:"lost,omitempty"`
}

// Failure is an error that keeps the sentinels a caller branches on.
type Failure struct {
	Kinds []string `json:"kinds,omitempty"`
	Text  string   `json:"text"`
}

// A kind is a sentinel by the name it has on the wire.
type kind struct {
	name string
	err  error
}

var kinds = []kind{
	{"not-exist", fs.ErrNotExist},
	{"exist", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"done", os.ErrProcessDone},
	{"closed", sandbox.ErrClosed},
	{"unsupported", sandbox.ErrUnsupported},
	{"policy", sandbox.ErrPolicy},
	{"unavailable", sandbox.ErrUnavailable},
	{"lost", sandbox.ErrLost},
	{"symlink", sandbox.ErrSymlink},
	{"not-regular", sandbox.ErrNotRegular},
	{"no-space", syscall.ENOSPC},
	{"noexec", syscall.ENOEXEC},
	{"too-big", syscall.E2BIG},
	{"not-dir", syscall.ENOTDIR},
	{"is-dir", syscall.EISDIR},
	{"not-empty", syscall.ENOTEMPTY},
	{"invalid", fs.ErrInvalid},
	{"name-too-long", syscall.ENAMETOOLONG},
	{"loop", syscall.ELOOP},
	{"read-only", syscall.EROFS},
	{"quota", syscall.EDQUOT},
}

// NewFailure keeps err's text and the sentinels it wraps.
func NewFailure(err error) *Failure {
	f := &Failure{Text: err.Error()}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kinds = append(f.Kinds, k.name)
		}
	}
	return f
}

// Error is the text.
func (f *Failure) Error() string { return f.Text }

// Is tells whether the error on the other side wrapped target.
func (f *Failure) Is(target error) bool {
	for _, k := range kinds {
		if k.err == target {
			for _, name := range f.Kinds {
				if name == k.name {
					return true
				}
			}
		}
	}
	return false
}
