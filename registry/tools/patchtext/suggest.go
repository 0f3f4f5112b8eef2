package patchtext

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Bounds of what a failed search shows.
const (
	suggestAbove   = 0.3 // similarity of the line shown to the passage's first
	suggestions    = 3
	suggestAround  = 2
	suggestLines   = 12
	suggestColumns = 200
)

// suggest shows the sections of the text that begin most like the passage,
// numbered, best first; "" when nothing resembles it.
func suggest(f *finder) string {
	anchor := ""
	for _, p := range f.pattern {
		if anchor = strings.TrimSpace(p); anchor != "" {
			break
		}
	}
	if anchor == "" {
		return ""
	}
	anchor = clip(anchor)
	type scored struct {
		ratio float64
		line  int
	}
	var best []scored
	for i, l := range f.lines {
		s := clip(strings.TrimSpace(f.text[l.start:l.end]))
		if s == "" {
			continue
		}
		least := suggestAbove
		if len(best) == suggestions {
			least = best[suggestions-1].ratio
		}
		if r := similar(anchor, s, least, f.effort); r > least {
			at := len(best)
			for at > 0 && best[at-1].ratio < r {
				at--
			}
			best = slices.Insert(best, at, scored{r, i})
			best = best[:min(len(best), suggestions)]
		}
	}
	var out []string
	for _, b := range best {
		first := max(0, b.line-suggestAround)
		last := min(len(f.lines), b.line+len(f.pattern)+suggestAround, first+suggestLines)
		var section strings.Builder
		for i := first; i < last; i++ {
			l := f.text[f.lines[i].start:f.lines[i].end]
			if i > first {
				section.WriteByte('\n')
			}
			fmt.Fprintf(&section, "%4d| %s", i+1, clip(l))
		}
		if s := section.String(); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return strings.Join(out, "\n---\n")
}

// clip cuts a line to what is worth showing, on a rune boundary.
func clip(s string) string {
	if len(s) <= suggestColumns {
		return s
	}
	n := suggestColumns
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
