package landlock

import (
	"golang.org/x/sys/unix"
)

// newest is the highest ABI whose rights this code knows.
const newest = 9

// ABI returns the version of Landlock that the kernel has, 0 when it has none
// or it is switched off or filtered.
func ABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// Rights on what is no directory, on directories, and what Access grants of
// them. MAKE_CHAR and MAKE_BLOCK are handled and never granted: a device made by
// a script serves nobody, and one numbered 0:0, which needs no privilege, is an
// overlay's mark for a removed file.
const (
	rightsRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR

	rightsWrite = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK

	rightsDevices = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	rightsFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV | unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX
)

// handled returns what a ruleset handles at an ABI.
func handled(abi int, o Options) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{
		Handled_access_fs: rightsRead | rightsWrite | rightsDevices | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
		Scoped:            unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL,
	}
	if o.DenyTCP {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	for _, s := range steps {
		if abi < s.ABI {
			attr.Handled_access_fs &^= s.fs
			attr.Handled_access_net &^= s.net
			attr.Scoped &^= s.scoped
		}
	}
	return attr
}

// Gap is something that Landlock restricts only from an ABI on.
type Gap struct {
	ABI  int    // the first that has it
	What string // what is not restricted, or not possible, below it
}

type step struct {
	Gap
	fs, net, scoped uint64
}

// steps are what each ABI after the first brought.
var steps = [...]step{
	{Gap: Gap{2, "files cannot be linked or renamed into another directory"}, fs: unix.LANDLOCK_ACCESS_FS_REFER},
	{Gap: Gap{3, "files that may not be written can be truncated"}, fs: unix.LANDLOCK_ACCESS_FS_TRUNCATE},
	{Gap: Gap{4, "TCP is not restricted"}, net: unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
	{Gap: Gap{5, "ioctl on devices is not restricted"}, fs: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV},
	{Gap: Gap{6, "abstract sockets made outside can be connected to"}, scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET},
	{Gap: Gap{6, "processes outside can be signalled"}, scoped: unix.LANDLOCK_SCOPE_SIGNAL},
	{Gap: Gap{9, "sockets in the file system can be connected to wherever they are"}, fs: unix.LANDLOCK_ACCESS_FS_RESOLVE_UNIX},
}

// missing returns what a ruleset of an ABI does not keep.
func missing(abi int, o Options) []Gap {
	var list []Gap
	for _, s := range steps {
		if abi < s.ABI && (s.net == 0 || o.DenyTCP) {
			list = append(list, s.Gap)
		}
	}
	return list
}
