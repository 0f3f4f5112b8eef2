package serve

import (
	"io"
	"io/fs"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// request takes one packet apart and does what it asks for. An error ends the
// connection.
func (s *sftpServer) request(kind byte, id uint32, b *sshwire.Body) error {
	if kind != sshwire.SFTPExtended {
		return s.handleRequest(kind, id, b)
	}
	op := b.Text(256)
	if op == sshwire.SFTPCommit {
		return s.commit(id, b)
	}
	name := b.Text(sshwire.MaxSFTP)
	var perm fs.FileMode
	var how, most uint32
	switch op {
	case sshwire.SFTPOpen:
		most = min(b.U32(), maxSFTPData)
	case sshwire.SFTPCreate:
		perm, how = fs.FileMode(b.U32()).Perm(), b.U32()
	case sshwire.SFTPMake, sshwire.SFTPMkdirAll:
		perm = fs.FileMode(b.U32()).Perm()
	}
	if b.Bad {
		return sshwire.ErrSFTP
	}
	if len(name) > maxSFTPPath {
		s.answer(id, syscall.ENAMETOOLONG)
		return nil
	}
	switch op {
	case sshwire.SFTPOpen:
		s.aside(false, func() { s.openHead(id, name, most) })
	case sshwire.SFTPCreate:
		s.create(id, name, sandbox.CreateOptions{Perm: perm, New: how&sshwire.CreateNew != 0, Sync: how&sshwire.CreateSync != 0})
	case sshwire.SFTPMake:
		s.answer(id, s.files.Mkdir(s.ctx, name, perm))
	case sshwire.SFTPMkdirAll:
		s.aside(true, func() { s.answer(id, s.files.MkdirAll(s.ctx, name, perm)) })
	case sshwire.SFTPRemoveAll:
		s.aside(true, func() { s.removeAll(id, name) })
	default:
		s.send(sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(sshwire.StatusUnsupported).Text("not supported").Text("en"))
	}
	return nil
}

func attrsOf(info fs.FileInfo) sshwire.Attrs {
	return sshwire.Attrs{
		Has:  sshwire.AttrSize | sshwire.AttrMode | sshwire.AttrTimes | sshwire.AttrExact,
		Size: uint64(info.Size()), Mode: sshwire.PosixMode(info.Mode()), Mtime: info.ModTime().UnixNano(), Ino: inode(info),
	}
}

func (s *sftpServer) create(id uint32, name string, opt sandbox.CreateOptions) {
	f, err := s.files.Create(s.ctx, name, opt)
	if err != nil {
		s.answer(id, err)
		return
	}
	s.handle(id, &created{AtomicFile: f})
}

// handle answers with a handle for what was opened.
func (s *sftpServer) handle(id uint32, what *created) {
	handle, err := s.keep(what)
	if err != nil {
		what.Discard()
		s.answer(id, err)
		return
	}
	s.send(sshwire.NewPacket(nil, sshwire.SFTPHandle, id).Text(handle))
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
