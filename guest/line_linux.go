package guest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// line is the engine's end of the wire to what runs one command.
type line struct {
	conn *os.File
	in   *bufio.Reader
	out  sync.Mutex // one frame at a time
}

func newLine(conn *os.File) line { return line{conn: conn, in: bufio.NewReaderSize(conn, 512)} }

// start sends the command and waits until it runs; announce is what makes somebody
// read it, if nobody does already. The error is a *StartError
// when it could not be run, the cause of ctx when that was done, else about the
// wire: io.EOF, ECONNRESET, EPIPE and a deadline mean that it was not run.
func (s *line) start(ctx context.Context, cmd Command, files commandFiles, announce func() error) (pid int, err error) {
	message, err := cmd.frame()
	if err != nil {
		return 0, err
	}
	if err := s.conn.SetDeadline(time.Now().Add(greetWithin)); err != nil {
		return 0, err
	}
	late := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = s.conn.SetDeadline(time.Unix(1, 0))
		close(late)
	})
	defer func() {
		if !stop() {
			<-late
			if err != nil {
				err = context.Cause(ctx)
			}
		}
		if err == nil { // whoever cancels now is heard by End
			err = s.conn.SetDeadline(time.Time{})
		}
	}()
	if err := s.sendCommand(message, files, announce); err != nil {
		return 0, err
	}
	kind, p, err := s.receive()
	if err != nil {
		return 0, err
	}
	if v := p.number(); kind != kindHello || p.end() != nil || v != version {
		return 0, fmt.Errorf("the guest speaks another version (%q %d, want %d)", kind, v, version)
	}
	kind, p, err = s.receive()
	if errors.Is(err, unix.ECONNRESET) {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("the guest ended, maybe after the command: %v", err)
	}
	n, stage := p.number(), ""
	if kind == kindFailed {
		stage = p.text()
	}
	if p.end() != nil || (kind != kindRunning && kind != kindFailed) {
		return 0, errFrame
	}
	if kind == kindFailed {
		return 0, &StartError{Stage: stage, Errno: syscall.Errno(n)}
	}
	return int(n), nil
}

// sendCommand sends as much as the socket takes before it is announced, so that
// who reads it need not wait for it, and the rest after.
func (s *line) sendCommand(message []byte, files [3]*os.File, announce func() error) error {
	sent, err := s.sendFirst(message, files, announce == nil)
	if announce != nil && (err == nil || err == unix.EAGAIN) {
		if err := announce(); err != nil {
			return err
		}
	}
	if err == unix.EAGAIN {
		sent, err = s.sendFirst(message, files, true)
	}
	if err == nil && sent < len(message) {
		_, err = s.conn.Write(message[sent:])
	}
	return err
}

// sendFirst sends the beginning of a message, and the files with it. Without wait
// its error may be EAGAIN.
func (s *line) sendFirst(message []byte, files [3]*os.File, wait bool) (sent int, err error) {
	raw, err := s.conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	rights := unix.UnixRights(int(files[0].Fd()), int(files[1].Fd()), int(files[2].Fd()))
	var sendErr error
	err = raw.Write(func(fd uintptr) bool {
		for {
			sent, sendErr = unix.SendmsgN(int(fd), message, rights, nil, unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return !wait || sendErr != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = sendErr
	}
	return sent, err
}

func (s *line) receive() (byte, *payload, error) {
	var head [headerSize]byte
	if _, err := io.ReadFull(s.in, head[:]); err != nil {
		return 0, nil, err
	}
	kind, size, err := header(head[:])
	if err != nil {
		return 0, nil, err
	}
	if size > maxOther {
		return 0, nil, errFrame
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(s.in, body); err != nil {
		return 0, nil, err
	}
	return kind, &payload{rest: body}, nil
}

func (s *line) order(b []byte) error {
	s.out.Lock()
	defer s.out.Unlock()
	_, err := s.conn.Write(b)
	return err
}
