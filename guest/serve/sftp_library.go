package serve

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/pkg/sftp"

	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// library is pkg/sftp's server, which gets the packets that are SFTP's own.
type library struct {
	in   *io.PipeWriter
	done chan struct{} // closed when it has ended

	mu      sync.Mutex
	change  uint32        // the id of a request that changes something
	changed chan struct{} // closed when it has, or nil
}

func (s *sftpServer) startLibrary() *library {
	r, w := io.Pipe()
	dir, err := os.Getwd()
	if err != nil {
		dir = "/"
	}
	h := &handlers{ctx: s.ctx, files: s.files, dir: dir}
	l := &library{in: w, done: make(chan struct{})}
	server := sftp.NewRequestServer(&packets{PipeReader: r, s: s, answered: l.answered}, sftp.Handlers{FileGet: h, FilePut: h, FileCmd: h, FileList: h},
		sftp.WithStartDirectory(dir), sftp.WithRSMaxTxPacket(maxSFTPData))
	go func() {
		defer close(l.done)
		// The second is an end with something open: no packet comes in part.
		if err := server.Serve(); err != io.EOF && err != io.ErrUnexpectedEOF { // a malformed packet
			s.fail(sshwire.ErrSFTP)
			if out, ok := s.out.(io.Closer); ok { // the client is told now, not with its next packet
				out.Close()
			}
		}
		r.CloseWithError(sshwire.ErrSFTP) // for who writes on: it takes no more
	}()
	return l
}

// pass gives it a packet, and waits for what changes something: the next request
// finds it done, whoever serves that.
func (l *library) pass(head, body []byte) error {
	var done chan struct{}
	switch body[0] {
	case sshwire.SFTPRemove, sshwire.SFTPRmdir, sshwire.SFTPMkdir, sshwire.SFTPRename, sshwire.SFTPExtended:
		done = make(chan struct{})
		l.mu.Lock()
		l.change, l.changed = binary.BigEndian.Uint32(body[1:]), done
		l.mu.Unlock()
	}
	if _, err := l.in.Write(slices.Concat(head, body)); err != nil {
		return sshwire.ErrSFTP // it has ended for one
	}
	if done != nil {
		select {
		case <-done:
		case <-l.done:
		}
	}
	return nil
}

// answered is told of each answer.
func (l *library) answered(id uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil && id == l.change {
		close(l.changed)
		l.changed = nil
	}
}

// end tells that no more packets come. What is open is closed, and files that
// are being written are dropped.
func (l *library) end() { l.in.Close() }

// packets is what pkg/sftp serves on: what it writes in pieces goes out as whole
// packets, among the others.
type packets struct {
	*io.PipeReader
	s        *sftpServer
	answered func(id uint32)
	part     []byte
}

func (p *packets) Write(b []byte) (int, error) {
	p.part = append(p.part, b...)
	for len(p.part) >= 4 {
		n := 4 + int(binary.BigEndian.Uint32(p.part))
		if len(p.part) < n {
			break
		}
		p.s.sendFrame(p.part[:n])
		if n >= 9 {
			p.answered(binary.BigEndian.Uint32(p.part[5:]))
		}
		p.part = append(p.part[:0], p.part[n:]...)
	}
	return len(b), p.s.failed()
}

// handlers do what pkg/sftp is asked for, with the files everything here goes
// through. Files are read, or written as a whole: they appear when they are
// closed. Modes do not come through: it drops those that an open or a mkdir
// asks for. It answers in the order it was asked, and looks up the name again
// for the FSTAT of what is open.
type handlers struct {
	ctx   context.Context
	files *files.Files
	dir   string
	open  atomic.Int32
}

// keep counts what is open, up to the bound.
func (h *handlers) keep() error {
	if h.open.Add(1) > maxSFTPHandles {
		h.open.Add(-1)
		return syscall.EMFILE
	}
	return nil
}

func (h *handlers) Fileread(r *sftp.Request) (io.ReaderAt, error) {
	f, err := h.files.Open(h.ctx, r.Filepath)
	if err != nil {
		return nil, refusal(err)
	}
	if err := h.keep(); err != nil {
		f.Close()
		return nil, refusal(err)
	}
	return &reading{f, h}, nil
}

func (h *handlers) Filewrite(r *sftp.Request) (io.WriterAt, error) {
	how := r.Pflags()
	if how.Append || !how.Creat || !how.Trunc && !how.Excl {
		return nil, refusal(errors.New("files are read, or written as a whole"))
	}
	f, err := h.files.Create(h.ctx, r.Filepath, sandbox.CreateOptions{New: how.Excl})
	if err != nil {
		return nil, refusal(err)
	}
	if err := h.keep(); err != nil {
		f.Discard()
		return nil, refusal(err)
	}
	return &writing{file: f.(wholeFile), h: h}, nil
}

