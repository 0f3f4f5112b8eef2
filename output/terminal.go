package output

import (
	"bytes"
	"io"
	"sync"
	"unicode/utf8"
)

// maxSGR bounds one sequence that sets colours.
const maxSGR = 64

// TerminalWriter passes a live stream to somebody's terminal. What a hostile
// program could do to one is made visible instead: of ECMA-48 only SGR, which
// sets colours, and erasing to the end of a line pass, of control characters
// only tab, line feed, carriage return, backspace and bell. Any other ESC shows
// as ^[, and what follows it as text: titles and clipboards stay as they are
// (OSC 0, OSC 52), and so do the lines above. What is no valid UTF-8, and C1, is
// U+FFFD.
//
// A sequence or a rune that is cut by the end of a write waits for the next. A
// TerminalWriter is safe for concurrent use.
type TerminalWriter struct {
	w       io.Writer
	mu      sync.Mutex
	held    []byte // what began at the end of the last write
	out     []byte
	colours bool // one was set and not reset
}

// NewTerminalWriter returns a TerminalWriter onto w.
func NewTerminalWriter(w io.Writer) *TerminalWriter { return &TerminalWriter{w: w} }

// Write takes all of p unless the underlying writer fails.
func (t *TerminalWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	b := append(t.held, p...)
	n := t.show(b, false)
	t.held = append([]byte(nil), b[n:]...)
	return len(p), t.flush()
}

// Close shows what waits and resets colours. It does not close what is below.
func (t *TerminalWriter) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.show(t.held, true)
	t.held = nil
	if t.colours {
		t.out = append(t.out, "\x1b[0m"...)
		t.colours = false
	}
	return t.flush()
}

func (t *TerminalWriter) flush() error {
	if len(t.out) == 0 {
		return nil
	}
	_, err := t.w.Write(t.out)
	t.out = t.out[:0]
	return err
}

// show appends b to what is to be written, and returns how much of it; the rest
// may go on, unless it is the last.
func (t *TerminalWriter) show(b []byte, last bool) int {
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case c == esc:
			n, part := colour(b[i:])
			if part && !last {
				return i
			}
			if n > 0 {
				seq := b[i : i+n]
				if seq[n-1] == 'm' {
					t.colours = !bytes.Equal(seq, []byte("\x1b[0m")) && !bytes.Equal(seq, []byte("\x1b[m"))
				}
				t.out = append(t.out, seq...)
				i += n
				continue
			}
			t.out = append(t.out, '^', '[')
			i++
		case c == '\t' || c == '\n' || c == '\r' || c == '\b' || c == '\a':
			t.out = append(t.out, c)
			i++
		case c < 0x20 || c == 0x7f:
			t.out = append(t.out, '^', c^0x40)
			i++
		case c < utf8.RuneSelf:
			t.out = append(t.out, c)
			i++
		default:
			if !last && !utf8.FullRune(b[i:]) {
				return i
			}
			r, size := utf8.DecodeRune(b[i:])
			if r < 0xa0 {
				r = utf8.RuneError
			}
			t.out = utf8.AppendRune(t.out, r)
			i += size
		}
	}
	return len(b)
}

// colour returns the length of the sequence that b, which begins with ESC, begins
// with if it sets colours or erases to the end of the line, else 0; part says that
// more may make it one.
func colour(b []byte) (n int, part bool) {
	if len(b) == 1 {
		return 0, true
	}
	if b[1] != '[' {
		return 0, false
	}
	for i := 2; i < len(b); i++ {
		switch c := b[i]; {
		case i == maxSGR:
			return 0, false
		case c >= '0' && c <= '9' || c == ';' || c == ':':
		case c == 'm', c == 'K' && (i == 2 || i == 3 && b[2] == '0'):
			return i + 1, false
		default:
			return 0, false
		}
	}
	return 0, len(b) <= maxSGR
}
