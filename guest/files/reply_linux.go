package files

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// sentinels are errors that keep their identity on the wire, by their index.
var sentinels = [...]error{
	sandbox.ErrSymlink, sandbox.ErrNotRegular, fs.ErrInvalid, fs.ErrPermission, fs.ErrExist,
	fs.ErrNotExist, fs.ErrClosed, context.Canceled, errMoved, errEntries,
}

// newReply begins a reply: its kind and the number of the request.
func newReply(p packet, kind byte, seq uint32) packet { return append(p[:0], kind).u32(seq) }

// The shapes of an error: what errors.As finds in it.
const (
	shapePlain = iota
	shapePath
	shapeLink
)

// The causes of an error.
const (
	causeText = iota
	causeErrno
	causeSentinel
)

// error appends err: a count, and every error that errors.Join joined in it.
// Those that no longer fit are left out.
func (p packet) error(err error) packet {
	all := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		all = joined.Unwrap()
	}
	at := len(p)
	p = append(p, 0)
	for _, err := range all[:min(len(all), maxErrors)] {
		next := p.oneError(err)
		if len(next) > maxReply {
			break
		}
		p = next
		p[at]++
	}
	return p
}

func (p packet) oneError(err error) packet {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		p = append(p, shapePath).text(clip(pe.Op, 64)).text(clip(pe.Path, maxText))
		err = pe.Err
	case errors.As(err, &le):
		p = append(p, shapeLink).text(clip(le.Op, 64)).text(clip(le.Old, maxText)).text(clip(le.New, maxText))
		err = le.Err
	default:
		p = append(p, shapePlain)
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return append(p, causeErrno).u32(uint32(errno))
	}
	for i, s := range sentinels {
		if errors.Is(err, s) {
			return append(p, causeSentinel, byte(i))
		}
	}
	return append(p, causeText).text(clip(err.Error(), maxText))
}

func clip(s string, limit int) string {
	if len(s) > limit {
		return s[:limit-len("…")] + "…"
	}
	return s
}

// error reads what packet.error wrote. It is nil when that is malformed.
func (b *body) error() error {
	n := int(b.byte())
	if n == 0 || n > maxErrors {
		b.bad = true
		return nil
	}
	all := make([]error, n)
	for i := range all {
		all[i] = b.oneError()
	}
	if !b.end() {
		b.bad = true
		return nil
	}
	if n == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

func (b *body) oneError() error {
	var op, path, to string
	shape := b.byte()
	switch shape {
	case shapePlain:
	case shapePath, shapeLink:
		op, path = b.text(maxText), b.text(maxText)
		if shape == shapeLink {
			to = b.text(maxText)
		}
	default:
		b.bad = true
	}
	var err error
	switch b.byte() {
	case causeText:
		err = errors.New(b.text(maxText))
	case causeErrno:
		n := b.u32()
		if n == 0 || n > maxErrno {
			b.bad = true
		}
		err = syscall.Errno(n)
	case causeSentinel:
		i := int(b.byte())
		if i >= len(sentinels) {
			b.bad, i = true, 0
		}
		err = sentinels[i]
	default:
		b.bad = true
	}
	switch shape {
	case shapePath:
		return &fs.PathError{Op: op, Path: path, Err: err}
	case shapeLink:
		return &os.LinkError{Op: op, Old: path, New: to, Err: err}
	}
	return err
}

// stat appends the kernel's own struct: both sides are one binary.
func (p packet) stat(st *syscall.Stat_t) packet {
	p, _ = binary.Append(p, binary.NativeEndian, st)
	return p
}

func (b *body) stat(st *syscall.Stat_t) {
	if _, err := binary.Decode(b.take(binary.Size(st)), binary.NativeEndian, st); err != nil || st.Size < 0 {
		b.bad = true
	}
}

// The types of a directory entry.
var entryTypes = [...]fs.FileMode{
	0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, fs.ModeSocket,
	fs.ModeDevice, fs.ModeDevice | fs.ModeCharDevice, fs.ModeIrregular,
}

// entry appends a directory entry: its type and its name.
func (p packet) entry(e fs.DirEntry) packet {
	kind := byte(len(entryTypes) - 1)
	for i, t := range entryTypes {
		if e.Type() == t {
			kind = byte(i)
		}
	}
	return append(append(p, kind, byte(len(e.Name()))), e.Name()...)
}

// maxEntry is the most that packet.entry appends.
const maxEntry = 2 + maxBase

func (b *body) entry() (string, fs.FileMode) {
	kind := int(b.byte())
	name := string(b.take(int(b.byte())))
	if kind >= len(entryTypes) || !isBase(name) {
		b.bad = true
		return "", 0
	}
	return name, entryTypes[kind]
}
