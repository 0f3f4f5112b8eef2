package patchtext

import (
	"slices"
	"sort"
	"strings"
)

// runs returns where lines of the text are the passage's once norm has been
// applied to both: the first line of each run, overlapping ones included.
func (f *finder) runs(norm func(string) string) []int {
	if len(f.pattern) > len(f.lines) {
		return nil
	}
	pattern := make([]string, len(f.pattern))
	for i, p := range f.pattern {
		pattern[i] = norm(p)
	}
	ids, number := numbered(pattern)
	text := make([]int, len(f.lines))
	for i := range f.lines {
		text[i] = number(norm(f.line(i)))
	}
	return sequences(text, ids)
}

// asIs, spaced, trimmed and collapsed are what runs are compared by, besides
// strings.TrimSpace.
func asIs(s string) string { return s }

func spaced(s string) string {
	if s = strings.TrimSpace(s); strings.Contains(s, "  ") || strings.ContainsAny(s, "\t\v\f\r\n") || !ascii(s) {
		return strings.Join(strings.Fields(s), " ")
	}
	return s
}

func trimmed(s string) string { return strings.TrimSpace(fold(s, typography()).text) }

func collapsed(s string) string { return spaced(fold(s, typography()).text) }

// anchored finds blocks by their first and last line: where these are the
// passage's and what is between them is similar.
func (f *finder) anchored() []int {
	n := len(f.pattern)
	if n < 3 || n > len(f.lines) {
		return nil
	}
	first, last := trimmed(f.pattern[0]), trimmed(f.pattern[n-1])
	if first == "" || last == "" {
		return nil
	}
	var candidates []int
	for i := 0; i+n <= len(f.lines); i++ {
		if trimmed(f.line(i)) == first && trimmed(f.line(i+n-1)) == last {
			candidates = append(candidates, i)
		}
	}
	least := anchorAmong
	if len(candidates) == 1 {
		least = anchorAlone
	}
	inside := make([]string, 0, n-2)
	for _, p := range f.pattern[1 : n-1] {
		inside = append(inside, trimmed(p))
	}
	want := strings.Join(inside, "\n")
	var at []int
	for _, c := range candidates {
		if !f.effort.spend(len(want) + n) {
			return nil // what is not looked at might be a second match
		}
		inside = inside[:0]
		for i := c + 1; i < c+n-1; i++ {
			inside = append(inside, trimmed(f.line(i)))
		}
		if similar(want, strings.Join(inside, "\n"), least, f.effort) >= least {
			at = append(at, c)
		}
	}
	if f.effort.left == 0 {
		return nil
	}
	return at
}

// resembling finds runs of lines of which at least half are the passage's but
// for blanks and typography, and every other one resembles its counterpart. A
// single line has nothing around it that would vouch for it and is never found
// so.
func (f *finder) resembling() []int {
	n := len(f.pattern)
	if n > len(f.lines) {
		return nil
	}
	pattern := make([]string, n)
	var telling []int // the lines that say something: not "", "}" or "---"
	for i, p := range f.pattern {
		pattern[i] = collapsed(p)
		if strings.IndexFunc(p, word) >= 0 {
			telling = append(telling, i)
		}
	}
	if len(telling) < 2 {
		return nil
	}
	need := (len(telling) + 1) / 2
	ids, number := numbered(pattern)
	text := make([]int, len(f.lines))
	where := make([][]int, n) // by id
	for i := range f.lines {
		text[i] = number(collapsed(f.line(i)))
		if text[i] >= 0 {
			where[text[i]] = append(where[text[i]], i)
		}
	}
	// A run with enough equal lines has one of any len(telling)-need+1 telling
	// lines of the passage; the rarest make the fewest candidates.
	seeds := rarest(telling, len(telling)-need+1, func(i int) int { return len(where[ids[i]]) })
	var at []int
	for _, c := range runsFrom(seeds, func(i int) []int { return where[ids[i]] }, len(f.lines)-n) {
		if !f.effort.spend(n) {
			return nil
		}
		equal := 0
		for _, i := range telling {
			if text[c+i] == ids[i] {
				equal++
			}
		}
		if equal >= need && f.resembles(c, pattern, ids, text) {
			at = append(at, c)
		}
	}
	if f.effort.left == 0 {
		return nil
	}
	return at
}

// resembles reports whether every line from first on resembles the pattern's.
func (f *finder) resembles(first int, pattern []string, ids, text []int) bool {
	for i, p := range pattern {
		if text[first+i] == ids[i] {
			continue
		}
		if similar(p, collapsed(f.line(first+i)), similarLine, f.effort) < similarLine {
			return false
		}
	}
	return true
}

// maxSeeds bounds how many occurrences of lines are followed up.
const maxSeeds = 200_000

// rarest returns the n members of a for which count is smallest.
func rarest(a []int, n int, count func(int) int) []int {
	a = slices.Clone(a)
	sort.SliceStable(a, func(i, j int) bool { return count(a[i]) < count(a[j]) })
	return a[:min(n, len(a))]
}

// runsFrom returns, in order, where a run could begin, from 0 to last, that
// has line i of the pattern in its place for one of the seeds i. where says
// which lines of the text are like line i. nil when there are too many.
func runsFrom(seeds []int, where func(i int) []int, last int) []int {
	var first []int
	for _, i := range seeds {
		at := where(i)
		if len(first)+len(at) > maxSeeds {
			return nil
		}
		for _, l := range at {
			if l >= i && l-i <= last {
				first = append(first, l-i)
			}
		}
	}
	sort.Ints(first)
	return slices.Compact(first)
}
