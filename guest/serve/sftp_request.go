package serve

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// request takes one packet apart and does what it asks for. An error ends the
// connection.
func (s *sftpServer) request(kind byte, id uint32, b *sshwire.Body) error {
	op := ""
	if kind == sshwire.SFTPExtended {
		op = b.Text(256)
	}
	switch kind {
	case sshwire.SFTPClose, sshwire.SFTPRead, sshwire.SFTPWrite, sshwire.SFTPFstat, sshwire.SFTPReaddir, sshwire.SFTPFsetstat:
		return s.handleRequest(kind, id, b)
	}
	if op == sshwire.SFTPCommit {
		return s.commit(id, b)
	}
	name, long := s.name(b)
	perm := fs.FileMode(0o777)
	var to string
	var flags, most uint32
	switch {
	case kind == sshwire.SFTPOpenFile:
		flags = b.U32()
		perm = b.Attrs().FileMode()
	case kind == sshwire.SFTPMkdir:
		if a := b.Attrs(); a.Has&sshwire.AttrMode != 0 {
			perm = a.FileMode()
		}
	case op == sshwire.SFTPOpen:
		most = min(b.U32(), maxSFTPData)
	case op == sshwire.SFTPCreate:
		perm = fs.FileMode(b.U32())
		flags = b.U32()
	case op == sshwire.SFTPMkdirAll:
		perm = fs.FileMode(b.U32())
	case op == sshwire.SFTPPosixRename:
		var too bool
		to, too = s.name(b)
		long = long || too
	}
	if b.Bad {
		return sshwire.ErrSFTP
	}
	if long {
		s.answer(id, syscall.ENAMETOOLONG)
		return nil
	}
	perm = perm.Perm()
	switch {
	case kind == sshwire.SFTPRealpath:
		s.resolve(id, name)
	case kind == sshwire.SFTPLstat, kind == sshwire.SFTPStat:
		s.stat(id, name, kind == sshwire.SFTPStat)
	case kind == sshwire.SFTPOpenFile:
		s.openFile(id, name, flags, perm)
	case kind == sshwire.SFTPOpendir || op == sshwire.SFTPList:
		s.aside(false, func() { s.list(id, name, op != "") })
	case kind == sshwire.SFTPMkdir:
		s.answer(id, s.files.Mkdir(s.ctx, name, perm))
	case kind == sshwire.SFTPRemove, kind == sshwire.SFTPRmdir:
		s.answer(id, s.files.Remove(s.ctx, name))
	case op == sshwire.SFTPPosixRename:
		s.answer(id, s.files.Rename(s.ctx, name, to))
	case op == sshwire.SFTPOpen:
		s.aside(false, func() { s.openHead(id, name, most) })
	case op == sshwire.SFTPCreate:
		s.create(id, name, true, sandbox.CreateOptions{Perm: perm, New: flags&sshwire.CreateNew != 0, Sync: flags&sshwire.CreateSync != 0})
	case op == sshwire.SFTPMkdirAll:
		s.aside(true, func() { s.answer(id, s.files.MkdirAll(s.ctx, name, perm)) })
	case op == sshwire.SFTPRemoveAll:
		s.aside(true, func() { s.removeAll(id, name) })
	default:
		s.send(sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(sshwire.StatusUnsupported).Text("not supported").Text("en"))
	}
	return nil
}

// name reads a name; a relative one is seen from where this process is.
func (s *sftpServer) name(b *sshwire.Body) (name string, long bool) {
	name = b.Text(sshwire.MaxSFTP)
	if len(name) > maxSFTPPath {
		return "", true
	}
	if !path.IsAbs(name) {
		if dir, err := os.Getwd(); err == nil {
			name = path.Join(dir, name)
		}
	}
	return name, false
}

func (s *sftpServer) resolve(id uint32, name string) {
	real, err := s.files.Resolve(s.ctx, name)
	if err != nil {
		s.answer(id, err)
		return
	}
	s.send(sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(1).Text(real).Text(real).Attrs(sshwire.Attrs{}))
}

func (s *sftpServer) stat(id uint32, name string, follow bool) {
	var err error
	if follow {
		name, err = s.files.Resolve(s.ctx, name)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = s.files.Stat(s.ctx, name)
	}
	s.attrs(id, info, err)
}

func (s *sftpServer) attrs(id uint32, info fs.FileInfo, err error) {
	if err != nil {
		s.answer(id, err)
		return
	}
	s.send(sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).Attrs(attrsOf(info)))
}

func attrsOf(info fs.FileInfo) sshwire.Attrs {
	return sshwire.Attrs{
		Has:  sshwire.AttrSize | sshwire.AttrMode | sshwire.AttrTimes | sshwire.AttrExact,
		Size: uint64(info.Size()), Mode: sshwire.PosixMode(info.Mode()), Mtime: info.ModTime().UnixNano(), Ino: inode(info),
	}
}

