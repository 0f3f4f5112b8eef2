package patchtext

import (
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff/lcs"
)

// Change is what happened to one file. An empty path on one side means that
// the file was not there before, or is not there any more.
type Change struct {
	OldPath, NewPath string // relative, with slashes
	Old, New         string
	Exec             bool // a created or deleted file is executable
}

// context is how many unchanged lines a hunk shows around a change.
const context = 3

// Diff renders changes as a unified diff that git apply takes, forward and in
// reverse; "" when nothing changed. Line breaks and bytes are the files': a
// diff of a file that is not UTF-8 is not UTF-8 either.
func Diff(changes ...Change) string {
	var b strings.Builder
	for _, c := range changes {
		// Among others each needs a header of its own: one that has no
		// hunks would take the next one's lines for its own.
		c.write(&b, len(changes) > 1)
	}
	return b.String()
}

func (c Change) write(b *strings.Builder, header bool) {
	same := c.Old == c.New
	oldPath, newPath := c.OldPath, c.NewPath
	mode := "100644"
	if c.Exec {
		mode = "100755"
	}
	extended := ""
	switch {
	case oldPath == "":
		oldPath = newPath
		extended = "new file mode " + mode + "\n"
		header = header || same || c.Exec
	case newPath == "":
		newPath = oldPath
		extended = "deleted file mode " + mode + "\n"
		header = header || same || c.Exec
	case oldPath != newPath:
		extended = fmt.Sprintf("similarity index %d%%\nrename from %s\nrename to %s\n", likeness(c.Old, c.New), quoteName(oldPath), quoteName(newPath))
		header = true
	case same:
		return
	default:
		// The plain form says all unless a side is empty: then git would guess
		// that the file is to be created or deleted.
		header = header || c.Old == "" || c.New == ""
	}
	oldName, newName := quoteName("a/"+oldPath), quoteName("b/"+newPath)
	if header {
		fmt.Fprintf(b, "diff --git %s %s\n%s", oldName, newName, extended)
	}
	if same {
		return
	}
	fmt.Fprintf(b, "--- %s\n+++ %s\n", label(oldName, c.OldPath), label(newName, c.NewPath))
	old, fresh := whole(c.Old), whole(c.New)
	writeHunks(b, old, fresh, differences(old, fresh))
}

// label is a name on a "---" or "+++" line. A blank in it needs a tab after
// it, else git takes the rest for a time.
func label(quoted, path string) string {
	switch {
	case path == "":
		return "/dev/null"
	case strings.ContainsAny(quoted, " ") && quoted[0] != '"':
		return quoted + "\t"
	}
	return quoted
}

