package sshbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// readAhead is how many bytes of one file may be on their way.
const readAhead = 1 << 20

// remoteFile is an open file. What comes with its opening is read from memory;
// who reads on in order is read ahead for.
type remoteFile struct {
	ctx    context.Context
	k      *sftpConn
	name   string
	handle string // "" when head is all of it
	info   fileInfo
	head   []byte
	chunk  int

	mu     sync.Mutex
	closed bool
	pos    int64
	rest   []byte      // what comes at pos
	ahead  []*sftpCall // and after it, a chunk each
	window int         // how many of them
}

func newRemoteFile(ctx context.Context, k *sftpConn, name, handle string, chunk int) *remoteFile {
	return &remoteFile{ctx: ctx, k: k, name: name, handle: handle, info: fileInfo{name: path.Base(name)}, chunk: chunk, window: 1}
}

func (f *remoteFile) Stat() (fs.FileInfo, error) { return &f.info, nil }

func (f *remoteFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.turnBack()
	if f.handle != "" {
		go f.k.closeLater(f.handle)
	}
	return nil
}

// turnBack forgets what was read ahead.
func (f *remoteFile) turnBack() {
	f.k.forsake(f.ahead...)
	f.ahead, f.rest = nil, nil
}

func (f *remoteFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, pathError("seek", f.name, fs.ErrClosed)
	case whence == io.SeekCurrent:
		offset += f.pos
	case whence == io.SeekEnd:
		size, err := f.size()
		if err != nil {
			return 0, pathError("seek", f.name, err)
		}
		offset += size
	case whence != io.SeekStart:
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset < 0 {
		return 0, pathError("seek", f.name, fs.ErrInvalid)
	}
	if offset != f.pos {
		f.turnBack()
		f.pos, f.window = offset, 1
	}
	return offset, nil
}

// size is how long the file is now.
func (f *remoteFile) size() (int64, error) {
	if f.handle == "" {
		return int64(len(f.head)), nil
	}
	r, err := f.k.do(f.ctx, 0, nil, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPFstat, id).Text(f.handle)
	})
	if err != nil {
		return 0, err
	}
	info, err := f.k.info(f.name, &r)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *remoteFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case len(p) == 0:
		return 0, nil
	case f.pos < int64(len(f.head)):
		n := copy(p, f.head[f.pos:])
		f.pos += int64(n)
		return n, nil
	case f.handle == "":
		return 0, io.EOF
	}
	if len(f.rest) == 0 {
		if err := f.next(); err != nil {
			f.turnBack()
			if err == io.EOF {
				return 0, err
			}
			return 0, pathError("read", f.name, err)
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	f.pos += int64(n)
	return n, nil
}

// next gets the chunk at pos, and asks for those after it as far as the file
// is thought to go.
func (f *remoteFile) next() error {
	for len(f.ahead) < f.window {
		at := f.pos + int64(len(f.ahead)*f.chunk)
		if len(f.ahead) > 0 && at >= f.info.Size() {
			break
		}
		call, err := f.start(at, f.chunk)
		if err != nil {
			return err
		}
		f.ahead = append(f.ahead, call)
	}
	call := f.ahead[0]
	f.ahead = f.ahead[1:]
	data, err := f.wait(call, f.chunk)
	if err != nil {
		return err
	}
	f.rest = data
	if len(data) < f.chunk { // what was read ahead is not what comes next
		f.k.forsake(f.ahead...)
		f.ahead, f.window = nil, 1
	} else {
		f.window = min(f.window*2, readAhead/f.chunk)
	}
	return nil
}

func (f *remoteFile) start(off int64, n int) (*sftpCall, error) {
	return f.k.start(f.ctx, n+16, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPRead, id).Text(f.handle).U64(uint64(off)).U32(uint32(n))
	})
}

// wait is the data of a read of at most n bytes: some, or io.EOF.
func (f *remoteFile) wait(call *sftpCall, n int) ([]byte, error) {
	r, err := f.k.wait(f.ctx, call, nil)
	if err != nil {
		return nil, err
	}
	if r.kind != sshwire.SFTPData {
		return nil, f.k.unexpected(&r)
	}
	data := r.body.Bytes(n)
	if !r.body.End() || len(data) == 0 {
		return nil, f.k.broken()
	}
	return data, nil
}

func (f *remoteFile) ReadAt(p []byte, off int64) (int, error) {
	f.mu.Lock()
	closed := f.closed
	f.mu.Unlock()
	switch {
	case closed:
		return 0, pathError("read", f.name, fs.ErrClosed)
	case off < 0:
		return 0, pathError("read", f.name, fs.ErrInvalid)
	case len(p) == 0:
		return 0, nil
	}
	n := 0
	if off < int64(len(f.head)) {
		n = copy(p, f.head[off:])
	}
	for n < len(p) {
		if f.handle == "" {
			return n, io.EOF
		}
		got, err := f.readSome(p[n:], off+int64(n))
		if n += got; err != nil {
			if errors.Is(err, io.EOF) {
				return n, io.EOF
			}
			return n, pathError("read", f.name, err)
		}
	}
	return n, nil
}

// readSome reads several chunks at once, up to the first that is short.
func (f *remoteFile) readSome(p []byte, off int64) (n int, err error) {
	p = p[:min(len(p), readAhead)]
	var calls []*sftpCall
	defer func() { f.k.forsake(calls...) }()
	for at := 0; at < len(p); at += f.chunk {
		call, err := f.start(off+int64(at), min(f.chunk, len(p)-at))
		if err != nil {
			return 0, err
		}
		calls = append(calls, call)
	}
	for n < len(p) {
		want := min(f.chunk, len(p)-n)
		data, err := f.wait(calls[0], want)
		calls = calls[1:]
		if err != nil {
			return n, err
		}
		n += copy(p[n:], data)
		if len(data) < want {
			break
		}
	}
	return n, nil
}
