package serve

import (
	"errors"
	"io/fs"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// handleRequest does what is asked of something open.
func (s *sftpServer) handleRequest(kind byte, id uint32, b *sshwire.Body) error {
	handle := b.Text(256)
	var off uint64
	var size uint32
	var data []byte
	switch kind {
	case sshwire.SFTPRead:
		off, size = b.U64(), b.U32()
	case sshwire.SFTPWrite:
		off, data = b.U64(), b.Bytes(sshwire.MaxSFTP)
	}
	if b.Bad {
		return sshwire.ErrSFTP
	}
	what := s.lookup(handle)
	if kind == sshwire.SFTPClose {
		s.close(id, s.forget(handle))
		return nil
	}
	switch what := what.(type) {
	case sandbox.File:
		switch kind {
		case sshwire.SFTPRead:
			s.aside(false, func() { s.read(id, what, off, size) })
			return nil
		case sshwire.SFTPFstat:
			s.stat(id, what)
			return nil
		}
	case *created:
		if kind == sshwire.SFTPWrite {
			s.answer(id, what.write(off, data))
			return nil
		}
	default:
		s.answer(id, errHandle)
		return nil
	}
	s.answer(id, errors.New("not supported for what this is"))
	return nil
}

func (s *sftpServer) close(id uint32, what any) {
	switch what := what.(type) {
	case nil:
		s.answer(id, errHandle)
	case *created:
		s.answer(id, what.Discard())
	case sandbox.File:
		s.answer(id, what.Close())
	}
}

// commit ends a file that SFTPCreate began, whatever comes of it.
func (s *sftpServer) commit(id uint32, b *sshwire.Body) error {
	handle := b.Text(256)
	if b.Bad {
		return sshwire.ErrSFTP
	}
	f, ok := s.lookup(handle).(*created)
	if !ok {
		s.answer(id, errHandle)
		return nil
	}
	s.forget(handle)
	s.aside(true, func() { s.answer(id, f.Commit()) })
	return nil
}

// write appends: a file is written front to back.
func (c *created) write(off uint64, data []byte) error {
	if off != c.size {
		return fs.ErrInvalid
	}
	n, err := c.Write(data)
	c.size += uint64(n)
	return err
}

func (s *sftpServer) stat(id uint32, f sandbox.File) {
	info, err := f.Stat()
	if err != nil {
		s.answer(id, err)
		return
	}
	s.send(sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).Attrs(attrsOf(info)))
}

func (s *sftpServer) read(id uint32, f sandbox.File, off uint64, size uint32) {
	if int64(off) < 0 {
		s.answer(id, fs.ErrInvalid)
		return
	}
	// The data stands where the packet has it.
	size = min(size, maxSFTPData)
	p := sshwire.NewPacket(make([]byte, 0, 13+size), sshwire.SFTPData, id).U32(0)
	at := len(p)
	data := p[at : at+int(size)]
	n, err := f.ReadAt(data, int64(off))
	if n == 0 && err != nil {
		s.answer(id, err)
		return
	}
	copy(p[at-4:], sshwire.Packet(nil).U32(uint32(n)))
	s.send(p[:at+n])
}
