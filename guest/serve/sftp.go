package serve

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Bounds of one connection.
const (
	maxSFTPHandles = 512
	maxSFTPCalls   = 16        // under way at once
	maxSFTPData    = 128 << 10 // bytes of a file in one packet
	maxSFTPPath    = 8 << 10   // bytes of a name that is looked at
)

var errHandle = errors.New("no such handle")

// SFTP serves this process's files on a stream until in ends. What SFTP itself
// has is served by pkg/sftp (sftp_library.go); the requests of sandbox/sshwire are
// served here, beside it on the same stream. All names are opened without
// following a link in any component, only regular files are read, and a file
// that is written appears whole or not at all. When the stream ends, what was
// created and not committed is dropped. A malformed packet ends it with an
// error.
//
// It does what the process may do and nothing else: the process is confined by
// who started it.
func SFTP(in io.Reader, out io.Writer) error {
	s := &sftpServer{
		files: files.New(), out: out,
		open: map[string]any{}, calls: make(chan struct{}, maxSFTPCalls),
	}
	ctx, stop := context.WithCancelCause(context.Background())
	s.ctx = ctx
	s.library = s.startLibrary()
	err := s.serve(bufio.NewReaderSize(in, 64<<10))
	stop(fs.ErrClosed)
	s.changes.Wait()
	s.drop()
	if s.quiet(); err == nil && errors.Is(s.failed(), sshwire.ErrSFTP) {
		err = sshwire.ErrSFTP
	}
	if err != nil {
		return fmt.Errorf("serve: sftp: %w", err)
	}
	return nil
}

type sftpServer struct {
	ctx     context.Context
	files   *files.Files
	calls   chan struct{}  // a place for each call under way
	changes sync.WaitGroup // those that change something
	library *library

	writing sync.Mutex
	out     io.Writer
	broken  error // of writing

	mu   sync.Mutex
	last uint64
	open map[string]any // sandbox.File or *created, by handle
}

// created is a file being written.
type created struct {
	sandbox.AtomicFile
	size uint64 // written so far: there are no holes
}

// serve reads packets. What a call must find in order, it finds: packets are
// taken apart here, one after the other, and only what may block is done aside.
// pkg/sftp's changes are waited for.
func (s *sftpServer) serve(in *bufio.Reader) error {
	var head [4]byte
	var buf []byte
	for first := true; ; first = false {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		n := binary.BigEndian.Uint32(head[:])
		if n < 5 || n > sshwire.MaxSFTP {
			return sshwire.ErrSFTP
		}
		if cap(buf) < int(n) {
			buf = make([]byte, n)
		}
		if _, err := io.ReadFull(in, buf[:n]); err != nil {
			return err
		}
		b := &sshwire.Body{Rest: buf[:n]}
		kind := b.Byte()
		var err error
		switch {
		case first != (kind == sshwire.SFTPInit):
			err = sshwire.ErrSFTP
		case first:
			s.version()
		case ours(kind, *b):
			err = s.request(kind, b.U32(), b)
		default:
			err = s.library.pass(head[:], buf[:n])
		}
		if err != nil {
			return err
		}
		if err := s.failed(); err != nil {
			if errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) {
				return nil // the client has gone
			}
			return err
		}
	}
}

// ours tells a request of our own, and one about something that such a request
// has opened, from those of SFTP itself; b is what follows the packet's type.
func ours(kind byte, b sshwire.Body) bool {
	b.U32()
	switch kind {
	case sshwire.SFTPExtended:
		return strings.HasSuffix(string(b.Bytes(256)), sshwire.SFTPOurs)
	case sshwire.SFTPClose, sshwire.SFTPRead, sshwire.SFTPWrite, sshwire.SFTPFstat:
		return strings.HasPrefix(string(b.Bytes(256)), handleMark)
	}
	return false
}

// handleMark begins our handles: those of pkg/sftp are numbers.
const handleMark = "@"

func (s *sftpServer) version() {
	p := sshwire.NewPacket(nil, sshwire.SFTPVersion, 3)
	for _, name := range []string{sshwire.ExtensionFiles, sshwire.SFTPPosixRename} {
		p = p.Text(name).Text("1")
	}
	s.send(p)
}

func (s *sftpServer) send(p sshwire.Packet) { s.sendFrame(p.Frame()) }

func (s *sftpServer) sendFrame(frame []byte) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken == nil {
		_, s.broken = s.out.Write(frame)
	}
}

// fail ends the connection: nothing is written after it.
func (s *sftpServer) fail(err error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.broken == nil {
		s.broken = err
	}
}

func (s *sftpServer) failed() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.broken
}

// answer sends a status.
func (s *sftpServer) answer(id uint32, err error) {
	s.send(sshwire.NewPacket(nil, sshwire.SFTPStatus, id).Status(cause(err)))
}

// cause is an error without the operation and the name, which the client
// knows; errors that are about several files keep them.
func cause(err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return pe.Err
	case errors.As(err, &le):
		return le.Err
	}
	return err
}

// aside runs a call that may block. Those that only look are not waited for
// when the stream ends.
func (s *sftpServer) aside(changes bool, call func()) {
	s.calls <- struct{}{}
	if changes {
		s.changes.Add(1)
	}
	go func() {
		defer func() {
			<-s.calls
			if changes {
				s.changes.Done()
			}
		}()
		call()
	}()
}

// quiet waits for the calls that look and for pkg/sftp, but not for what is
// stuck, as a read of one of the kernel's own files can be; nothing is written
// after it.
func (s *sftpServer) quiet() {
	patience := time.NewTimer(time.Second)
	defer patience.Stop()
	s.library.end()
	select {
	case <-s.library.done:
	case <-patience.C:
		patience.Reset(0)
	}
wait:
	for range cap(s.calls) {
		select {
		case s.calls <- struct{}{}:
		case <-patience.C:
			break wait
		}
	}
	s.fail(fs.ErrClosed)
}

// keep gives something open a handle.
func (s *sftpServer) keep(what any) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.open) >= maxSFTPHandles || s.ctx.Err() != nil {
		return "", syscall.EMFILE
	}
	s.last++
	handle := handleMark + strconv.FormatUint(s.last, 36)
	s.open[handle] = what
	return handle, nil
}

func (s *sftpServer) lookup(handle string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open[handle]
}

func (s *sftpServer) forget(handle string) any {
	s.mu.Lock()
	defer s.mu.Unlock()
	what := s.open[handle]
	delete(s.open, handle)
	return what
}

// drop ends everything that is open.
func (s *sftpServer) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for handle, what := range s.open {
		switch what := what.(type) {
		case sandbox.File:
			what.Close()
		case *created:
			what.Discard()
		}
		delete(s.open, handle)
	}
}
