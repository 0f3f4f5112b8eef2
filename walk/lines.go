package walk

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// ErrBinary marks a file that has no lines to search: it holds a NUL byte or a
// line of more than 16 MiB.
var ErrBinary = errors.New("binary file")

// Sizes of the buffer a file is read through.
const (
	firstBuffer = 64 << 10
	maxBuffer   = 16 << 20 // also the longest line
	keptBuffer  = 1 << 20  // what a pooled matcher may keep
)

// matcher is what one goroutine needs to search with a pattern.
type matcher struct {
	p    *Pattern
	dfa  *dfa // made when first needed
	buf  []byte
	done <-chan struct{} // of the search under way
}

func newMatcher(p *Pattern) *matcher {
	return &matcher{p: p, buf: make([]byte, firstBuffer)}
}

func (p *Pattern) matcher() *matcher { return p.matchers.Get().(*matcher) }

func (p *Pattern) free(m *matcher) {
	m.done = nil
	if len(m.buf) > keptBuffer {
		m.buf = make([]byte, firstBuffer)
	}
	p.matchers.Put(m)
}

// Count returns how many lines of r match. Its errors are ErrBinary, those of
// r and the cause of a done ctx.
func (p *Pattern) Count(ctx context.Context, r io.Reader) (int, error) {
	m := p.matcher()
	defer p.free(m)
	total := 0
	err := m.blocks(ctx, r, func(block []byte) error {
		total += m.count(block)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return total, nil
}

// blocks reads r to its end and gives use one block of whole lines after the
// other; only the last line of the last may lack its newline. Byte order marks
// are removed and UTF-16 is turned into UTF-8. The block is use's until it
// returns.
func (m *matcher) blocks(ctx context.Context, r io.Reader, use func(block []byte) error) error {
	m.done = ctx.Done()
	fn := func(block []byte) error {
		err := use(block)
		if ctx.Err() != nil {
			return context.Cause(ctx) // what use saw may be wrong
		}
		return err
	}
	held, first := 0, true
	for {
		n, err := fill(r, m.buf[held:])
		fresh := held
		held += n
		if err != nil && err != io.EOF {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		atEnd := err == io.EOF
		if first {
			first = false
			if order := utf16Order(m.buf[:held]); order != nil {
				r = newUTF16Reader(order, io.MultiReader(bytes.NewReader(bytes.Clone(m.buf[2:held])), r))
				held = 0
				continue
			}
			if bytes.HasPrefix(m.buf[:held], []byte("\xef\xbb\xbf")) {
				held = copy(m.buf, m.buf[3:held])
			}
		}
		if bytes.IndexByte(m.buf[fresh:held], 0) >= 0 {
			return ErrBinary
		}
		if atEnd {
			if held == 0 {
				return nil
			}
			return fn(m.buf[:held])
		}
		lines := bytes.LastIndexByte(m.buf[fresh:held], '\n') + 1
		if lines == 0 {
			if len(m.buf) >= maxBuffer {
				return ErrBinary
			}
			m.buf = append(m.buf, make([]byte, len(m.buf))...)
			continue
		}
		lines += fresh
		if err := fn(m.buf[:lines]); err != nil {
			return err
		}
		held = copy(m.buf, m.buf[lines:held])
	}
}

// fill reads until p is full or r ends.
func fill(r io.Reader, p []byte) (n int, err error) {
	for stalls := 0; n < len(p) && err == nil; {
		var k int
		if k, err = r.Read(p[n:]); k == 0 && err == nil {
			if stalls++; stalls > 100 {
				err = io.ErrNoProgress
			}
		}
		n += k
	}
	return n, err
}

// count counts the lines of a block that match.
func (m *matcher) count(block []byte) (total int) {
	for at := 0; ; total++ {
		_, end := m.next(block, at)
		if end < 0 {
			return total
		}
		at = end + 1
	}
}

// sparse is how many bytes a candidate line must be worth for the search for a
// literal to beat the automaton.
const sparse = 64

// next returns the first line of block that matches and starts at or after at,
// which is the begin of a line; without its newline. end < 0: none.
func (m *matcher) next(block []byte, at int) (start, end int) {
	from, tried := at, 0
	for len(m.p.literal) > 0 && at < len(block) {
		i := m.p.index(block[at:])
		if i < 0 {
			return 0, -1
		}
		start = bytes.LastIndexByte(block[at:at+i], '\n') + 1 + at
		i += at + len(m.p.literal)
		end = len(block)
		if k := bytes.IndexByte(block[i:], '\n'); k >= 0 {
			end = i + k
		}
		if m.p.whole || m.automaton().find(block[start:end], true) >= 0 {
			return start, end
		}
		at = end + 1
		if tried++; tried > 8 && (at-from)/tried < sparse {
			break // the literal is everywhere
		}
	}
	if at >= len(block) {
		return 0, -1
	}
	open := block[len(block)-1] != '\n' // the last line has no newline
	i := m.automaton().find(block[at:], open)
	if i < 0 {
		return 0, -1
	}
	i += at
	start = bytes.LastIndexByte(block[at:i], '\n') + 1 + at
	end = len(block)
	if k := bytes.IndexByte(block[i:], '\n'); k >= 0 {
		end = i + k
	}
	return start, end
}

// line reports whether one line matches.
func (m *matcher) line(line []byte) bool {
	if len(m.p.literal) > 0 && (m.p.whole || m.p.index(line) < 0) {
		return m.p.whole && m.p.index(line) >= 0
	}
	return m.automaton().find(line, true) >= 0
}

func (m *matcher) automaton() *dfa {
	if m.dfa == nil {
		m.dfa = newDFA(m.p.prog)
	}
	m.dfa.done, m.dfa.over = m.done, false
	return m.dfa
}
