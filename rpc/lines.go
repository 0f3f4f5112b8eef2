package rpc

import (
	"bytes"
	"errors"
	"io"
)

const (
	smallBuffer = 4 << 10  // what an idle connection holds
	freeBuffer  = 64 << 10 // up to here a buffer grows without asking
)

var errTooLong = errors.New("line too long")

// lines cuts a stream into lines of at most max bytes, newline included. It
// looks at each byte once, and its buffer grows with a line and is given away
// with it, so that a long line costs nothing after it has been served.
type lines struct {
	src io.Reader
	max int
	// grow is asked before the buffer grows past freeBuffer for one line; its
	// error ends the reading.
	grow func() error

	buf     []byte
	at, end int // buf[at:end] has been read and not yet returned
}

// next returns a line without its newline. Up to freeBuffer bytes it is valid
// until the following call; a longer one, for which grow was asked, belongs to
// the caller. Bytes without a newline at the end of the stream are not a line.
func (l *lines) next() (line []byte, owned bool, err error) {
	scanned := l.at
	for {
		if n := bytes.IndexByte(l.buf[scanned:l.end], '\n'); n >= 0 {
			stop := scanned + n
			line = l.buf[l.at:stop:stop]
			l.at = stop + 1
			if owned = len(l.buf) > freeBuffer; owned {
				l.release()
			}
			if len(line) >= l.max {
				return nil, false, errTooLong
			}
			return line, owned, nil
		}
		if l.end-l.at >= l.max {
			return nil, false, errTooLong
		}
		if err := l.room(); err != nil {
			return nil, false, err
		}
		scanned = l.end
		// Never more than freeBuffer at once, so that what is read past the end
		// of a long line is short.
		n, err := l.src.Read(l.buf[l.end:min(len(l.buf), l.end+freeBuffer)])
		l.end += n
		if n == 0 && err != nil {
			return nil, false, err
		}
	}
}

// buffered reports whether bytes have been read that were not returned.
func (l *lines) buffered() bool { return l.end > l.at }

// room makes place for at least one more byte.
func (l *lines) room() error {
	if l.at == l.end {
		l.at, l.end = 0, 0
		if len(l.buf) != smallBuffer {
			l.buf = make([]byte, smallBuffer)
		}
		return nil
	}
	if l.end < len(l.buf) {
		return nil
	}
	if l.at > 0 {
		l.end = copy(l.buf, l.buf[l.at:l.end])
		l.at = 0
		return nil
	}
	if len(l.buf) == freeBuffer {
		if err := l.grow(); err != nil {
			return err
		}
	}
	bigger := make([]byte, min(4*len(l.buf), max(l.max, freeBuffer)))
	l.end = copy(bigger, l.buf[:l.end])
	l.buf = bigger
	return nil
}

// release gives the buffer away and keeps what was read past the line.
func (l *lines) release() {
	rest := l.buf[l.at:l.end]
	size := smallBuffer
	for size < len(rest) {
		size *= 4
	}
	l.buf = make([]byte, size)
	l.at, l.end = 0, copy(l.buf, rest)
}
