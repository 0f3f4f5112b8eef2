package docker

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/moby/moby/client"
)

// socket is where a guest dials: in a directory that is bound into its
// container, for exactly one connection.
type socket struct {
	l    *net.UnixListener
	dir  *os.File
	name string
	once sync.Once
}

const maxSocketPath = 100 // bytes, of what the kernel takes

func listen(dir string) (*socket, error) {
	s := &socket{name: filepath.Join(dir, "s")}
	at := s.name
	if len(at) > maxSocketPath && runtime.GOOS == "linux" {
		var err error
		if s.dir, err = os.Open(dir); err != nil {
			return nil, err
		}
		at = fmt.Sprintf("/proc/self/fd/%d/s", s.dir.Fd())
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: at, Net: "unix"})
	if err != nil {
		return nil, err
	}
	s.l = l
	l.SetUnlinkOnClose(false)
	// Who the guest is only its container knows. Nobody else can enter the
	// directory above.
	if err := os.Chmod(s.name, 0o666); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// accept takes the one connection there is to be, and closes the socket. Nothing
// but the guest runs in the container before.
func (s *socket) accept(ctx context.Context) (net.Conn, error) {
	defer s.close()
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	conn, err := s.l.Accept()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	return conn, nil
}

func (s *socket) close() {
	s.once.Do(func() {
		s.l.Close()
		os.Remove(s.name)
		if s.dir != nil {
			s.dir.Close()
		}
	})
}

// attached is a container's standard streams, which come in frames: a kind, a
// length, and that many bytes.
type attached struct {
	hijacked client.HijackedResponse
	stderr   io.Writer

	mu   sync.Mutex // of reading
	left uint32     // of the current frame, which is of stdout

	once sync.Once
	err  error
}

// Kinds of frames.
const (
	frameStdout = 1
	frameStderr = 2
)

func attach(h client.HijackedResponse, stderr io.Writer) *attached {
	return &attached{hijacked: h, stderr: stderr}
}

// Read reads stdout; what comes of stderr meanwhile is put aside.
func (a *attached) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.left == 0 {
		var head [8]byte
		if _, err := io.ReadFull(a.hijacked.Reader, head[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint32(head[4:])
		switch head[0] {
		case frameStdout:
			a.left = size
		case frameStderr:
			if _, err := io.CopyN(a.stderr, a.hijacked.Reader, int64(size)); err != nil {
				return 0, io.ErrUnexpectedEOF
			}
		default:
			return 0, fmt.Errorf("the docker engine sent a frame of kind %d", head[0])
		}
	}
	n, err := a.hijacked.Reader.Read(p[:min(len(p), int(a.left))])
	a.left -= uint32(n)
	return n, err
}

func (a *attached) Write(p []byte) (int, error) { return a.hijacked.Conn.Write(p) }

// drain reads until the end, for what comes of stderr.
func (a *attached) drain() {
	_, _ = io.Copy(io.Discard, a)
	a.Close()
}

func (a *attached) Close() error {
	a.once.Do(func() { a.err = a.hijacked.Conn.Close() })
	return a.err
}
