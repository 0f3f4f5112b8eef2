package sshbox

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Bounds of one sftp connection.
const (
	maxSFTPCalls    = 64       // without an answer
	maxSFTPForsaken = 32       // of them, that somebody has waited for in vain
	maxSFTPAnswer   = 16 << 10 // bytes of an answer that holds neither data nor names
	maxSFTPPath     = 4096
)

var (
	errSFTPSilent = errors.New("too many requests were never answered")
	errSFTPSize   = errors.New("an answer is larger than was asked for")
	errSFTPID     = errors.New("an answer to nothing that was asked")
)

// sftpConn is one connection: requests go out in the order they were started,
// answers come in any. Nothing the server says is trusted: what it sends is
// bounded by what was asked, and what does not fit ends the connection.
type sftpConn struct {
	rw    io.ReadWriteCloser
	out   chan []byte   // frames to be written
	slots chan struct{} // one for each call without an answer
	done  chan struct{} // closed at the end

	guest bool            // the server is ours
	ext   map[string]bool // extensions of a stock server

	mu       sync.Mutex
	err      error // why it ended
	last     uint32
	calls    map[uint32]*sftpCall
	forsaken int
}

// sftpCall is a request on its way.
type sftpCall struct {
	most   int            // bytes of the answer
	answer chan sftpReply // of one
	late   func(sftpReply)
	left   bool // nobody waits
	counts bool // as forsaken: somebody did wait
}

// sftpReply is an answer without its id.
type sftpReply struct {
	kind byte
	body sshwire.Body
}

// dialSFTP greets the server on rw, which it owns.
func dialSFTP(ctx context.Context, rw io.ReadWriteCloser) (*sftpConn, error) {
	k := &sftpConn{
		rw: rw, out: make(chan []byte, 16), slots: make(chan struct{}, maxSFTPCalls), done: make(chan struct{}),
		ext: map[string]bool{}, calls: map[uint32]*sftpCall{},
	}
	in := bufio.NewReaderSize(rw, 64<<10)
	stop := context.AfterFunc(ctx, func() { rw.Close() })
	err := k.greet(in)
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		rw.Close()
		return nil, err
	}
	go k.write()
	go k.read(in)
	return k, nil
}

func (k *sftpConn) greet(in io.Reader) error {
	if _, err := k.rw.Write(sshwire.NewPacket(nil, sshwire.SFTPInit, 3).Frame()); err != nil {
		return err
	}
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return fmt.Errorf("sftp version: %w", err)
	}
	n := binary.BigEndian.Uint32(head[:])
	if n < 5 || n > maxSFTPAnswer {
		return sshwire.ErrSFTP
	}
	buf := make([]byte, n)
	if _, err := io.ReadFull(in, buf); err != nil {
		return fmt.Errorf("sftp version: %w", err)
	}
	b := sshwire.Body{Rest: buf}
	if kind, version := b.Byte(), b.U32(); kind != sshwire.SFTPVersion || version != 3 {
		return fmt.Errorf("sftp version %d is not 3", version)
	}
	for len(b.Rest) > 0 && !b.Bad {
		name, version := b.Text(maxSFTPAnswer), b.Text(maxSFTPAnswer)
		k.ext[name] = version != "0"
	}
	k.guest = k.ext[sshwire.ExtensionFiles]
	if b.Bad {
		return sshwire.ErrSFTP
	}
	return nil
}

// fail ends the connection and every call on it.
func (k *sftpConn) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		if !errors.Is(err, sandbox.ErrClosed) {
			err = fmt.Errorf("%w: %w", sandbox.ErrLost, err)
		}
		k.err = err
		close(k.done)
		go k.rw.Close() // it may wait for the other side
	}
}

func (k *sftpConn) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// write sends what is queued, as much at once as there is.
func (k *sftpConn) write() {
	w := bufio.NewWriterSize(k.rw, 64<<10)
	for {
		var frame []byte
		select {
		case frame = <-k.out:
		default:
			if err := w.Flush(); err != nil {
				k.fail(err)
				return
			}
			select {
			case frame = <-k.out:
			case <-k.done:
				return
			}
		}
		if _, err := w.Write(frame); err != nil {
			k.fail(err)
			return
		}
	}
}

// read hands out answers.
func (k *sftpConn) read(in io.Reader) {
	var head [9]byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			k.fail(err)
			return
		}
		n := int64(binary.BigEndian.Uint32(head[:])) - 5
		call := k.take(binary.BigEndian.Uint32(head[5:]))
		switch {
		case call == nil:
			k.fail(errSFTPID)
			return
		case n < 0:
			k.fail(sshwire.ErrSFTP)
			return
		case n > int64(call.most):
			k.fail(errSFTPSize)
			return
		}
		buf := make([]byte, n)
		if _, err := io.ReadFull(in, buf); err != nil {
			k.fail(err)
			return
		}
		k.deliver(call, sftpReply{head[4], sshwire.Body{Rest: buf}})
	}
}

func (k *sftpConn) take(id uint32) *sftpCall {
	k.mu.Lock()
	defer k.mu.Unlock()
	call := k.calls[id]
	delete(k.calls, id)
	return call
}

func (k *sftpConn) deliver(call *sftpCall, r sftpReply) {
	k.mu.Lock()
	left := call.left
	if call.counts {
		k.forsaken--
	}
	if !left {
		call.answer <- r
	}
	k.mu.Unlock()
	<-k.slots
	if left && call.late != nil {
		go call.late(r)
	}
}
