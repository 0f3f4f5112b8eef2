package files

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The operations of a request.
const (
	opResolve   = 'r'
	opOpen      = 'o'
	opCreate    = 'c'
	opMake      = 'f'
	opStage     = 'g'
	opFind      = 'i'
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
	maxRequest = 16<<10 + maxStaged // bytes: two names and change; less than a socket takes at once
	maxFiles   = 16                 // staged at once
	maxNames   = 64                 // looked for at once
	maxReply   = 32 << 10           // well below what a socket buffers
	maxText    = 8 << 10            // bytes of a name in an error: a tree's root and what is below it
	maxErrors  = 2 * rmMaxErrors
	maxErrno   = 4095 // the kernel's own bound
	maxBase    = 255  // bytes of a name in a directory
)

var (
	errRequest = errors.New("malformed request")
	errReply   = errors.New("malformed reply")
)

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

// files reads what is to be staged.
func (b *body) files() []sandbox.StagedFile {
	n := int(b.byte())
	if n == 0 || n > maxFiles {
		b.bad = true
		return nil
	}
	files := make([]sandbox.StagedFile, n)
	for i := range files {
		files[i].Name = b.text(maxBase)
		size := b.u32()
		if !isBase(files[i].Name) || size > maxStaged {
			b.bad = true
			return nil
		}
		files[i].Content = string(b.take(int(size)))
	}
	return files
}

// isBase reports whether a name is one of an entry in a directory.
func isBase(name string) bool {
	return name != "" && name != "." && name != ".." && len(name) <= maxBase && !strings.ContainsAny(name, "/\x00")
}

// end reports whether all of the message was read and nothing was wrong.
func (b *body) end() bool { return !b.bad && len(b.rest) == 0 }

// request is what a client asks for. Which fields count depends on op.
type request struct {
	op       byte
	seq      uint32
	name, to string
	perm     fs.FileMode
	dir      fs.FileMode          // of opMake
	staged   []sandbox.StagedFile // of opStage
	more     []string             // to look for: of opFind, after name; of opStage
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
	case opMake:
		p = p.u32(uint32(r.perm)).u32(uint32(r.dir))
	case opMkdir, opMkdirAll:
		p = p.u32(uint32(r.perm))
	}
	p = p.text(r.name)
	switch r.op {
	case opRename:
		p = p.text(r.to)
	case opStage:
		p = append(p, byte(len(r.staged)))
		for _, f := range r.staged {
			p = append(p.text(f.Name).u32(uint32(len(f.Content))), f.Content...)
		}
	}
	if r.op == opStage || r.op == opFind {
		p = append(p, byte(len(r.more)))
		for _, name := range r.more {
			p = p.text(name)
		}
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
	case opMake:
		r.perm, r.dir = fs.FileMode(b.u32()), fs.FileMode(b.u32())
	case opMkdir, opMkdirAll:
		r.perm = fs.FileMode(b.u32())
	case opStage, opFind, opResolve, opOpen, opReadDir, opStat, opRename, opRemove, opRemoveAll:
	default:
		return request{}, errRequest
	}
	if r.op != opCommit && r.op != opDiscard {
		r.name = b.text(maxName)
	}
	switch r.op {
	case opRename:
		r.to = b.text(maxName)
	case opStage:
		r.staged = b.files()
	}
	if r.op == opStage || r.op == opFind {
		n := int(b.byte())
		b.bad = b.bad || n >= maxNames
		for i := 0; i < n && !b.bad; i++ {
			r.more = append(r.more, b.text(maxName))
		}
	}
	if !b.end() || (r.perm|r.dir)&^fs.ModePerm != 0 || r.flags&^(flagNew|flagSync) != 0 {
		return request{}, errRequest
	}
	return r, nil
}
