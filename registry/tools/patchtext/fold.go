package patchtext

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// folded is a text in which spellings that count as equal are written alike,
// with the way back to the original's offsets.
type folded struct {
	text  string
	units []unit // what was rewritten, in order
}

// unit is one rewritten spelling: n bytes at folded offset at stand for m
// bytes at original offset from.
type unit struct{ at, n, from, m int }

// folding is a rule of what to rewrite: match looks at the beginning of what
// it is given and returns how many bytes are to be written as what; 0 leaves
// the byte alone. It is asked only at the bytes in begins.
type folding struct {
	begins *[256]bool
	match  func(string) (int, string)
}

// fold rewrites s.
func fold(s string, by folding) folded {
	var f folded
	var b strings.Builder
	done := 0
	for i := 0; i < len(s); {
		if !by.begins[s[i]] {
			i++
			continue
		}
		m, as := by.match(s[i:])
		if m == 0 || s[i:i+m] == as {
			i += max(m, 1)
			continue
		}
		b.WriteString(s[done:i])
		f.units = append(f.units, unit{b.Len(), len(as), i, m})
		b.WriteString(as)
		i += m
		done = i
	}
	if done == 0 {
		f.text = s
		return f
	}
	b.WriteString(s[done:])
	f.text = b.String()
	return f
}

// original returns the part of the original that folded [start, end) stands
// for; false when an edge falls within a unit.
func (f *folded) original(start, end int) (span, bool) {
	from, ok1 := f.offset(start)
	to, ok2 := f.offset(end)
	return span{from, to}, ok1 && ok2
}

func (f *folded) offset(at int) (int, bool) {
	i := sort.Search(len(f.units), func(i int) bool { return f.units[i].at+f.units[i].n > at })
	// Units before i end at or before at.
	if i < len(f.units) && f.units[i].at < at {
		return 0, false
	}
	if i == 0 {
		return at, true
	}
	u := f.units[i-1]
	return u.from + u.m + at - u.at - u.n, true
}

// find returns where pattern, folded alike, occurs in the original.
func (f *folded) find(pattern string) []span {
	var out []span
	for _, at := range occurrences(f.text, pattern) {
		if sp, ok := f.original(at, at+len(pattern)); ok {
			out = append(out, sp)
		}
	}
	return out
}

// occurrences returns where needle occurs in s: all that do not overlap, and
// when there is only one of these also one that overlaps it, if any, since
// then it is not clear which is meant.
func occurrences(s, needle string) []int {
	if needle == "" {
		return nil
	}
	var at []int
	for i := 0; ; {
		n := strings.Index(s[i:], needle)
		if n < 0 {
			break
		}
		at = append(at, i+n)
		i += n + len(needle)
	}
	if len(at) == 1 && len(needle) > 1 {
		from := at[0] + 1
		if n := strings.Index(s[from:min(len(s), from+2*len(needle))], needle); n >= 0 {
			at = append(at, from+n)
		}
	}
	return at
}

// The bytes at which something may have to be rewritten.
var (
	breakBytes      = [256]bool{'\r': true}
	blankBytes      = [256]bool{'\r': true, ' ': true, '\t': true}
	typographyBytes = [256]bool{'\r': true, 0xc2: true, 0xe2: true, 0xe3: true}
)

// breaks folds line terminators.
func breaks() folding { return folding{&breakBytes, matchBreak} }

// blanks folds runs of blanks, and line terminators.
func blanks() folding { return folding{&blankBytes, matchBlanks} }

// typography folds what word processors and models write for plain ASCII, and
// line terminators.
func typography() folding { return folding{&typographyBytes, matchTypography} }

func matchBreak(s string) (int, string) {
	if len(s) > 1 && s[0] == '\r' && s[1] == '\n' {
		return 2, "\n"
	}
	return 0, ""
}

func matchBlanks(s string) (int, string) {
	n := 0
	for n < len(s) && (s[n] == ' ' || s[n] == '\t') {
		n++
	}
	if n == 0 {
		return matchBreak(s)
	}
	return n, " "
}

func matchTypography(s string) (int, string) {
	if s[0] < utf8.RuneSelf {
		return matchBreak(s)
	}
	r, n := utf8.DecodeRuneInString(s)
	switch r {
	case '\u201c', '\u201d', '\u201e', '\u201f', '\u2033':
		return n, `"`
	case '\u2018', '\u2019', '\u201a', '\u201b', '\u2032':
		return n, "'"
	case '\u2010', '\u2011', '\u2012', '\u2013', '\u2212':
		return n, "-"
	case '\u2014', '\u2015':
		return n, "--"
	case '\u2026':
		return n, "..."
	case '\u00a0', '\u2007', '\u2009', '\u202f', '\u3000':
		return n, " "
	}
	return 0, ""
}
