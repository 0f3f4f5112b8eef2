package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxHandles bounds the files a client may have begun and not ended.
const maxHandles = 512

// Pair makes the two ends of a connection between a Client and Serve: a pair
// of Unix sockets that keep the bounds of messages (SOCK_SEQPACKET), both
// blocking and close-on-exec.
func Pair() (client, server *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("files: socketpair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "files client"), os.NewFile(uintptr(fds[1]), "files server"), nil
}

// Serve answers the requests of one Client on the socket fd, which Pair made,
// until the client closes its end; then it returns nil. It returns an error,
// and must not be called again, when a request is malformed. What the client
// has created and not committed is discarded. The descriptor stays open.
//
// All that Serve does, it does on the thread that called it, by blocking system
// calls: a caller that has locked and confined its thread has confined Serve.
func Serve(fd int, f *Files) error {
	if err := checkSocket(fd); err != nil {
		return fmt.Errorf("files: serve: %w", err)
	}
	s := &server{
		fd: fd, files: f, open: map[uint32]*atomicFile{},
		in: make([]byte, maxRequest+1), out: make(packet, 0, maxReply+maxText*4),
	}
	defer func() {
		for _, a := range s.open {
			a.Discard()
		}
	}()
	for {
		n, err := s.receive()
		if err == nil && n == 0 {
			return nil
		}
		var r request
		if err == nil {
			r, err = parseRequest(s.in[:n])
		}
		if err == nil {
			err = s.answer(&r)
		}
		if err == unix.EPIPE || err == unix.ECONNRESET {
			return nil // the client has gone, with answers unread
		}
		if err != nil {
			return fmt.Errorf("files: serve: %w", err)
		}
	}
}

func checkSocket(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_SEQPACKET {
		err = errors.New("not a socket that keeps the bounds of messages")
	}
	if err == nil {
		err = unix.SetNonblock(fd, false)
	}
	return err
}

type server struct {
	fd    int
	files *Files
	open  map[uint32]*atomicFile
	last  uint32 // handle given
	in    []byte
	out   packet
}

// receive waits for a request; 0 bytes are the end.
func (s *server) receive() (int, error) {
	for {
		// Without room for them no descriptor is ever taken.
		n, _, flags, _, err := unix.Recvmsg(s.fd, s.in, nil, unix.MSG_CMSG_CLOEXEC)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n > maxRequest || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			return 0, errRequest
		}
		return n, nil
	}
}

// send sends s.out, and with it a descriptor unless that is negative.
func (s *server) send(fd int) error {
	var rights []byte
	if fd >= 0 {
		rights = unix.UnixRights(fd)
	}
	for {
		if err := unix.Sendmsg(s.fd, s.out, rights, nil, unix.MSG_NOSIGNAL); err != unix.EINTR {
			return err
		}
	}
}

// answer does what r asks for. Its error is about the connection.
func (s *server) answer(r *request) error {
	fd := -1
	s.out = newReply(s.out, replyDone, r.seq)
	err, broken := s.do(r, &fd)
	if broken != nil {
		return broken
	}
	if err != nil {
		s.out = newReply(s.out, replyError, r.seq).error(err)
	}
	broken = s.send(fd)
	if broken != nil && err == nil {
		s.undo(r)
	}
	if fd >= 0 && r.op != opCreate {
		unix.Close(fd)
	}
	return broken
}

// do appends the result to s.out. err goes to the client, broken ends the
// connection.
func (s *server) do(r *request, fd *int) (err, broken error) {
	ctx := peer{s.fd}
	switch r.op {
	case opResolve:
		var name string
		if name, err = s.files.Resolve(ctx, r.name); err == nil {
			s.out = s.out.text(name)
		}
	case opOpen:
		var name string
		if name, err = checkName(ctx, "open", r.name); err != nil {
			return err, nil
		}
		if *fd, err = s.files.openRegular(name); err != nil {
			*fd, err = -1, pathError("open", name, err)
		}
	case opCreate:
		return s.create(ctx, r, fd), nil
	case opMake:
		*fd, err = s.files.make(ctx, r.name, r.perm, r.dir)
	case opFind:
		s.find(ctx, append([]string{r.name}, r.more...))
	case opStage:
		if err = s.files.stage(ctx, r.name, r.staged); err == nil && len(r.more) > 0 {
			s.find(ctx, r.more)
		}
	case opCommit, opDiscard:
		a := s.open[r.handle]
		if a == nil {
			return nil, errRequest
		}
		delete(s.open, r.handle)
		if r.op == opDiscard {
			return a.Discard(), nil
		}
		return a.Commit(), nil
	case opReadDir:
		return s.readDir(ctx, r)
	case opStat:
		var st syscall.Stat_t
		var name string
		if name, err = checkName(ctx, "stat", r.name); err != nil {
			return err, nil
		}
		if err = s.files.lstat(name, &st); err != nil {
			return pathError("stat", name, err), nil
		}
		s.out = s.out.stat(&st)
	case opMkdir:
		err = s.files.Mkdir(ctx, r.name, r.perm)
	case opMkdirAll:
		err = s.files.MkdirAll(ctx, r.name, r.perm)
	case opRename:
		err = s.files.Rename(ctx, r.name, r.to)
	case opRemove:
		err = s.files.Remove(ctx, r.name)
	case opRemoveAll:
		err = s.files.RemoveAll(ctx, r.name)
	}
	return err, nil
}

func (s *server) create(ctx context.Context, r *request, fd *int) error {
	if len(s.open) >= maxHandles {
		return pathError("create", r.name, unix.EMFILE)
	}
	a, err := s.files.create(ctx, r.name, sandbox.CreateOptions{
		Perm: r.perm, New: r.flags&flagNew != 0, Sync: r.flags&flagSync != 0,
	})
	if err != nil {
		return err
	}
	for {
		if s.last++; s.open[s.last] == nil {
			break
		}
	}
	s.open[s.last] = a
	s.out = s.out.u32(s.last)
	*fd = int(a.file.Fd())
	return nil
}

// readDir sends the entries as they are read: only the client holds them all.
func (s *server) readDir(ctx context.Context, r *request) (err, broken error) {
	name, err := checkName(ctx, "readdir", r.name)
	if err != nil {
		return err, nil
	}
	s.out = newReply(s.out, replyPart, r.seq)
	empty := len(s.out)
	flush := func() error {
		if len(s.out) > empty {
			broken = s.send(-1)
			s.out = s.out[:empty]
		}
		return broken
	}
	err = s.files.list(ctx, name, func(batch []fs.DirEntry) error {
		for _, e := range batch {
			if len(e.Name()) > maxBase {
				return unix.ENAMETOOLONG // some file systems have such names; no call takes them
			}
			if len(s.out)+maxEntry > maxReply {
				if err := flush(); err != nil {
					return err
				}
			}
			s.out = s.out.entry(e)
		}
		return nil
	})
	if broken != nil {
		return nil, broken
	}
	if err != nil {
		return pathError("readdir", name, err), nil
	}
	if err := flush(); err != nil {
		return nil, err
	}
	s.out = newReply(s.out, replyDone, r.seq)
	return nil, nil
}

// peer is the context of a request: done as soon as the client has closed its
// end or sent something else, for it waits for every answer it still wants.
type peer struct{ fd int }

func (peer) Deadline() (time.Time, bool) { return time.Time{}, false }
func (peer) Done() <-chan struct{}       { return nil }
func (peer) Value(any) any               { return nil }

func (p peer) Err() error {
	fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN | unix.POLLRDHUP}}
	if n, err := unix.Poll(fds, 0); err == nil && n > 0 {
		return context.Canceled
	}
	return nil
}
