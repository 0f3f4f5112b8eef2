package patchtext

import (
	"errors"
	"fmt"
	"strings"
)

// maxApply bounds the bytes looked through for one operation: hunks times the
// length of the file.
const maxApply = 2 << 30

// Apply carries out the hunks of op, one after the other, in text. loosest is
// the least exact strategy that was needed. The errors name the hunk.
func (op Op) Apply(text string) (result string, loosest Strategy, err error) {
	const bom = "\ufeff"
	if body, ok := strings.CutPrefix(text, bom); ok && !op.names(bom) {
		result, loosest, err = op.Apply(body)
		return bom + result, loosest, err
	}
	if len(op.Hunks)*len(text) > maxApply {
		return "", "", fmt.Errorf("%d hunks are too many for a file of %d bytes", len(op.Hunks), len(text))
	}
	a := applier{text: text, loosest: Exact, effort: &effort{work}}
	for _, h := range op.Hunks {
		if err := a.apply(h); err != nil {
			return "", "", err
		}
	}
	return a.text, a.loosest, nil
}

// names reports whether a line of a hunk begins with mark.
func (op Op) names(mark string) bool {
	for _, h := range op.Hunks {
		for _, l := range h.Lines {
			if strings.HasPrefix(l.Text, mark) {
				return true
			}
		}
	}
	return false
}

// applier is a file halfway through its hunks.
type applier struct {
	text    string
	cursor  int // the line after the last hunk
	drift   int // lines there are more than before
	loosest Strategy
	effort  *effort
}

func (a *applier) apply(h Hunk) error {
	if only, ok := h.additions(); ok {
		return a.insert(only)
	}
	var first error
	for _, v := range []Hunk{h, h.withoutBare()} {
		err := a.replace(v)
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if len(v.Lines) == 0 || !errors.As(err, new(*NoMatchError)) {
			break
		}
	}
	return first
}

// replace finds the old lines of h and puts the new ones there.
func (a *applier) replace(h Hunk) error {
	old, fresh, kept := h.sides()
	f := newFinder(a.text, strings.Join(old, "\n")+"\n", "", a.effort)
	at, strategy, err := a.locate(f, h, old)
	if err != nil {
		return err
	}
	end := at + len(old)
	passage := a.text[f.lines[at].start:f.lines[end-1].next]
	c := carrier{old: f.pattern, new: fresh, kept: kept, ends: true, consumes: true, literal: strategy == Exact}
	eol := terminator(a.text, span{f.lines[at].start, f.lines[end-1].next})
	if strategy == Exact && (h.OldOpen || strings.Contains(passage, "\n")) {
		eol = "\n" // what carriage returns there are the lines have
	} else {
		c.new = withoutReturns(fresh)
	}
	last := end == len(f.lines)
	c.closes = last && h.OldOpen && !h.NewOpen
	with := c.carry(passage, eol)
	if last && h.NewOpen && !h.OldOpen {
		with = strings.TrimSuffix(with, orNewline(eol))
	}
	a.splice(f.lines[at].start, f.lines[end-1].next, with, at, end, len(fresh))
	if strategy.Looser(a.loosest) {
		a.loosest = strategy
	}
	return nil
}

func (a *applier) splice(start, end int, with string, first, last, n int) {
	a.text = a.text[:start] + with + a.text[end:]
	a.cursor = first + n
	a.drift += n - (last - first)
}

func withoutReturns(in []string) []string {
	out := make([]string, len(in))
	for i, l := range in {
		out[i] = strings.TrimSuffix(l, "\r")
	}
	return out
}

func orNewline(eol string) string {
	if eol == "" {
		return "\n"
	}
	return eol
}
