package patchtext

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Strategy names how a passage was found.
type Strategy string

// The strategies, in the order they are tried.
const (
	Exact                Strategy = "exact"
	LineTrimmed          Strategy = "line_trimmed"          // but for blanks around lines, and line endings
	WhitespaceNormalized Strategy = "whitespace_normalized" // but for the length of runs of blanks
	IndentationFlexible  Strategy = "indentation_flexible"  // both
	EscapeNormalized     Strategy = "escape_normalized"     // with \n, \t and \r read as what they stand for
	TrimmedBoundary      Strategy = "trimmed_boundary"      // but for blanks around the whole passage
	UnicodeNormalized    Strategy = "unicode_normalized"    // but for typographic quotes, dashes, dots and blanks
	BlockAnchor          Strategy = "block_anchor"          // same first and last line, similar in between
	ContextAware         Strategy = "context_aware"         // half of the lines the same, the others similar
)

// order is the strategies from exact to loose.
var order = [...]Strategy{Exact, LineTrimmed, WhitespaceNormalized, IndentationFlexible, EscapeNormalized,
	TrimmedBoundary, UnicodeNormalized, BlockAnchor, ContextAware}

// Thresholds of the similarity strategies.
const (
	anchorAlone = 0.50 // the inside of a block whose first and last line are found once
	anchorAmong = 0.70 // the inside of one of several
	similarLine = 0.80 // a line that stands for another
)

// finding is what a strategy found, and what was looked for: some strategies
// read the passage and its replacement differently.
type finding struct {
	strategy Strategy
	at       []span
	old, new string
}

// finder looks for one passage in one text.
type finder struct {
	text     string
	lines    []line
	old, new string
	pattern  []string // old's lines
	effort   *effort
}

func newFinder(text, old, new string, e *effort) *finder {
	return &finder{text: text, lines: lines(text), old: old, new: new, pattern: contents(old), effort: e}
}

// line returns what line i holds.
func (f *finder) line(i int) string { return f.text[f.lines[i].start:f.lines[i].end] }

// find tries the strategies in order. upTo stops after the one it names; ""
// tries all.
func (f *finder) find(upTo Strategy) (finding, bool) {
	if strings.TrimSpace(f.old) == "" {
		// Nothing but blanks is everywhere, once blanks do not count.
		upTo = Exact
	}
	for _, s := range []struct {
		name Strategy
		find func() finding
	}{
		{Exact, f.exact},
		{LineTrimmed, f.lineTrimmed},
		{WhitespaceNormalized, f.whitespaceNormalized},
		{IndentationFlexible, f.indentationFlexible},
		{EscapeNormalized, f.escapeNormalized},
		{TrimmedBoundary, f.trimmedBoundary},
		{UnicodeNormalized, f.unicodeNormalized},
		{BlockAnchor, f.blockAnchor},
		{ContextAware, f.contextAware},
	} {
		got := s.find()
		if len(got.at) > 0 {
			got.strategy = s.name
			if got.old == "" {
				got.old, got.new = f.old, f.new
			}
			return got, true
		}
		if s.name == upTo {
			break
		}
	}
	return finding{}, false
}

func (f *finder) exact() finding {
	var at []span
	for _, i := range occurrences(f.text, f.old) {
		if f.old[0] == '\n' && i > 0 && f.text[i-1] == '\r' {
			continue // half of a line ending: lineTrimmed finds the whole
		}
		at = append(at, span{i, i + len(f.old)})
	}
	return finding{at: at}
}

func (f *finder) lineTrimmed() finding {
	if strings.Contains(f.old, "\n") {
		whole := fold(f.text, breaks())
		if at := whole.find(fold(f.old, breaks()).text); len(at) > 0 {
			return finding{at: at}
		}
	}
	return finding{at: f.spans(f.runs(strings.TrimSpace))}
}

func (f *finder) whitespaceNormalized() finding {
	whole := fold(f.text, blanks())
	return finding{at: whole.find(fold(f.old, blanks()).text)}
}

func (f *finder) indentationFlexible() finding {
	return finding{at: f.spans(f.runs(spaced))}
}

func (f *finder) escapeNormalized() finding {
	old := unescape(f.old)
	if old == f.old {
		return finding{}
	}
	whole := fold(f.text, breaks())
	return finding{at: whole.find(fold(old, breaks()).text), old: old, new: unescape(f.new)}
}

// trimmedBoundary leaves out the blanks around the passage. Where a word began
// or ended beside them it must do so in the text.
func (f *finder) trimmedBoundary() finding {
	old := strings.TrimSpace(f.old)
	if old == f.old {
		return finding{}
	}
	lead := f.old[:strings.Index(f.old, old)]
	trail := f.old[len(lead)+len(old):]
	whole := fold(f.text, breaks())
	var at []span
	for _, sp := range whole.find(fold(old, breaks()).text) {
		if lead != "" && joined(f.text, sp.start) || trail != "" && joined(f.text, sp.end) {
			continue
		}
		at = append(at, sp)
	}
	return finding{at: at, old: old, new: strings.TrimSuffix(strings.TrimPrefix(f.new, lead), trail)}
}

// joined reports whether at is within a word of s.
func joined(s string, at int) bool {
	before, _ := utf8.DecodeLastRuneInString(s[:at])
	after, _ := utf8.DecodeRuneInString(s[at:])
	return word(before) && word(after)
}

func word(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func (f *finder) unicodeNormalized() finding {
	if ascii(f.text) && ascii(f.old) {
		return finding{}
	}
	whole := fold(f.text, typography())
	if at := whole.find(fold(f.old, typography()).text); len(at) > 0 {
		return finding{at: at}
	}
	return finding{at: f.spans(f.runs(trimmed))}
}

func (f *finder) blockAnchor() finding  { return finding{at: f.spans(f.anchored())} }
func (f *finder) contextAware() finding { return finding{at: f.spans(f.resembling())} }

// spans is the part of the text that each run of as many lines as the passage
// has takes. It ends before the last line's terminator unless the passage ends
// with one.
func (f *finder) spans(first []int) []span {
	var at []span
	for _, i := range first {
		last := f.lines[i+len(f.pattern)-1]
		end := last.end
		if strings.HasSuffix(f.old, "\n") {
			end = last.next
		}
		at = append(at, span{f.lines[i].start, end})
	}
	return at
}

// Looser reports whether s is less exact than t. No strategy at all is more
// exact than any.
func (s Strategy) Looser(t Strategy) bool {
	return slices.Index(order[:], s) > slices.Index(order[:], t)
}
