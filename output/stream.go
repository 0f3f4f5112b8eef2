package output

import (
	"errors"
	"io"
	"strings"
	"sync"
)

const (
	lookBehind = 64       // what the rules look back at
	maxHeld    = 64 << 10 // what a RedactWriter holds back at most
)

// errClosed answers writes after Close.
var errClosed = errors.New("output: write after close")

// RedactWriter redacts a live stream. What can be told to be no part of a
// secret is written at once; what cannot yet (the last word of a write, an
// unfinished key) is held back, 64 KiB at most. However the stream is cut into
// writes, the result is that of Redact on the whole, as long as no single
// secret is longer than that; of a longer one nothing but its mask is written
// either.
//
// A RedactWriter is safe for concurrent use.
type RedactWriter struct {
	r   *Redactor
	w   io.Writer
	mu  sync.Mutex
	err error

	buf     []byte // lookBehind, then what is not decided yet
	from    int    // what is not decided begins here
	shown   int    // what is not written begins here; after Flush beyond from
	scanned int    // len(buf) when it was last looked at
}

// Writer returns a RedactWriter onto w. A nil Redactor's passes everything.
func (r *Redactor) Writer(w io.Writer) *RedactWriter {
	return &RedactWriter{r: r, w: w}
}

// Write takes all of p unless the underlying writer failed, now or before.
func (rw *RedactWriter) Write(p []byte) (int, error) {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.err != nil {
		return 0, rw.err
	}
	if rw.r == nil {
		n, err := rw.w.Write(p)
		rw.err = err
		return n, err
	}
	for rest := p; len(rest) > 0 && rw.err == nil; {
		n := min(len(rest), maxHeld)
		rw.buf = append(rw.buf, rest[:n]...)
		rest = rest[n:]
		held := len(rw.buf) - rw.from
		// Many small writes into a long hold are looked at together.
		if grown := len(rw.buf) - rw.scanned; held > 512 && grown < held/4 && held <= maxHeld {
			continue
		}
		rw.advance()
		if len(rw.buf)-rw.from > maxHeld {
			rw.force()
		}
	}
	if rw.err != nil {
		return 0, rw.err
	}
	return len(p), nil
}

// Flush writes what is held back unless it looks like the beginning of a
// secret: for a prompt that waits for an answer without ending its line. The
// end of a secret of which a part was shown so is swallowed.
func (rw *RedactWriter) Flush() error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.err != nil || rw.r == nil || len(rw.buf) == 0 {
		return rw.err
	}
	if v := rw.advance(); v == more {
		s := string(rw.buf)
		spans, _, _ := find(s, rw.from, true)
		rw.emit(s, spans, len(s))
	}
	return rw.err
}

// Close writes all that is held back. It does not close the writer below.
func (rw *RedactWriter) Close() error {
	rw.mu.Lock()
	defer rw.mu.Unlock()
	if rw.err != nil {
		if errors.Is(rw.err, errClosed) {
			return nil
		}
		return rw.err
	}
	if rw.r != nil {
		s := string(rw.buf)
		spans, _, _ := find(s, rw.from, true)
		rw.emit(s, spans, len(s))
	}
	err := rw.err
	rw.buf, rw.err = nil, errClosed
	return err
}

// advance writes what can be told and returns why the rest cannot.
func (rw *RedactWriter) advance() verdict {
	s := string(rw.buf)
	spans, hold, v := find(s, rw.from, false)
	rw.emit(s, spans, hold)
	rw.from = hold
	if drop := rw.from - lookBehind; drop > 0 {
		rw.buf = append(rw.buf[:0], rw.buf[drop:]...)
		rw.from -= drop
		rw.shown -= drop
	}
	rw.scanned = len(rw.buf)
	return v
}

// force decides on what is held without waiting for more. If that ends within
// a secret, its beginning stays in buf, so that what follows is recognised and
// swallowed.
func (rw *RedactWriter) force() {
	s := string(rw.buf)
	spans, _, _ := find(s, rw.from, true)
	rw.emit(s, spans, len(s))
	keep := s[len(s)-lookBehind:]
	rw.from = len(keep)
	if n := len(spans); n > 0 && spans[n-1].end == len(s) {
		sp := spans[n-1]
		before := max(0, sp.anchor-lookBehind)
		keep = s[before:min(len(s), sp.start+2*peek)]
		rw.from = sp.anchor - before
	}
	rw.buf = append(rw.buf[:0], keep...)
	rw.shown, rw.scanned = len(rw.buf), len(rw.buf)
}

// emit writes s up to to, with spans masked, as far as it was not yet shown. A
// span of which a part was shown is only skipped.
func (rw *RedactWriter) emit(s string, spans []span, to int) {
	var b strings.Builder
	for len(spans) > 0 && spans[0].start < rw.shown {
		rw.shown = max(rw.shown, spans[0].end)
		spans = spans[1:]
	}
	if rw.shown >= to {
		return
	}
	b.Grow(to - rw.shown)
	rw.shown = render(&b, s, spans, rw.shown, to)
	if rw.err == nil && b.Len() > 0 {
		_, rw.err = io.WriteString(rw.w, b.String())
	}
}
