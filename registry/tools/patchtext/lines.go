package patchtext

import "strings"

// span is a part of a text: [start, end) in bytes.
type span struct{ start, end int }

// line is one line of a text: its content is [start, end), its terminator,
// "\n", "\r\n" or nothing, [end, next).
type line struct{ start, end, next int }

// lines divides s. A final terminator does not begin another line.
func lines(s string) []line {
	if s == "" {
		return nil
	}
	out := make([]line, 0, strings.Count(s, "\n")+1)
	for start := 0; start < len(s); {
		n := strings.IndexByte(s[start:], '\n')
		if n < 0 {
			return append(out, line{start, len(s), len(s)})
		}
		end := start + n
		if end > start && s[end-1] == '\r' {
			end--
		}
		out = append(out, line{start, end, start + n + 1})
		start += n + 1
	}
	return out
}

// contents returns what the lines of s hold, without terminators.
func contents(s string) []string {
	ls := lines(s)
	out := make([]string, len(ls))
	for i, l := range ls {
		out[i] = s[l.start:l.end]
	}
	return out
}

// terminator returns the line terminator in use around the bytes of sp: the
// first one in it, else the one of the line it ends in, else the one before,
// else "".
func terminator(s string, sp span) string {
	at := strings.IndexByte(s[sp.start:], '\n')
	if at < 0 {
		at = strings.LastIndexByte(s[:sp.start], '\n')
	} else {
		at += sp.start
	}
	switch {
	case at < 0:
		return ""
	case at > 0 && s[at-1] == '\r':
		return "\r\n"
	}
	return "\n"
}

// withTerminator returns s with every line break written as eol.
func withTerminator(s, eol string) string {
	if strings.Contains(s, "\r\n") {
		s = strings.ReplaceAll(s, "\r\n", "\n")
	}
	if eol == "\r\n" {
		s = strings.ReplaceAll(s, "\n", "\r\n")
	}
	return s
}

// numbered gives equal strings equal numbers: those of pattern count from 0,
// whatever does not occur there is -1.
func numbered(pattern []string) (ids []int, of func(string) int) {
	known := make(map[string]int, len(pattern))
	ids = make([]int, len(pattern))
	for i, p := range pattern {
		id, ok := known[p]
		if !ok {
			id = len(known)
			known[p] = id
		}
		ids[i] = id
	}
	return ids, func(s string) int {
		if id, ok := known[s]; ok {
			return id
		}
		return -1
	}
}

// sequences returns where pattern occurs in text, overlapping occurrences
// included (Knuth, Morris and Pratt: linear, whatever the input).
func sequences(text, pattern []int) []int {
	if len(pattern) == 0 || len(pattern) > len(text) {
		return nil
	}
	border := make([]int, len(pattern))
	for i, k := 1, 0; i < len(pattern); i++ {
		for k > 0 && pattern[i] != pattern[k] {
			k = border[k-1]
		}
		if pattern[i] == pattern[k] {
			k++
		}
		border[i] = k
	}
	var at []int
	for i, k := 0, 0; i < len(text); i++ {
		for k > 0 && (k == len(pattern) || text[i] != pattern[k]) {
			k = border[k-1]
		}
		if text[i] == pattern[k] {
			k++
		}
		if k == len(pattern) {
			at = append(at, i-k+1)
		}
	}
	return at
}