// quoteName writes a name as git does: in C quotes when it has bytes that
// would end or hide it.
func quoteName(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c == '"' || c == '\\' || c >= 0x7f {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// likeness is git's similarity index of a rename, roughly: it is not checked.
func likeness(old, fresh string) int {
	if old == fresh {
		return 100
	}
	return min(99, 100*min(len(old), len(fresh))/max(len(old), len(fresh), 1))
}

// whole returns the lines of s with their "\n".
func whole(s string) []string {
	if s == "" {
		return nil
	}
	out := strings.SplitAfter(s, "\n")
	if out[len(out)-1] == "" {
		out = out[:len(out)-1]
	}
	return out
}

// differences compares lines. Lines that occur once on each side divide a long
// text first (Cohen's patience diff): the library's search is bounded and
// would give up on a text with many changes and call all of it changed.
func differences(old, fresh []string) []lcs.Diff {
	head, tail := edges(old, fresh)
	var out []lcs.Diff
	o, n := head, head
	section := func(oldEnd, newEnd int) {
		a, b := old[o:oldEnd], fresh[n:newEnd]
		head, tail := edges(a, b)
		a, b = a[head:len(a)-tail], b[head:len(b)-tail]
		o, n = o+head, n+head
		switch {
		case len(a) == 0 && len(b) == 0:
		case len(a) == 0 || len(b) == 0:
			out = append(out, lcs.Diff{Start: o, End: o + len(a), ReplStart: n, ReplEnd: n + len(b)})
		default:
			for _, d := range lcs.DiffLines(a, b) {
				out = append(out, lcs.Diff{Start: o + d.Start, End: o + d.End, ReplStart: n + d.ReplStart, ReplEnd: n + d.ReplEnd})
			}
		}
	}
	for _, at := range anchors(old[head:len(old)-tail], fresh[head:len(fresh)-tail]) {
		section(head+at[0], head+at[1])
		o, n = head+at[0], head+at[1]
	}
	section(len(old)-tail, len(fresh)-tail)
	return out
}

// edges returns how many lines a and b have in common at their beginning, and
// after that at their end.
func edges(a, b []string) (head, tail int) {
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	return head, tail
}

// anchors returns the pairs of lines that occur once on each side and are in
// the same order on both: the longest increasing sequence, by patience sort.
func anchors(old, fresh []string) [][2]int {
	type seen struct{ old, new, oldCount, newCount int }
	lines := make(map[string]*seen, len(old))
	for i, l := range old {
		s := lines[l]
		if s == nil {
			s = &seen{}
			lines[l] = s
		}
		s.old = i
		s.oldCount++
	}
	for i, l := range fresh {
		if s := lines[l]; s != nil {
			s.new = i
			s.newCount++
		}
	}
	var pairs [][2]int
	var previous []int // for each pair the one to its left in the sequence
	var piles []int    // the pair on top of each pile
	for i, l := range old {
		s := lines[l]
		if s.oldCount != 1 || s.newCount != 1 {
			continue
		}
		lo, hi := 0, len(piles)
		for lo < hi {
			if mid := (lo + hi) / 2; pairs[piles[mid]][1] < s.new {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		below := -1
		if lo > 0 {
			below = piles[lo-1]
		}
		pairs, previous = append(pairs, [2]int{i, s.new}), append(previous, below)
		if lo == len(piles) {
			piles = append(piles, 0)
		}
		piles[lo] = len(pairs) - 1
	}
	if len(piles) == 0 {
		return nil
	}
	out := make([][2]int, len(piles))
	for i, at := len(piles)-1, piles[len(piles)-1]; i >= 0; i, at = i-1, previous[at] {
		out[i] = pairs[at]
	}
	return out
}

// writeHunks renders differences with context around them.
func writeHunks(b *strings.Builder, old, fresh []string, diffs []lcs.Diff) {
	write := func(kind byte, ls []string) {
		for _, l := range ls {
			b.WriteByte(kind)
			b.WriteString(l)
			if !strings.HasSuffix(l, "\n") {
				b.WriteString("\n\\ No newline at end of file\n")
			}
		}
	}
	for len(diffs) > 0 {
		n := 1 // differences whose context meets
		for n < len(diffs) && diffs[n].Start-diffs[n-1].End <= 2*context {
			n++
		}
		first, last := diffs[0], diffs[n-1]
		lead := min(context, first.Start)
		trail := min(context, len(old)-last.End)
		fmt.Fprintf(b, "@@ -%s +%s @@\n", position(first.Start-lead, last.End+trail), position(first.ReplStart-lead, last.ReplEnd+trail))
		done := first.Start - lead
		for _, d := range diffs[:n] {
			write(' ', old[done:d.Start])
			write('-', old[d.Start:d.End])
			write('+', fresh[d.ReplStart:d.ReplEnd])
			done = d.End
		}
		write(' ', old[done:done+trail])
		diffs = diffs[n:]
	}
}

// position writes lines [start, end), counted from 0, as a hunk header does.
func position(start, end int) string {
	switch end - start {
	case 0:
		return fmt.Sprintf("%d,0", start)
	case 1:
		return fmt.Sprint(start + 1)
	}
	return fmt.Sprintf("%d,%d", start+1, end-start)
}
