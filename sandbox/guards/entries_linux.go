package guards

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// entries calls f with what is in a directory, "." and ".." left out, until it
// returns false. A name is valid during the call; a NUL follows it.
func entries(fd int, buf []byte, f func(name []byte, kind entryKind) bool) error {
	for {
		n, err := unix.Getdents(fd, buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		for rest := buf[:n]; len(rest) > 19; { // inode 8, offset 8, length 2, type 1, name
			size := int(binary.NativeEndian.Uint16(rest[16:]))
			if size < 20 || size > len(rest) {
				return unix.EBADMSG
			}
			name := rest[19:size]
			end := bytes.IndexByte(name, 0)
			if end < 0 {
				return unix.EBADMSG
			}
			kind := entryOther
			switch rest[18] {
			case unix.DT_DIR:
				kind = entryDir
			case unix.DT_REG:
				kind = entryFile
			case unix.DT_LNK:
				kind = entryLink
			case unix.DT_UNKNOWN:
				kind = entryUnknown
			}
			rest = rest[size:]
			if name = name[:end]; string(name) == "." || string(name) == ".." {
				continue
			}
			if !f(name, kind) {
				return nil
			}
		}
	}
}

// statEntry returns mode and ctime of a name that entries gave. It goes without
// the copy of the name that unix.Statx makes: most files of a tree pass here.
func statEntry(dir int, name []byte) (mode uint32, ctime int64, err error) {
	var x unix.Statx_t
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	_, _, errno := unix.Syscall6(unix.SYS_STATX, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(name))), flags,
		unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_CTIME, uintptr(unsafe.Pointer(&x)), 0)
	switch errno {
	case 0:
		return uint32(x.Mode), x.Ctime.Sec*1e9 + int64(x.Ctime.Nsec), nil
	case unix.ENOSYS, unix.EPERM:
		var st unix.Stat_t
		err := unix.Fstatat(dir, string(name), &st, flags)
		return st.Mode, unix.TimespecToNsec(st.Ctim), err
	}
	return 0, 0, errno
}
