package files

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// conn is one connection. Who holds sem uses it; sock, wake, closed, retired,
// waited and shut are also looked at by others, under the client's lock.
//
// Its calls block a thread instead of parking a goroutine: an answer is a few
// microseconds away, less than the way through the poller.
type conn struct {
	client *Client
	slot   int
	sem    chan struct{}

	sock    *os.File // nil until the first use
	fd      int      // of sock
	wake    int      // an eventfd; readable when a context is done
	closed  bool
	retired bool // no longer in its slot

	seq     uint32
	waits   uint64 // that a context could end, so far
	waited  uint64 // the last of them that ended while its context did
	shut    bool   // by an interrupt
	stale   bool   // answers to earlier requests may come first
	handles int    // files created here and not ended
	out     packet
	in, oob []byte
}

// notSentError says that a request never left: it may be sent again elsewhere.
type notSentError struct{ error }

func (e notSentError) Unwrap() error { return e.error }

// dial connects unless that is done.
func (k *conn) dial(ctx context.Context) error {
	if k.sock != nil {
		return nil
	}
	sock, err := k.client.dial(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("connect: %w", err)
	}
	fd := int(sock.Fd())
	if err := checkSocket(fd); err != nil {
		sock.Close()
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		sock.Close()
		return err
	}
	k.in, k.oob = make([]byte, maxReply+1), make([]byte, unix.CmsgSpace(4))
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	k.sock, k.fd, k.wake = sock, fd, wake
	if k.client.closed {
		return errGone
	}
	return nil
}

// send sends a request.
func (k *conn) send(r *request) error {
	k.seq++
	r.seq = k.seq
	k.out = r.append(k.out[:0])
	for {
		// A server that lets requests pile up is no server.
		err := unix.Sendmsg(k.fd, k.out, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			return nil
		case unix.EINTR:
		default:
			return notSentError{err}
		}
	}
}

// receive waits for the next message of the answer to the last request and
// returns it with the descriptor that came with it, or -1. Its error is that of
// the context or of the connection.
func (k *conn) receive(ctx context.Context) (kind byte, b body, fd int, err error) {
	poll := false
	if ctx.Done() != nil {
		// Files that were begun here need the connection whatever becomes of this
		// call. Otherwise to shut it down ends the wait, for less than a poll costs.
		poll = k.handles > 0
		k.waits++
		this := k.waits
		stop := context.AfterFunc(ctx, func() { k.interrupt(this, poll) })
		defer func() {
			if !stop() {
				k.client.mu.Lock()
				k.waited = this
				k.client.mu.Unlock()
			}
		}()
	}
	for {
		if poll {
			if err := k.wait(ctx); err != nil {
				return 0, body{}, -1, err
			}
		}
		n, fd, err := k.message()
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return 0, body{}, -1, err
		}
		b := body{rest: k.in[:n]}
		kind, seq := b.byte(), b.u32()
		if seq == k.seq && !b.bad {
			k.stale = false
			return kind, b, fd, nil
		}
		if fd >= 0 {
			unix.Close(fd)
		}
		if b.bad || !k.stale || int32(k.seq-seq) < 0 {
			return 0, body{}, -1, errReply
		}
	}
}

// interrupt ends the wait of that number, unless it has ended.
func (k *conn) interrupt(wait uint64, poll bool) {
	k.client.mu.Lock()
	defer k.client.mu.Unlock()
	switch {
	case k.closed || k.waited >= wait:
	case poll:
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(k.wake, one)
	default:
		k.shut = true
		_ = unix.Shutdown(k.fd, unix.SHUT_RDWR)
	}
}

// wait returns nil when there is something to receive.
func (k *conn) wait(ctx context.Context) error {
	for {
		fds := [...]unix.PollFd{{Fd: int32(k.fd), Events: unix.POLLIN}, {Fd: int32(k.wake), Events: unix.POLLIN}}
		_, err := unix.Poll(fds[:], -1)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return err
		}
		if fds[1].Revents != 0 { // of this wait or one before
			var n [8]byte
			_, _ = unix.Read(k.wake, n[:])
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if fds[0].Revents != 0 {
			return nil
		}
	}
}

// message receives one message into k.in.
func (k *conn) message() (n, fd int, err error) {
	for {
		var oobn, flags int
		n, oobn, flags, _, err = unix.Recvmsg(k.fd, k.in, k.oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, -1, err
		}
		fds, ok := rights(k.oob[:oobn])
		switch {
		case !ok || len(fds) > 1 || n > maxReply || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			err = errReply
		case n == 0:
			err = io.ErrUnexpectedEOF
		case len(fds) == 1:
			return n, fds[0], nil
		default:
			return n, -1, nil
		}
		for _, fd := range fds {
			unix.Close(fd)
		}
		return 0, -1, err
	}
}

// rights returns the descriptors that came with a message; ok is false when
// anything else came too.
func rights(oob []byte) (fds []int, ok bool) {
	if len(oob) == 0 {
		return nil, true
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	ok = err == nil
	for i := range msgs {
		some, err := unix.ParseUnixRights(&msgs[i])
		fds = append(fds, some...)
		ok = ok && err == nil
	}
	return fds, ok
}

// verify refuses a descriptor that is not what was asked for: a regular file
// open for reading, or for writing.
func verify(fd, access int) error {
	if fd < 0 {
		return errReply
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return errReply
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || flags&unix.O_ACCMODE != access || flags&(unix.O_PATH|unix.O_ASYNC) != 0 {
		return errReply
	}
	if access == unix.O_RDONLY {
		return nil
	}
	// The files of these are calls to the kernel, and it looks at who writes:
	// us, where the box could not.
	var sfs unix.Statfs_t
	if err := unix.Fstatfs(fd, &sfs); err != nil {
		return errReply
	}
	switch uint32(sfs.Type) {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
		unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.EFIVARFS_MAGIC,
		unix.BPF_FS_MAGIC, unix.BINFMTFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC, unix.NSFS_MAGIC:
		return errReply
	}
	return nil
}

var errGone = errors.New("connection to the file server was closed")