// openFile opens as other clients than ours ask for it: to read, or to write
// all of a file, which appears when it is closed.
func (s *sftpServer) openFile(id uint32, name string, flags uint32, perm fs.FileMode) {
	const whole = sshwire.SFTPFlagWrite | sshwire.SFTPFlagCreat
	switch {
	case flags == sshwire.SFTPFlagRead:
		s.aside(false, func() {
			f, err := s.files.Open(s.ctx, name)
			s.handle(id, f, err)
		})
	case flags&^sshwire.SFTPFlagRead == whole|sshwire.SFTPFlagTrunc:
		s.create(id, name, false, sandbox.CreateOptions{Perm: perm})
	case flags&^(sshwire.SFTPFlagRead|sshwire.SFTPFlagTrunc) == whole|sshwire.SFTPFlagExcl:
		s.create(id, name, false, sandbox.CreateOptions{Perm: perm, New: true})
	default:
		s.answer(id, errors.New("files are read, or written as a whole"))
	}
}

func (s *sftpServer) create(id uint32, name string, atomic bool, opt sandbox.CreateOptions) {
	f, err := s.files.Create(s.ctx, name, opt)
	if err != nil {
		s.answer(id, err)
		return
	}
	s.handle(id, &created{AtomicFile: f, atomic: atomic}, nil)
}

// handle answers with a handle for what was opened.
func (s *sftpServer) handle(id uint32, what any, err error) {
	if err != nil {
		s.answer(id, err)
		return
	}
	handle, err := s.keep(what)
	if err != nil {
		end(what)
		s.answer(id, err)
		return
	}
	s.send(sshwire.NewPacket(nil, sshwire.SFTPHandle, id).Text(handle))
}

func end(what any) {
	switch what := what.(type) {
	case *created:
		what.Discard()
	case io.Closer:
		what.Close()
	}
}

// openHead opens a file and sends its beginning. A file that ends there needs
// no handle.
func (s *sftpServer) openHead(id uint32, name string, most uint32) {
	f, err := s.files.Open(s.ctx, name)
	if err != nil {
		s.answer(id, err)
		return
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		s.answer(id, err)
		return
	}
	// One byte more than there should be tells the end without another read;
	// what says that it is empty may be one of the kernel's own files.
	size := int64(most)
	if n := info.Size(); 0 < n && n < size {
		size = n + 1
	}
	head := make([]byte, size)
	n, err := io.ReadFull(f, head)
	ended := err == io.EOF && most > 0 || err == io.ErrUnexpectedEOF
	if err != nil && !ended && err != io.EOF {
		f.Close()
		s.answer(id, err)
		return
	}
	handle := ""
	if ended || s.ctx.Err() != nil {
		f.Close()
	} else if handle, err = s.keep(f); err != nil {
		f.Close()
		s.answer(id, err)
		return
	}
	p := sshwire.NewPacket(make([]byte, 0, n+128), sshwire.SFTPReply, id).Text(handle).Attrs(attrsOf(info)).Bytes(head[:n])
	if ended {
		p = p.Byte(1)
	} else {
		p = p.Byte(0)
	}
	s.send(p)
}

func (s *sftpServer) removeAll(id uint32, name string) {
	err := s.files.RemoveAll(s.ctx, name)
	if err == nil {
		s.answer(id, nil)
		return
	}
	// It is about several files: the text names them.
	s.send(sshwire.NewPacket(nil, sshwire.SFTPStatus, id).Status(err))
}

// list reads a directory. The first names come with the answer if the client
// takes them.
func (s *sftpServer) list(id uint32, name string, names bool) {
	all, err := s.files.ReadDir(s.ctx, name)
	l := &listing{rest: all}
	if err != nil || !names {
		s.handle(id, l, err)
		return
	}
	part := l.next(id, true)
	handle := ""
	if len(l.rest) > 0 {
		if handle, err = s.keep(l); err != nil {
			s.answer(id, err)
			return
		}
	}
	p := sshwire.NewPacket(make([]byte, 0, len(part)+64), sshwire.SFTPReply, id).Text(handle)
	s.send(append(p, part...))
}

// next takes names off a listing: their number, and each with its attributes.
func (l *listing) next(id uint32, sparse bool) sshwire.Packet {
	p := sshwire.Packet(make([]byte, 0, 4<<10)).U32(0)
	n := uint32(0)
	for len(l.rest) > 0 && len(p) < maxSFTPNames {
		e := l.rest[0]
		l.rest = l.rest[1:]
		a := sshwire.Attrs{Has: sshwire.AttrMode, Mode: sshwire.PosixMode(e.Type())}
		if info, err := e.Info(); err == nil { // else it has gone meanwhile
			a = attrsOf(info)
		}
		p = p.Text(e.Name())
		if sparse {
			p = p.Text("")
		} else {
			p = p.Text(e.Type().String() + " " + e.Name()) // what other clients show
		}
		p = p.Attrs(a)
		n++
	}
	copy(p, sshwire.Packet(nil).U32(n))
	return p
}
