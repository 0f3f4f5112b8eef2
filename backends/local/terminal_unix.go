//go:build unix

package local

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// terminal makes the command's terminal, and returns the end the command gets.
// Ours is open twice: what is typed ends before what is read.
func (p *process) terminal(cmd sandbox.Cmd) (theirs *os.File, err error) {
	open := guest.OpenTerminal
	if p.box.inside != nil {
		open = func() (*os.File, *os.File, error) { return p.box.inside.terminal(p.box.info.UID) }
	}
	ours, theirs, err := open()
	if err != nil {
		return nil, err
	}
	p.tty = ours
	p.out = []*stream{{r: ours, w: cmd.Stdout, buffers: &p.box.backend.buffers, done: make(chan struct{})}}
	if err = setSize(ours, cmd.PTY.Rows, cmd.PTY.Cols); err == nil {
		p.stdin, err = again(ours)
	}
	if err != nil {
		theirs.Close()
		return nil, err
	}
	return theirs, nil
}

// again opens what a file is a second time, with the same flags.
func again(f *os.File) (other *os.File, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	cerr := raw.Control(func(fd uintptr) {
		var n int
		if n, err = unix.FcntlInt(fd, syscall.F_DUPFD_CLOEXEC, 0); err == nil {
			other = os.NewFile(uintptr(n), f.Name())
		}
	})
	if err == nil {
		err = cerr
	}
	return other, err
}

func setSize(f *os.File, rows, cols uint16) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err == nil {
		err = cerr
	}
	return err
}

// endOfFile is what Ctrl-D types.
const endOfFile = 4

// typeIn types what r has, and at its end the end of the file. In the middle of
// a line that takes two: the first one hands over the line.
func typeIn(keys *os.File, r io.Reader) {
	defer keys.Close()
	middle := false
	if r != nil {
		buf := make([]byte, 4<<10)
		for {
			n, err := r.Read(buf)
			if n > 0 {
				if _, err := keys.Write(buf[:n]); err != nil {
					return
				}
				middle = buf[n-1] != '\n' && buf[n-1] != '\r'
			}
			if err != nil {
				break
			}
		}
	}
	end := []byte{endOfFile}
	if middle {
		end = []byte{endOfFile, endOfFile}
	}
	_, _ = keys.Write(end)
}
