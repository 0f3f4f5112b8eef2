package tools

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// chunkSize is how much of a file is looked at at once.
const chunkSize = 128 << 10

// scanned is what one pass over a text found out.
type scanned struct {
	lines int // a last line without a newline counts
	bytes int64
	utf8  bool  // all of it
	badAt int64 // where, within a chunk, it is not; -1 when it ends within a rune
}

// scan reads r to its end and hands sink the bytes of the lines first to last
// (counted from 1, last 0: no end), in pieces. Memory is bounded by chunkSize
// and what sink keeps. It looks at newlines with bytes.Count and IndexByte:
// what is not in the page costs next to nothing.
func scan(ctx context.Context, r io.Reader, size int64, first, last int, sink func([]byte) error) (scanned, error) {
	buf := make([]byte, min(max(size+1, 512), chunkSize))
	line, endsInNewline := 1, true
	found := scanned{badAt: -1}
	var check utf8Checker
	for {
		if ctx.Err() != nil {
			return found, context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if chunk := buf[:n]; n > 0 {
			found.bytes += int64(n)
			if check.add(chunk); check.bad && found.badAt < 0 {
				found.badAt = found.bytes - int64(n)
			}
			endsInNewline = chunk[n-1] == '\n'
			page, at := feed(chunk, line, first, last)
			line = at
			if len(page) > 0 {
				if err := sink(page); err != nil {
					return found, err
				}
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return found, err
		}
	}
	found.lines = line
	if endsInNewline {
		found.lines--
	}
	found.utf8 = check.valid()
	return found, nil
}

// feed returns the part of chunk that is in the page. line is the number of the
// line chunk begins in; the second result that of the line it ends in.
func feed(chunk []byte, line, first, last int) ([]byte, int) {
	end := line + bytes.Count(chunk, []byte{'\n'})
	if end < first || last > 0 && line > last {
		return nil, end
	}
	for ; line < first; line++ {
		chunk = chunk[bytes.IndexByte(chunk, '\n')+1:]
	}
	if last > 0 && end > last {
		stop := 0
		for ; line <= last; line++ {
			stop += bytes.IndexByte(chunk[stop:], '\n') + 1
		}
		chunk = chunk[:stop]
	}
	return chunk, end
}

// utf8Checker validates a stream.
type utf8Checker struct {
	rest [utf8.UTFMax]byte // an unfinished rune at the end of the chunk before
	n    int
	bad  bool
}

func (c *utf8Checker) add(chunk []byte) {
	if c.bad {
		return
	}
	for c.n > 0 && len(chunk) > 0 {
		c.rest[c.n] = chunk[0]
		c.n++
		chunk = chunk[1:]
		if utf8.FullRune(c.rest[:c.n]) {
			c.bad = !utf8.Valid(c.rest[:c.n])
			c.n = 0
		}
	}
	if c.bad || len(chunk) == 0 {
		return
	}
	end := len(chunk)
	for i := 1; i < utf8.UTFMax && i <= len(chunk); i++ {
		if at := len(chunk) - i; utf8.RuneStart(chunk[at]) {
			if !utf8.FullRune(chunk[at:]) {
				end = at
			}
			break
		}
	}
	c.bad = !utf8.Valid(chunk[:end])
	c.n = copy(c.rest[:], chunk[end:])
}

func (c *utf8Checker) valid() bool { return !c.bad && c.n == 0 }

// numbered builds the view of a page for a reader: "N|text", long lines cut.
type numbered struct {
	maxLine  int // characters
	maxChars int // of the whole view; what is beyond is counted, not kept
	redact   func(string) string

	line  int // number of the line being built
	text  []byte
	more  bool // text is not all of it
	begun bool
	out   strings.Builder
	chars int
}

// slack is how much of a line is kept beyond the cut, so that a secret that
// straddles it is recognised before it is cut in two.
const slack = 512

func (v *numbered) write(p []byte) error {
	for len(p) > 0 {
		v.begun = true
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if room := v.maxLine*utf8.UTFMax + slack - len(v.text); len(part) > room {
			part, v.more = part[:max(room, 0)], true
		}
		v.text = append(v.text, part...)
		if i < 0 {
			return nil
		}
		v.endLine()
		p = p[i+1:]
	}
	return nil
}

// close ends the view.
func (v *numbered) close() {
	if v.begun {
		v.endLine()
	}
}

func (v *numbered) endLine() {
	if !v.more {
		v.text = bytes.TrimSuffix(v.text, []byte{'\r'})
	}
	text := strings.ToValidUTF8(string(v.text), "\uFFFD")
	if v.more || len(text) > v.maxLine && utf8.RuneCountInString(text) > v.maxLine {
		if v.redact != nil {
			text = v.redact(text)
		}
		text = cutRunes(text, v.maxLine) + "... [truncated]"
	}
	if v.chars > 0 {
		text = "\n" + strconv.Itoa(v.line) + "|" + text
	} else {
		text = strconv.Itoa(v.line) + "|" + text
	}
	v.chars += utf8.RuneCountInString(text)
	if v.chars <= v.maxChars {
		v.out.WriteString(text)
	}
	v.line++
	v.text, v.more, v.begun = v.text[:0], false, false
}

// cutRunes is s without what comes after its first n characters.
func cutRunes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
