package patchtext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// What Replace refuses before looking at the text.
var (
	ErrEmptyOld  = errors.New("old_string cannot be empty")
	ErrIdentical = errors.New("old_string and new_string are identical")
)

// NoMatchError says that a passage is not in the text.
type NoMatchError struct {
	// Similar shows numbered sections that resemble it; "" when there are none.
	Similar string
}

func (e *NoMatchError) Error() string {
	const text = "Could not find a match for old_string in the file"
	if e.Similar == "" {
		return text
	}
	return text + "\n\nDid you mean one of these sections?\n" + e.Similar
}

// AmbiguousError says that a passage is in the text more than once.
type AmbiguousError struct{ Count int }

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("Found %d matches for old_string. Provide more context to make it unique, or use replace_all=True.", e.Count)
}

// DriftError says that a passage would be in the text if its quotes were not
// escaped, and that its replacement would bring the backslashes in.
type DriftError struct{ Sequence string }

func (e *DriftError) Error() string {
	return "Escape-drift detected: old_string and new_string contain the literal sequence " + e.Sequence + " but the " +
		"matching part of the file does not. The backslash was most likely added while the call was serialised: " +
		"read the file again and pass both strings with a plain " + e.Sequence[1:] + "."
}

// Replaced is the outcome of Replace.
type Replaced struct {
	Text     string
	Count    int // passages replaced
	Strategy Strategy
}

// Replace puts new in place of old in text. Unless all is set, old must be
// found just once.
//
// Line breaks of new are written as the passage's are, unless old itself
// names carriage returns. When the passage was not found exactly, lines that
// old and new have in common keep the text's spelling, and the others its
// indentation.
//
// A byte order mark at the beginning of text is no part of it for old and new,
// and stays.
func Replace(text, old, new string, all bool) (Replaced, error) {
	const bom = "\ufeff"
	if body, ok := strings.CutPrefix(text, bom); ok {
		r, err := Replace(body, strings.TrimPrefix(old, bom), strings.TrimPrefix(new, bom), all)
		r.Text = bom + r.Text
		return r, err
	}
	switch {
	case old == "":
		return Replaced{}, ErrEmptyOld
	case old == new:
		return Replaced{}, ErrIdentical
	}
	f := newFinder(text, old, new, &effort{work})
	got, ok := f.find("")
	if !ok {
		if quote := drifted(old, new); quote != "" {
			plain := newFinder(text, unquote(old), new, &effort{work})
			if _, ok := plain.find(IndentationFlexible); ok {
				return Replaced{}, &DriftError{Sequence: quote}
			}
		}
		return Replaced{}, &NoMatchError{Similar: suggest(f)}
	}
	if len(got.at) > 1 && !all {
		return Replaced{}, &AmbiguousError{Count: len(got.at)}
	}
	got.at = apart(got.at)
	if got.strategy != Exact {
		if quote := drifted(old, new); quote != "" && !slices.ContainsFunc(got.at, func(sp span) bool {
			return strings.Contains(text[sp.start:sp.end], quote)
		}) {
			return Replaced{}, &DriftError{Sequence: quote}
		}
	}
	return Replaced{Text: f.replace(got), Count: len(got.at), Strategy: got.strategy}, nil
}

// replace carries out what was found.
func (f *finder) replace(got finding) string {
	var b strings.Builder
	b.Grow(len(f.text) + len(got.at)*max(0, len(got.new)-len(got.old)))
	var plan *carrier
	if got.strategy != Exact {
		plan = newCarrier(got.old, got.new)
	}
	done := 0
	for _, sp := range got.at {
		b.WriteString(f.text[done:sp.start])
		eol := terminator(f.text, sp)
		switch {
		case plan != nil:
			b.WriteString(plan.carry(f.text[sp.start:sp.end], eol))
		case eol == "" || strings.Contains(got.old, "\r"):
			b.WriteString(got.new)
		default:
			b.WriteString(withTerminator(tabbed(got.new, f.text[sp.start:sp.end]), eol))
		}
		done = sp.end
	}
	b.WriteString(f.text[done:])
	return b.String()
}

// apart drops spans that overlap one before.
func apart(at []span) []span {
	slices.SortFunc(at, func(a, b span) int { return a.start - b.start })
	out := at[:0]
	for _, sp := range at {
		if len(out) == 0 || sp.start >= out[len(out)-1].end {
			out = append(out, sp)
		}
	}
	return out
}

// drifted returns the escaped quote that both strings contain, if any: a sign
// that they were escaped once too often on the way here.
func drifted(old, new string) string {
	for _, quote := range []string{`\'`, `\"`} {
		if strings.Contains(old, quote) && strings.Contains(new, quote) {
			return quote
		}
	}
	return ""
}

func unquote(s string) string {
	return strings.NewReplacer(`\'`, "'", `\"`, `"`).Replace(s)
}

// unescape reads \n, \t and \r as the characters they stand for.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(s)
}

// tabbed reads \t at the beginning of new's lines as a tab when the passage is
// indented with tabs. Elsewhere \t means what it says: it may stand in a
// string literal.
func tabbed(new, passage string) string {
	if !strings.Contains(new, `\t`) || !strings.Contains(passage, "\t") {
		return new
	}
	ls := strings.Split(new, "\n")
	for i, l := range ls {
		rest := strings.TrimLeft(l, " \t")
		lead := l[:len(l)-len(rest)]
		for strings.HasPrefix(rest, `\t`) {
			lead, rest = lead+"\t", rest[2:]
		}
		ls[i] = lead + rest
	}
	return strings.Join(ls, "\n")
}
