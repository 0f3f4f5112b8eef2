package patchtext

import (
	"fmt"
	"strings"
)

// locate returns the line at which the old lines of h are. The first strategy
// that finds them decides; if it finds them more than once, hints, the line
// number or the order of the hunks must tell which are meant.
func (a *applier) locate(f *finder, h Hunk, old []string) (int, Strategy, error) {
	for _, s := range []struct {
		name Strategy
		runs func() []int
	}{
		{Exact, func() []int { return f.rawRuns(old) }},
		{LineTrimmed, func() []int { return f.runs(asIs) }}, // but for line endings
		{LineTrimmed, func() []int { return f.runs(strings.TrimSpace) }},
		{WhitespaceNormalized, func() []int { return f.runs(spaced) }},
		{UnicodeNormalized, func() []int { return f.runs(trimmed) }},
		{UnicodeNormalized, func() []int { return f.runs(collapsed) }},
		{BlockAnchor, f.anchored},
		{ContextAware, f.resembling},
	} {
		at := s.runs()
		if h.AtEnd {
			at = atEnd(at, len(f.lines)-len(old))
		}
		if len(at) == 0 {
			continue
		}
		i, ok := a.choose(f, h, at)
		if !ok {
			return 0, "", fmt.Errorf("hunk %s is ambiguous — its lines are in the file %d times; add lines of context or an @@ line that tells which are meant", h.label(), len(at))
		}
		return i, s.name, nil
	}
	return 0, "", fmt.Errorf("hunk %s not found — %w", h.label(), &NoMatchError{Similar: suggest(f)})
}

func atEnd(at []int, last int) []int {
	for _, i := range at {
		if i == last {
			return []int{i}
		}
	}
	return nil
}

// rawRuns returns where the lines are byte for byte, carriage returns
// included.
func (f *finder) rawRuns(old []string) []int {
	if len(old) > len(f.lines) {
		return nil
	}
	ids, number := numbered(old)
	text := make([]int, len(f.lines))
	for i, l := range f.lines {
		text[i] = number(strings.TrimSuffix(f.text[l.start:l.next], "\n"))
	}
	return sequences(text, ids)
}

// choose picks one of several places.
func (a *applier) choose(f *finder, h Hunk, at []int) (int, bool) {
	if len(at) == 1 {
		return at[0], true
	}
	if h.Numbered {
		return nearest(at, h.At-1+a.drift)
	}
	if places := a.hinted(f, h.Hints, at); len(places) > 0 {
		return places[0], len(places) == 1
	}
	later := at[:0:0]
	for _, i := range at {
		if i >= a.cursor {
			later = append(later, i)
		}
	}
	if len(later) == 0 {
		return 0, false
	}
	return later[0], len(later) == 1
}

// nearest picks the place nearest to the line that was named, unless another
// one is hardly farther.
func nearest(at []int, want int) (int, bool) {
	distance := func(i int) int { return max(i-want, want-i) }
	best, second := -1, -1
	for _, i := range at {
		switch {
		case best < 0 || distance(i) < distance(best):
			best, second = i, best
		case second < 0 || distance(i) < distance(second):
			second = i
		}
	}
	return best, distance(best) == 0 || 2*distance(best) < distance(second)
}

// hinted returns, for each place the hints lead to, the first of at from there
// on.
func (a *applier) hinted(f *finder, hints []string, at []int) []int {
	var out []int
	next := 0
	for _, above := range hintEnds(f, hints) {
		for next < len(at) && at[next] < above {
			next++
		}
		if next == len(at) {
			break
		}
		if len(out) == 0 || out[len(out)-1] != at[next] {
			out = append(out, at[next])
		}
	}
	return out
}

// hintEnds returns the lines at which the last hint is found, having found the
// ones before it above, in order.
func hintEnds(f *finder, hints []string) []int {
	var ends []int
	for n, hint := range hints {
		var found []int
		for _, like := range []func(l, hint string) bool{
			func(l, hint string) bool { return l == hint },
			strings.HasPrefix,
			strings.Contains,
		} {
			for i := range f.lines {
				if like(spaced(f.line(i)), spaced(hint)) {
					found = append(found, i)
				}
			}
			if len(found) > 0 {
				break
			}
		}
		if n == 0 {
			ends = found
			continue
		}
		var inner []int
		j := 0
		for _, end := range ends {
			for j < len(found) && found[j] <= end {
				j++
			}
			if j == len(found) {
				break
			}
			if len(inner) == 0 || inner[len(inner)-1] != found[j] {
				inner = append(inner, found[j])
			}
		}
		ends = inner
	}
	return ends
}

// insert adds the lines of a hunk that has no old ones: after the line that is
// named by number or hints, else at the end.
func (a *applier) insert(h Hunk) error {
	f := newFinder(a.text, "", "", a.effort)
	at := len(f.lines)
	switch {
	case h.AtEnd:
	case h.Numbered:
		if at = h.At + a.drift; at > len(f.lines) || at < 0 {
			return fmt.Errorf("hunk %s not found — the file has %d lines", h.label(), len(f.lines))
		}
	case len(h.Hints) > 0:
		ends := hintEnds(f, h.Hints)
		switch len(ends) {
		case 0:
			return fmt.Errorf("hunk %s not found — no line of the file is like its @@ line", h.label())
		case 1:
			at = ends[0] + 1
		default:
			return fmt.Errorf("hunk %s is ambiguous — %d lines of the file are like its @@ line", h.label(), len(ends))
		}
	}
	offset := len(a.text)
	if at < len(f.lines) {
		offset = f.lines[at].start
	}
	eol := orNewline(terminator(a.text, span{offset, offset}))
	_, fresh, _ := h.sides()
	if eol == "\r\n" {
		fresh = withoutReturns(fresh)
	}
	with := strings.Join(fresh, eol) + eol
	if offset == len(a.text) && a.text != "" && !strings.HasSuffix(a.text, "\n") {
		// The last line stays without a break, whichever line that is.
		with = eol + strings.TrimSuffix(with, eol)
	} else if h.NewOpen && offset == len(a.text) {
		with = strings.TrimSuffix(with, eol)
	}
	a.splice(offset, offset, with, at, at, len(fresh))
	return nil
}
