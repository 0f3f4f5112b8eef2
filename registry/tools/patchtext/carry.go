package patchtext

import (
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// carrier writes a replacement into a passage that was found inexactly.
type carrier struct {
	old, new []string // lines
	kept     []int    // for each new line the old line it is, or -1
	ends     bool     // new ends with a line break
	consumes bool     // old does
	literal  bool     // new lines are taken as they are
	closes   bool     // the last line gets a break, though the passage's has none
}

func newCarrier(old, new string) *carrier {
	c := &carrier{old: contents(old), new: contents(new), ends: strings.HasSuffix(new, "\n"), consumes: strings.HasSuffix(old, "\n")}
	c.kept = kept(c.old, c.new)
	return c
}

// kept tells for each new line which old line it is, or -1.
func kept(old, new []string) []int {
	out := make([]int, len(new))
	o, n := 0, 0
	same := func(until int) {
		for ; o < until; o, n = o+1, n+1 {
			out[n] = o
		}
	}
	for _, d := range lcs.DiffLines(old, new) {
		same(d.Start)
		for n = d.ReplStart; n < d.ReplEnd; n++ {
			out[n] = -1
		}
		o = d.End
	}
	same(len(old))
	return out
}

// carry returns the replacement for passage: kept lines as they are there, the
// others with its indentation and with eol as the line break. Whether the
// passage's last line has a break is kept.
func (c *carrier) carry(passage, eol string) string {
	there := lines(passage)
	if eol == "" {
		eol = "\n"
	}
	shift := c.indents(passage, there)
	var b strings.Builder
	for i, l := range c.new {
		terminated := eol
		if k := c.kept[i]; k >= 0 && k < len(there) {
			b.WriteString(passage[there[k].start:there[k].end])
			if t := passage[there[k].end:there[k].next]; t != "" {
				terminated = t
			}
		} else if c.literal {
			b.WriteString(l)
		} else {
			b.WriteString(shift.of(tabbed(l, passage)))
		}
		switch {
		case i < len(c.new)-1 || c.ends && !c.consumes:
			b.WriteString(terminated)
		case c.ends && (c.closes || strings.HasSuffix(passage, "\n")):
			b.WriteString(terminated)
		}
	}
	return b.String()
}

// indents is how the indentation of the old lines translates to the passage's.
type indents []indent

type indent struct{ old, there string }

func (c *carrier) indents(passage string, there []line) indents {
	var out indents
	add := func(k int) {
		if k < len(there) && k < len(c.old) && strings.TrimSpace(c.old[k]) != "" {
			out = append(out, indent{leading(c.old[k]), leading(passage[there[k].start:there[k].end])})
		}
	}
	add(0)
	for _, k := range c.kept {
		if k > 0 {
			add(k)
		}
	}
	return out
}

// of indents l like the kept line whose indentation is the longest that l
// shares, or like the first line.
func (in indents) of(l string) string {
	if len(in) == 0 || strings.TrimSpace(l) == "" {
		return l
	}
	mine := leading(l)
	best := -1
	for i, e := range in {
		if strings.HasPrefix(mine, e.old) && (best < 0 || len(e.old) >= len(in[best].old)) {
			best = i
		}
	}
	if best >= 0 {
		return in[best].there + mine[len(in[best].old):] + l[len(mine):]
	}
	// Further out than everything known: as much further out there.
	e := in[0]
	if out := len(e.old) - len(mine); out > 0 {
		return e.there[:max(0, len(e.there)-out)] + l[len(mine):]
	}
	return l
}

func leading(l string) string {
	return l[:len(l)-len(strings.TrimLeft(l, " \t"))]
}