func (h *handlers) Filecmd(r *sftp.Request) error {
	switch r.Method {
	case "Mkdir":
		return refusal(h.files.Mkdir(h.ctx, r.Filepath, 0o777))
	case "Remove", "Rmdir":
		return refusal(h.files.Remove(h.ctx, r.Filepath))
	case "Rename": // which replaces nothing that is there already
		_, err := h.files.Stat(h.ctx, r.Target)
		if err == nil {
			err = fs.ErrExist
		} else if errors.Is(err, fs.ErrNotExist) {
			return h.PosixRename(r)
		}
		return refusal(err)
	}
	return sftp.ErrSSHFxOpUnsupported
}

// PosixRename renames, and replaces.
func (h *handlers) PosixRename(r *sftp.Request) error {
	return refusal(h.files.Rename(h.ctx, r.Filepath, r.Target))
}

func (h *handlers) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	switch r.Method {
	case "List":
		list, err := h.files.ReadDir(h.ctx, r.Filepath)
		if err != nil {
			return nil, refusal(err)
		}
		if err := h.keep(); err != nil {
			return nil, refusal(err)
		}
		e := &entries{h: h}
		for _, entry := range list {
			if info, err := entry.Info(); err == nil { // else it has gone meanwhile
				e.list = append(e.list, exactInfo{info})
			}
		}
		return e, nil
	case "Stat":
		real, err := h.files.Resolve(h.ctx, r.Filepath)
		if err != nil {
			return nil, refusal(err)
		}
		return h.describe(real)
	}
	return nil, sftp.ErrSSHFxOpUnsupported
}

// Lstat describes a link itself.
func (h *handlers) Lstat(r *sftp.Request) (sftp.ListerAt, error) { return h.describe(r.Filepath) }

func (h *handlers) describe(name string) (sftp.ListerAt, error) {
	if len(name) > maxSFTPPath {
		return nil, refusal(syscall.ENAMETOOLONG)
	}
	info, err := h.files.Stat(h.ctx, name)
	if err != nil {
		return nil, refusal(err)
	}
	return one{exactInfo{info}}, nil
}

// RealPath follows links, and keeps what does not exist.
func (h *handlers) RealPath(name string) (string, error) {
	if !path.IsAbs(name) {
		name = h.dir + "/" + name
	}
	real, err := h.files.Resolve(h.ctx, name)
	return real, refusal(err)
}

// reading is a file that is read.
type reading struct {
	sandbox.File
	h *handlers
}

func (f *reading) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, refusal(fs.ErrInvalid)
	}
	n, err := f.File.ReadAt(p, off)
	if err != nil && err != io.EOF {
		err = refusal(err)
	}
	return n, err
}

func (f *reading) Close() error {
	f.h.open.Add(-1)
	return refusal(f.File.Close())
}

// wholeFile can be written in any order, as pkg/sftp does.
type wholeFile interface {
	sandbox.AtomicFile
	io.WriterAt
}

// writing is a file that appears when it is closed, unless a write has failed.
type writing struct {
	h    *handlers
	mu   sync.Mutex
	file wholeFile
	err  error
}

func (f *writing) WriteAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < 0 {
		f.err = fs.ErrInvalid
	}
	if f.err != nil {
		return 0, refusal(f.err)
	}
	n, err := f.file.WriteAt(p, off)
	f.err = err
	return n, refusal(err)
}

// TransferError is called before Close when the stream has ended.
func (f *writing) TransferError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *writing) Close() error {
	f.h.open.Add(-1)
	if f.err != nil {
		f.file.Discard()
		return refusal(f.err)
	}
	return refusal(f.file.Commit())
}

// entries are what is in a directory.
type entries struct {
	list []fs.FileInfo
	h    *handlers
}

func (e *entries) ListAt(to []fs.FileInfo, at int64) (int, error) {
	n := copy(to, e.list[min(at, int64(len(e.list))):])
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (e *entries) Close() error {
	e.h.open.Add(-1)
	return nil
}

// one is one file.
type one struct{ fs.FileInfo }

func (o one) ListAt(to []fs.FileInfo, _ int64) (int, error) {
	return copy(to, []fs.FileInfo{o.FileInfo}), nil
}

// exactInfo adds what SFTP's own attributes leave out.
type exactInfo struct{ fs.FileInfo }

func (i exactInfo) Extended() []sftp.StatExtended {
	exact := sshwire.Packet(nil).U64(uint64(i.ModTime().UnixNano())).U64(inode(i.FileInfo))
	return []sftp.StatExtended{{ExtType: sshwire.AttrsExact, ExtData: string(exact)}}
}

// refused is an error as pkg/sftp sends it: its text, and the code of what it
// wraps.
type refused struct {
	line string
	code error
}

func (r *refused) Error() string { return r.line }
func (r *refused) Unwrap() error { return r.code }

func refusal(err error) error {
	if err == nil {
		return nil
	}
	f := sshwire.NewFailure(cause(err))
	switch {
	case f.Is(fs.ErrNotExist):
		return &refused{f.Line(), sftp.ErrSSHFxNoSuchFile}
	case f.Is(fs.ErrPermission):
		return &refused{f.Line(), sftp.ErrSSHFxPermissionDenied}
	}
	return &refused{f.Line(), sftp.ErrSSHFxFailure}
}
