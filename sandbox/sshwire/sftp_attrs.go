package sshwire

import (
	"io/fs"
	"time"
)

// Which attributes there are.
const (
	AttrSize     = 1
	AttrOwner    = 2
	AttrMode     = 4
	AttrTimes    = 8
	AttrExact    = 1 << 16 // ours, not on the wire
	attrExtended = 1 << 31
)

// Attrs describes a file.
type Attrs struct {
	Has      uint32 // Attr…
	Size     uint64
	UID, GID uint32
	Mode     uint32 // as POSIX has it, with the type
	Mtime    int64  // nanoseconds since 1970; whole seconds without AttrExact
	Ino      uint64 // with AttrExact
}

// Attrs appends attributes.
func (p Packet) Attrs(a Attrs) Packet {
	flags := a.Has & (AttrSize | AttrOwner | AttrMode | AttrTimes)
	if a.Has&AttrExact != 0 {
		flags |= attrExtended
	}
	p = p.U32(flags)
	if flags&AttrSize != 0 {
		p = p.U64(a.Size)
	}
	if flags&AttrOwner != 0 {
		p = p.U32(a.UID).U32(a.GID)
	}
	if flags&AttrMode != 0 {
		p = p.U32(a.Mode)
	}
	if flags&AttrTimes != 0 {
		s := uint32(a.Mtime / int64(time.Second))
		p = p.U32(s).U32(s)
	}
	if flags&attrExtended != 0 {
		p = p.U32(1).Text(AttrsExact).U32(16).U64(uint64(a.Mtime)).U64(a.Ino)
	}
	return p
}

// Attrs reads attributes.
func (b *Body) Attrs() (a Attrs) {
	flags := b.U32()
	a.Has = flags & (AttrSize | AttrOwner | AttrMode | AttrTimes)
	if flags&^(a.Has|attrExtended) != 0 {
		b.Bad = true
	}
	if flags&AttrSize != 0 {
		a.Size = b.U64()
	}
	if flags&AttrOwner != 0 {
		a.UID, a.GID = b.U32(), b.U32()
	}
	if flags&AttrMode != 0 {
		a.Mode = b.U32()
	}
	if flags&AttrTimes != 0 {
		b.U32()
		a.Mtime = int64(b.U32()) * int64(time.Second)
	}
	if flags&attrExtended != 0 {
		for range b.U32() {
			name, data := b.Text(256), b.Bytes(4096)
			if b.Bad {
				break
			}
			if name == AttrsExact && len(data) == 16 {
				exact := Body{Rest: data}
				a.Mtime, a.Ino = int64(exact.U64()), exact.U64()
				a.Has |= AttrExact
			}
		}
	}
	if int64(a.Size) < 0 {
		b.Bad = true
	}
	return a
}

// The types of files, as POSIX numbers them.
const (
	modeType    = 0o170000
	modeSocket  = 0o140000
	modeLink    = 0o120000
	modeRegular = 0o100000
	modeBlock   = 0o060000
	modeDir     = 0o040000
	modeChar    = 0o020000
	modePipe    = 0o010000
)

var modeTypes = []struct {
	posix uint32
	mode  fs.FileMode
}{
	{modeRegular, 0}, {modeDir, fs.ModeDir}, {modeLink, fs.ModeSymlink}, {modePipe, fs.ModeNamedPipe},
	{modeSocket, fs.ModeSocket}, {modeBlock, fs.ModeDevice}, {modeChar, fs.ModeDevice | fs.ModeCharDevice},
}

var modeBits = []struct {
	posix uint32
	mode  fs.FileMode
}{{0o4000, fs.ModeSetuid}, {0o2000, fs.ModeSetgid}, {0o1000, fs.ModeSticky}}

// PosixMode is a mode as POSIX has it.
func PosixMode(m fs.FileMode) uint32 {
	out := uint32(m.Perm())
	for _, t := range modeTypes {
		if m.Type() == t.mode {
			out |= t.posix
		}
	}
	for _, b := range modeBits {
		if m&b.mode != 0 {
			out |= b.posix
		}
	}
	return out
}

// FileMode is the mode as Go has it; a type that is not known is irregular.
func (a Attrs) FileMode() fs.FileMode {
	m := fs.FileMode(a.Mode&0o777) | fs.ModeIrregular
	for _, t := range modeTypes {
		if a.Mode&modeType == t.posix {
			m = m&^fs.ModeIrregular | t.mode
		}
	}
	for _, b := range modeBits {
		if a.Mode&b.posix != 0 {
			m |= b.mode
		}
	}
	return m
}
