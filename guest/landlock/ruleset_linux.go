package landlock

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Options say what a ruleset handles besides the file system, abstract sockets
// and signals, which it always does.
type Options struct {
	// DenyTCP refuses to bind and connect TCP sockets: for a command whose
	// policy has no network and that has no network namespace of its own. UDP,
	// Multipath TCP and all else stay open, so it is the second wall behind a
	// system call filter that refuses the sockets themselves.
	DenyTCP bool
	// MaxABI, when not 0, makes the ruleset as on a kernel that has no more.
	MaxABI int
}

// Access is what a rule grants, to a file or to all of a directory's tree.
type Access uint8

const (
	// Read files, execute them, list directories.
	Read Access = 1 << iota
	// Write, truncate, make, link, rename and remove files, directories,
	// symlinks, FIFOs and sockets, and connect to sockets; Read as well.
	Write
	// Ioctl on devices, beyond the few that every file has.
	Ioctl
	// List directories, without reading what is in their files.
	List
)

// Ruleset is a set of rules under construction or in use. It belongs to one
// goroutine until its last rule is added; then FD and Restrict may be called
// from any.
type Ruleset struct {
	fd      int
	abi     int
	options Options
	handled uint64
}

// New returns a ruleset that allows nothing yet, at the highest ABI that the
// kernel, this code and o.MaxABI have. Without Landlock it is an error that
// wraps errors.ErrUnsupported.
func New(o Options) (*Ruleset, error) {
	abi := min(ABI(), newest)
	if o.MaxABI > 0 {
		abi = min(abi, o.MaxABI)
	}
	if abi == 0 {
		return nil, fmt.Errorf("landlock: the kernel has none, or it is not switched on: %w", errors.ErrUnsupported)
	}
	attr := handled(abi, o)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("landlock: create ruleset: %w", errno)
	}
	return &Ruleset{fd: int(fd), abi: abi, options: o, handled: attr.Handled_access_fs}, nil
}

// FD returns the ruleset's descriptor, close-on-exec, valid until Close.
func (r *Ruleset) FD() int { return r.fd }

// Close gives the descriptor back. Who is restricted stays so.
func (r *Ruleset) Close() error { return unix.Close(r.fd) }

// ABI returns the version that the ruleset was made at.
func (r *Ruleset) ABI() int { return r.abi }

// Enforced names the mechanism for reports: "Landlock ABI 7".
func (r *Ruleset) Enforced() string { return fmt.Sprintf("Landlock ABI %d", r.abi) }

// Missing returns what this ruleset does not keep because its ABI is too old.
func (r *Ruleset) Missing() []Gap { return missing(r.abi, r.options) }

// Allow adds a rule for what is at path now, wherever it is moved later. A path
// that ends in a symlink is an error that wraps ELOOP, a missing one ENOENT:
// what a rule names, it names literally.
func (r *Ruleset) Allow(path string, access Access) error {
	_, err := r.allow(path, access, nil)
	return err
}

// allow opens and adds path, if it is still what want says.
func (r *Ruleset) allow(path string, access Access, want *Rule) (added bool, err error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("landlock: allow %q: %w", path, err)
	}
	defer unix.Close(fd)
	if want != nil {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return false, fmt.Errorf("landlock: allow %q: %w", path, err)
		}
		if uint64(st.Dev) != want.dev || st.Ino != want.ino {
			return false, nil
		}
	}
	if err := r.AllowFD(fd, access); err != nil {
		return false, fmt.Errorf("landlock: allow %q: %w", path, errors.Unwrap(err))
	}
	return true, nil
}

// AllowFD is Allow for what is open as fd, an O_PATH descriptor or any other.
func (r *Ruleset) AllowFD(fd int, access Access) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("landlock: allow descriptor %d: %w", fd, err)
	}
	granted := r.rights(access)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return fmt.Errorf("landlock: allow descriptor %d: %w", fd, unix.ELOOP)
	case unix.S_IFDIR:
	default:
		granted &= rightsFile
	}
	if granted == 0 {
		return nil // nothing that is handled, so nothing to grant
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: granted, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: allow descriptor %d: %w", fd, errno)
	}
	return nil
}

// Rights are the kernel's bits of what access grants of what the ruleset
// handles, for who adds a rule by raw system calls.
func (r *Ruleset) Rights(access Access) uint64 { return r.rights(access) }

// rights are what access grants of what the ruleset handles.
func (r *Ruleset) rights(access Access) uint64 {
	var granted uint64
	if access&(Read|Write) != 0 {
		granted |= rightsRead
	}
	if access&Write != 0 {
		granted |= rightsWrite
	}
	if access&Ioctl != 0 {
		granted |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if access&List != 0 {
		granted |= unix.LANDLOCK_ACCESS_FS_READ_DIR
	}
	return granted & r.handled
}

// Restrict puts the calling thread, and what it starts from then on, under the
// rules for good, after setting no_new_privs. Other threads are not touched:
// the caller has locked its goroutine to the thread and never unlocks it.
func (r *Ruleset) Restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("landlock: set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("landlock: restrict: %w", errno)
	}
	return nil
}
