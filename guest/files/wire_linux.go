package files

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The operations of a request.
const (
	opResolve   = 'r'
	opOpen      = 'o'
	opCreate    = 'c'
	opCommit    = 'k'
	opDiscard   = 'x'
	opReadDir   = 'l'
	opStat      = 's'
	opMkdir     = 'm'
	opMkdirAll  = 'M'
	opRename    = 'n'
	opRemove    = 'd'
	opRemoveAll = 'D'
)

// The kinds of a reply.
const (
	replyDone  = '.'
	replyPart  = '+'
	replyError = '!'
)

// The flags of opCreate.
const (
	flagNew  = 1
	flagSync = 2
)

const (
	maxRequest = 16 << 10 // bytes: two names and change
	maxReply   = 32 << 10 // well below what a socket buffers
	maxText    = 8 << 10  // bytes of a name in an error: a tree's root and what is below it
	maxErrors  = 2 * rmMaxErrors
	maxErrno   = 4095 // the kernel's own bound
	maxBase    = 255  // bytes of a name in a directory
)

var (
	errRequest = errors.New("malformed request")
	errReply   = errors.New("malformed reply")
)

// sentinels are errors that keep their identity on the wire, by their index.
var sentinels = [...]error{
	sandbox.ErrSymlink, sandbox.ErrNotRegular, fs.ErrInvalid, fs.ErrPermission, fs.ErrExist,
	fs.ErrNotExist, fs.ErrClosed, context.Canceled, errMoved, errEntries,
}

// packet is a message being built. Numbers are big endian; a text is two bytes
// of length and its bytes.
type packet []byte

func (p packet) u32(n uint32) packet { return binary.BigEndian.AppendUint32(p, n) }

func (p packet) text(s string) packet {
	return append(binary.BigEndian.AppendUint16(p, uint16(len(s))), s...)
}

// body is a message read front to back; the first thing that is missing or too
// long marks it bad, and then all that follows is zero.
type body struct {
	rest []byte
	bad  bool
}

func (b *body) take(n int) []byte {
	if b.bad || n > len(b.rest) {
		b.bad, b.rest = true, nil
		return nil
	}
	head := b.rest[:n]
	b.rest = b.rest[n:]
	return head
}

func (b *body) byte() byte {
	if s := b.take(1); s != nil {
		return s[0]
	}
	return 0
}

func (b *body) u32() uint32 {
	if s := b.take(4); s != nil {
		return binary.BigEndian.Uint32(s)
	}
	return 0
}

func (b *body) text(limit int) string {
	s := b.take(2)
	if s == nil {
		return ""
	}
	n := int(binary.BigEndian.Uint16(s))
	if n > limit {
		b.bad = true
		return ""
	}
	return string(b.take(n))
}

// end reports whether all of the message was read and nothing was wrong.
func (b *body) end() bool { return !b.bad && len(b.rest) == 0 }

// request is what a client asks for. Which fields count depends on op.
type request struct {
	op       byte
	seq      uint32
	name, to string
	perm     fs.FileMode
	flags    byte
	handle   uint32
}

func (r *request) append(p packet) packet {
	p = append(p, r.op).u32(r.seq)
	switch r.op {
	case opCommit, opDiscard:
		return p.u32(r.handle)
	case opCreate:
		p = append(p, r.flags).u32(uint32(r.perm))
	case opMkdir, opMkdirAll:
		p = p.u32(uint32(r.perm))
	}
	p = p.text(r.name)
	if r.op == opRename {
		p = p.text(r.to)
	}
	return p
}

func parseRequest(packet []byte) (request, error) {
	b := body{rest: packet}
	r := request{op: b.byte(), seq: b.u32()}
	switch r.op {
	case opCommit, opDiscard:
		r.handle = b.u32()
	case opCreate:
		r.flags, r.perm = b.byte(), fs.FileMode(b.u32())
	case opMkdir, opMkdirAll:
		r.perm = fs.FileMode(b.u32())
	case opResolve, opOpen, opReadDir, opStat, opRename, opRemove, opRemoveAll:
	default:
		return request{}, errRequest
	}
	if r.op != opCommit && r.op != opDiscard {
		r.name = b.text(maxName)
	}
	if r.op == opRename {
		r.to = b.text(maxName)
	}
	if !b.end() || r.perm&^fs.ModePerm != 0 || r.flags&^(flagNew|flagSync) != 0 {
		return request{}, errRequest
	}
	return r, nil
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
	if kind >= len(entryTypes) || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		b.bad = true
		return "", 0
	}
	return name, entryTypes[kind]
}
