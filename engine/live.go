package engine

import (
	"context"
	"errors"
	"io"
	"time"
)

// livePatience is how long, beyond the grace, a run that was timed out or
// interrupted waits for whoever reads its live output.
const livePatience = time.Second

// errUnread means that a live writer was given up.
var errUnread = errors.New("nobody read it")

// patience returns a channel that is closed d after ctx is done, unless stop
// was called before.
func patience(ctx context.Context, d time.Duration) (over <-chan struct{}, stop func()) {
	ch, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-stopped:
			return
		}
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			close(ch)
		case <-stopped:
		}
	}()
	return ch, func() { close(stopped) }
}

// liveWriter writes to a writer that may block for as long as it likes: a pager
// somebody reads in, a pipe nobody does. A Write waits for it, so that the
// script is held up as it would be without us, until over is closed.
type liveWriter struct {
	over   <-chan struct{}
	pieces chan []byte
	wrote  chan error
	own    []byte // a copy: what is given up may still be being written
	err    error
}

// newLiveWriter starts a goroutine that ends with Close, or, given up, when the
// writer returns.
func newLiveWriter(w io.Writer, over <-chan struct{}) *liveWriter {
	l := &liveWriter{over: over, pieces: make(chan []byte), wrote: make(chan error, 1)}
	go func() {
		for p := range l.pieces {
			n, err := w.Write(p)
			if err == nil && n < len(p) {
				err = io.ErrShortWrite
			}
			l.wrote <- err
		}
	}()
	return l
}

func (l *liveWriter) Write(p []byte) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	l.own = append(l.own[:0], p...)
	l.pieces <- l.own
	select {
	case l.err = <-l.wrote:
	case <-l.over:
		l.err = errUnread
	}
	if l.err != nil {
		return 0, l.err
	}
	return len(p), nil
}

func (l *liveWriter) Close() error {
	close(l.pieces)
	return nil
}
