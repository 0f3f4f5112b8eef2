package walk

import (
	"bytes"
	"context"
	"errors"
	"io"
)

// Line is one line of an excerpt.
type Line struct {
	Number  int    // from 1
	Text    []byte // without line end; not more than asked for
	Context bool   // it does not match but stands near a line that does
}

// Excerpt says which matching lines to return: those after the first Skip, at
// most Limit. Around each stand Context lines; a line between two matches
// belongs to the one above while it is near enough, so that excerpts that
// follow each other hold each line once.
type Excerpt struct {
	Skip, Limit int
	Context     int
	MaxBytes    int // of a line's text
}

// errEnough ends the reading of a file.
var errEnough = errors.New("enough")

// Lines returns the excerpt of r. Its errors are those of Count, but for what
// lies behind the last line asked for, which is not read.
func (p *Pattern) Lines(ctx context.Context, r io.Reader, want Excerpt) ([]Line, error) {
	if want.Limit <= 0 {
		return nil, nil
	}
	m := p.matcher()
	defer p.free(m)
	c := cutter{m: m, want: want, before: make([]Line, 0, want.Context)}
	err := m.blocks(ctx, r, c.block)
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return c.lines, nil
}

// cutter collects an excerpt line by line.
type cutter struct {
	m     *matcher
	want  Excerpt
	lines []Line

	number int    // of the line before
	found  int    // matches so far
	last   int    // number of the last match, 0 if none
	before []Line // lines that may turn out to stand before a match
}

func (c *cutter) block(block []byte) error {
	for at := 0; at < len(block); {
		if c.want.Context == 0 {
			// Nothing between matches is wanted: go from one to the next.
			start, end := c.m.next(block, at)
			if end < 0 {
				c.number += bytes.Count(block[at:], []byte("\n"))
				return nil
			}
			c.number += bytes.Count(block[at:start], []byte("\n")) + 1
			if err := c.match(block[start:end]); err != nil {
				return err
			}
			at = end + 1
			continue
		}
		end := len(block)
		if k := bytes.IndexByte(block[at:], '\n'); k >= 0 {
			end = at + k
		}
		c.number++
		if err := c.line(block[at:end]); err != nil {
			return err
		}
		at = end + 1
	}
	return nil
}

// line takes the next line, which may match or be context.
func (c *cutter) line(text []byte) error {
	near := c.last > 0 && c.number-c.last <= c.want.Context
	if c.found == c.want.Skip+c.want.Limit && !near {
		return errEnough
	}
	switch {
	case c.m.line(text):
		return c.match(text)
	case near && c.found > c.want.Skip:
		c.lines = append(c.lines, Line{c.number, c.cut(text), true})
	case !near:
		if len(c.before) == c.want.Context {
			c.before = append(c.before[:0], c.before[1:]...)
		}
		c.before = append(c.before, Line{c.number, c.cut(text), true})
	}
	return nil
}

// match takes a line that matches.
func (c *cutter) match(text []byte) error {
	if c.found == c.want.Skip+c.want.Limit {
		return errEnough
	}
	c.found++
	c.last = c.number
	if c.found > c.want.Skip {
		c.lines = append(c.lines, c.before...)
		c.lines = append(c.lines, Line{c.number, c.cut(text), false})
	}
	c.before = c.before[:0]
	if c.want.Context == 0 && c.found == c.want.Skip+c.want.Limit {
		return errEnough
	}
	return nil
}

// cut copies what is kept of a line.
func (c *cutter) cut(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\r"))
	if c.want.MaxBytes > 0 && len(text) > c.want.MaxBytes {
		text = text[:c.want.MaxBytes]
	}
	return bytes.Clone(text)
}
