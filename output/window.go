package output

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"
)

// margin is how much a Window keeps beyond each cut for the redactor to see: a
// secret that reaches over a cut is known whole as long as it is shorter.
const margin = 16 << 10

// Window is an io.Writer that keeps the first head and the last tail bytes of
// a stream, plus a margin, whatever the length of the stream. It is safe for
// concurrent use, and Render may be called while writes go on.
type Window struct {
	mu         sync.Mutex
	head, tail int
	total      int64
	first      []byte // the first head+margin bytes
	ring       []byte // the last tail+margin bytes that came after first
	at         int    // where the next byte goes once ring is full
}

// NewWindow returns a Window for head and tail bytes; a negative number counts
// as zero.
func NewWindow(head, tail int) *Window {
	return &Window{head: max(head, 0), tail: max(tail, 0)}
}

// Write never fails and never keeps p.
func (w *Window) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	w.total += int64(n)
	if room := w.head + margin - len(w.first); room > 0 {
		k := min(room, len(p))
		w.first = append(w.first, p[:k]...)
		p = p[k:]
	}
	size := w.tail + margin
	if room := size - len(w.ring); room > 0 {
		k := min(room, len(p))
		w.ring = append(w.ring, p[:k]...)
		p = p[k:]
	}
	if len(p) == 0 {
		return n, nil
	}
	if len(p) >= size { // everything in the ring goes
		copy(w.ring, p[len(p)-size:])
		w.at = 0
		return n, nil
	}
	k := copy(w.ring[w.at:], p)
	copy(w.ring, p[k:])
	w.at = (w.at + len(p)) % size
	return n, nil
}

// Total is how many bytes were written.
func (w *Window) Total() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Render returns the text of the window and whether anything was left out.
//
// Up to head+tail bytes the stream is whole. Beyond, exactly its first head
// and last tail bytes are shown, less what it takes not to cut a character in
// two, around a notice with the numbers of raw bytes omitted and in total. The
// text is stripped as by StripANSI, and redacted by r unless r is nil; a
// secret that reaches over a cut is masked whole. Sizes count the raw stream:
// stripping and masking make the text shorter, U+FFFD for invalid bytes makes
// it longer.
func (w *Window) Render(r *Redactor) (text string, truncated bool) {
	w.mu.Lock()
	total := w.total
	first := string(w.first)
	last := string(w.ring[w.at:]) + string(w.ring[:w.at])
	w.mu.Unlock()

	if total <= int64(w.head)+int64(w.tail) {
		s := StripANSI(first + last)
		return r.Redact(s), false
	}

	// One text if nothing is missing between the parts, else two.
	var front, back string
	var cut, resume int // where the head ends in front, the tail begins in back
	whole := total == int64(len(first)+len(last))
	if whole {
		front = first + last
		back = front
		cut, resume = w.head, len(front)-w.tail
	} else {
		front, back = first, last
		cut, resume = w.head, len(back)-w.tail
	}
	cut, resume = runeStart(front, cut), runeEnd(back, resume)
	omitted := total - int64(cut) - int64(len(back)-resume)

	var b strings.Builder
	b.Grow(w.head + w.tail + 128)
	if whole {
		s, at := strip(front, cut, resume)
		spans := r.spans(s)
		upTo := render(&b, s, spans, 0, at[0])
		notice(&b, omitted, total)
		render(&b, s, spans, max(at[1], upTo), len(s))
		return b.String(), true
	}
	s, at := strip(front, cut)
	render(&b, s, r.spans(s), 0, at[0])
	notice(&b, omitted, total)
	s, at = strip(back, resume)
	render(&b, s, r.spans(s), at[0], len(s))
	return b.String(), true
}

// render writes s[from:to] with spans masked, each as a whole, and returns
// where it stopped: at to, or after the span that reaches over it.
func render(b *strings.Builder, s string, spans []span, from, to int) int {
	for _, sp := range spans {
		if sp.end <= from {
			continue
		}
		if sp.start >= to {
			break
		}
		if sp.start > from {
			b.WriteString(s[from:sp.start])
		}
		b.WriteString(sp.mask)
		from = sp.end
	}
	if from < to {
		b.WriteString(s[from:to])
		from = to
	}
	return from
}

func notice(b *strings.Builder, omitted, total int64) {
	fmt.Fprintf(b, "\n\n... [OUTPUT TRUNCATED - %s bytes omitted out of %s total] ...\n\n", commas(omitted), commas(total))
}

// commas writes n ≥ 0 with a comma every three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// runeStart moves the cut at i back if it would fall into a character.
func runeStart(s string, i int) int {
	for k := 1; k < utf8.UTFMax && k <= i; k++ {
		if utf8.RuneStart(s[i-k]) {
			if _, size := utf8.DecodeRuneInString(s[i-k:]); size > k {
				return i - k
			}
			break
		}
	}
	return i
}

// runeEnd moves the cut at i forward if it would fall into a character.
func runeEnd(s string, i int) int {
	for k := 1; k < utf8.UTFMax && k <= i; k++ {
		if utf8.RuneStart(s[i-k]) {
			if _, size := utf8.DecodeRuneInString(s[i-k:]); size > k {
				return i - k + size
			}
			break
		}
	}
	return i
}
