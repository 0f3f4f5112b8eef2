package sshbox

import (
	"context"
	"io/fs"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// writeAhead is how many bytes of one file may be on their way.
const writeAhead = 1 << 20

// upload writes an open file front to back, without waiting for one packet
// before the next.
type upload struct {
	ctx    context.Context
	k      *sftpConn
	handle string
	chunk  int

	mu    sync.Mutex
	buf   []byte // not sent yet
	off   int64  // where buf goes
	calls []*sftpCall
	err   error // of the first write that failed
	done  bool
}

func (u *upload) write(p []byte) (int, error) {
	n := 0
	for n < len(p) && u.err == nil {
		take := min(u.chunk-len(u.buf), len(p)-n)
		u.buf = append(u.buf, p[n:n+take]...)
		n += take
		if len(u.buf) == u.chunk {
			u.flush()
		}
	}
	if u.err != nil {
		return 0, u.err
	}
	return n, nil
}

// flush sends what is left to send.
func (u *upload) flush() {
	if len(u.buf) == 0 || u.err != nil {
		return
	}
	for len(u.calls) >= writeAhead/u.chunk && u.err == nil {
		u.wait()
	}
	if u.err != nil {
		return
	}
	call, err := u.k.start(u.ctx, 0, func(id uint32) sshwire.Packet {
		p := make([]byte, 0, len(u.buf)+len(u.handle)+64)
		return sshwire.NewPacket(p, sshwire.SFTPWrite, id).Text(u.handle).U64(uint64(u.off)).Bytes(u.buf)
	})
	if err != nil {
		u.err = err
		return
	}
	u.off += int64(len(u.buf))
	u.buf = u.buf[:0]
	u.calls = append(u.calls, call)
}

// wait waits for the first write that is on its way.
func (u *upload) wait() {
	r, err := u.k.wait(u.ctx, u.calls[0], nil)
	u.calls = u.calls[1:]
	if err == nil {
		err = u.k.refusal(&r)
	}
	if err != nil && u.err == nil {
		u.err = err
	}
}

// settle waits until every write has been answered and returns the first
// error.
func (u *upload) settle() error {
	for len(u.calls) > 0 {
		u.wait()
	}
	return u.err
}

// guestFile is a file that a guest keeps invisible until it is committed.
type guestFile struct {
	name string
	upload
}

func (f *guestFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return 0, pathError("write", f.name, fs.ErrClosed)
	}
	n, err := f.write(p)
	return n, pathError("write", f.name, err)
}

// Commit sends the last bytes and the order to commit together: the guest
// refuses it when a write has failed.
func (f *guestFile) Commit() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.done {
		return pathError("commit", f.name, fs.ErrClosed)
	}
	f.flush()
	if f.err != nil {
		f.drop()
		return pathError("commit", f.name, f.err)
	}
	f.done = true
	call, err := f.k.start(f.ctx, 0, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPCommit, id).Text(f.handle)
	})
	if err != nil {
		f.done = false
		f.drop()
		return pathError("commit", f.name, err)
	}
	if err = f.settle(); err != nil {
		f.k.forsake(f.calls...)
	}
	r, werr := f.k.wait(f.ctx, call, nil)
	if werr == nil {
		werr = f.k.refusal(&r)
	}
	if err == nil {
		err = werr
	}
	return pathError("commit", f.name, err)
}

func (f *guestFile) Discard() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop()
	return nil
}

// drop tells the guest to forget the file, and waits until it has if it may.
func (f *guestFile) drop() {
	if f.done {
		return
	}
	f.done = true
	f.k.forsake(f.calls...)
	if f.ctx.Err() != nil {
		go f.k.closeLater(f.handle)
		return
	}
	_ = f.k.status(f.ctx, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPClose, id).Text(f.handle)
	})
}
