package patchtext

import "unicode/utf8"

// work bounds what the similarity strategies may spend on one call, in
// comparisons of characters: about a tenth of a second.
const work = 40_000_000

// effort counts down from work.
type effort struct{ left int }

// spend reports whether n more comparisons are allowed, and counts them.
func (e *effort) spend(n int) bool {
	if n > e.left {
		e.left = 0
		return false
	}
	e.left -= n
	return true
}

// similar returns how alike a and b are, between 0 and 1: twice the characters
// in matching blocks over all characters, a block being the longest common
// substring and what is found so on both sides of it (Ratcliff and Obershelp).
// It may return 0 when the answer is below least, and does when e is used up.
func similar(a, b string, least float64, e *effort) float64 {
	if a == b {
		return 1
	}
	if ascii(a) && ascii(b) {
		return similarity([]byte(a), []byte(b), least, e)
	}
	return similarity([]rune(a), []rune(b), least, e)
}

func similarity[C byte | rune](a, b []C, least float64, e *effort) float64 {
	total := len(a) + len(b)
	if total == 0 {
		return 1
	}
	// Two cheap upper bounds: by length, then by how often each character
	// occurs.
	ratio := func(matched int) float64 { return 2 * float64(matched) / float64(total) }
	if ratio(min(len(a), len(b))) < least || !e.spend(total) {
		return 0
	}
	var count [256]int
	for _, c := range a {
		count[byte(c)]++
	}
	common := 0
	for _, c := range b {
		if count[byte(c)] > 0 {
			count[byte(c)]--
			common++
		}
	}
	if ratio(common) < least {
		return 0
	}
	// A common beginning and end are blocks, and most of the work saved.
	edge := 0
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b, edge = a[1:], b[1:], edge+1
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b, edge = a[:len(a)-1], b[:len(b)-1], edge+1
	}
	inner, ok := blocks(a, b, e)
	if !ok {
		return 0
	}
	return ratio(edge + inner)
}

// blocks returns how many characters are in matching blocks of a and b.
func blocks[C byte | rune](a, b []C, e *effort) (int, bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, true
	}
	if len(a) > work || len(b) > work || !e.spend(len(a)*len(b)) {
		return 0, false
	}
	i, j, n := longest(a, b)
	if n == 0 {
		return 0, true
	}
	before, ok1 := blocks(a[:i], b[:j], e)
	after, ok2 := blocks(a[i+n:], b[j+n:], e)
	return before + n + after, ok1 && ok2
}

// longest returns the first longest common substring: a[i:i+n] and b[j:j+n].
func longest[C byte | rune](a, b []C) (i, j, n int) {
	run := make([]int, len(b)+1) // run[y+1]: length of the match that ends at a[x], b[y]
	for x := range a {
		diagonal := 0
		for y := range b {
			above := run[y+1]
			if a[x] == b[y] {
				run[y+1] = diagonal + 1
				if diagonal+1 > n {
					n = diagonal + 1
					i, j = x-n+1, y-n+1
				}
			} else {
				run[y+1] = 0
			}
			diagonal = above
		}
	}
	return i, j, n
}

func ascii(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
