package config

import "strings"

// Nearest is the candidate a mistyped word most likely meant, "" when none is
// near. Ties go to the earlier candidate.
func Nearest(word string, candidates []string) string {
	if len(word) > 100 {
		return ""
	}
	best, limit := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), c); d < limit && d < len(c) {
			best, limit = c, d
		}
	}
	return best
}

// distance is the number of single-character edits, swaps included, from a to b.
func distance(a, b string) int {
	before, last, row := []int(nil), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, make([]int, len(b)+1)
	}
	return last[len(b)]
}
