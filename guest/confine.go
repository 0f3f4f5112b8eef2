package guest

// Confinement says what a session guest makes of itself before it runs the
// first command. It is sent to the guest whole, in one message.
type Confinement struct {
	// UID and GID are those of everything inside. Mapped says that the engine
	// maps them into the guest's user namespace; otherwise they are the
	// engine's own and the guest does.
	UID, GID int
	Mapped   bool
	// Namespaces says that the guest is PID 1 of namespaces of its own. Without
	// them only Landlock, seccomp and the reaper stand.
	Namespaces bool
	// NetworkOff leaves nothing but a loopback of the guest's own or, without
	// namespaces, no internet sockets at all.
	NetworkOff bool
	// Base is whether the root is all of this machine's, read-only; otherwise
	// it is empty but for Mounts.
	Base   bool
	Mounts []Mount // in the order they are made
	Links  []Link
	// Size bounds the private file system of /tmp, /var/tmp, /dev/shm, /run and
	// scratch, in bytes.
	Size int64
	// Scratch is where the scratch directory is to be, below /run.
	Scratch string
	// Read and Write are what Landlock allows besides the private places.
	Read, Write []string
	// Devices are directories of devices that may be used, ioctl included.
	Devices []string
	// PIDs bounds processes and threads of the box's user inside, besides the
	// guest's own; 0 for no bound.
	PIDs int
	// Files says that the first descriptor sent along is a connection to serve
	// files on.
	Files bool
	// Groups and Trees are how many of the descriptors sent along are
	// cgroup.procs files, the next ones, and trees of Mounts, those after.
	Groups, Trees int
	// More says that Session.Mount is called before anything else, if with
	// nothing: a reaper made before would not have those mounts.
	More bool
}

// foundation is the part of a Confinement a guest can make of itself before it
// knows the rest.
func (c Confinement) foundation() Confinement {
	return Confinement{
		UID: c.UID, GID: c.GID, Mapped: c.Mapped, Namespaces: c.Namespaces, NetworkOff: c.NetworkOff,
		Base: c.Base, Size: c.Size, Scratch: c.Scratch,
	}
}

// Mount is one change to the tree of mounts. Paths are absolute and, but for
// Source, of the box.
type Mount struct {
	Kind   MountKind
	Source string // on this machine
	Target string
	// Tree is the position among the trees sent along, counted from 1; 0 means
	// that the guest opens Source itself.
	Tree  int
	Write bool
	// Text is what a MountFile holds.
	Text string
	// Optional lets a Source or Target be missing.
	Optional bool
}

// MountKind is what a Mount does.
type MountKind string

// The kinds of mounts.
const (
	MountBind MountKind = "bind" // Source with all mounts in it, at Target
	MountSelf MountKind = "self" // Target on itself: it cannot be moved, nor written unless Write
	MountHide MountKind = "hide" // nothing at Target, which cannot be opened
	MountFile MountKind = "file" // a file of the box's own over one at Target
	MountDir  MountKind = "dir"  // nothing at Target but what later mounts put there
)

// Link is a symbolic link in an empty root.
type Link struct{ Path, Target string }

// Setup is what a session guest reports when it is ready.
type Setup struct {
	Landlock int    // ABI, 0 for none
	Error    string // what failed
	Stage    string // at which step
	Errno    int
	// UID is how the kernel maps the box's user, as /proc/self/uid_map has it.
	UIDMap string
}
