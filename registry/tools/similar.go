package tools

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"
)

const (
	maxSimilar     = 5
	maxSimilarScan = 10_000 // entries of a directory looked at
)

// similarFiles suggests files beside a missing one, spelled as the caller
// spelled the path.
func (s *session) similarFiles(ctx context.Context, name, resolved string) []string {
	dir, base := path.Dir(resolved), path.Base(resolved)
	entries, err := s.box.Files().ReadDir(ctx, dir)
	if err != nil {
		return nil
	}
	type scored struct {
		name  string
		score int
	}
	var found []scored
	for _, e := range entries[:min(len(entries), maxSimilarScan)] {
		if e.IsDir() || s.allowed("", path.Join(dir, e.Name()), toRead) != nil {
			continue
		}
		if n := similarity(base, e.Name()); n > 0 {
			found = append(found, scored{e.Name(), n})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	prefix := "./"
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		prefix = name[:i+1]
	}
	var out []string
	for _, f := range found[:min(len(found), maxSimilar)] {
		out = append(out, strings.ToValidUTF8(prefix+f.name, "\uFFFD"))
	}
	return out
}

// similarity scores how likely somebody who wrote want meant have; 0 is not.
func similarity(want, have string) int {
	want, have = strings.ToLower(want), strings.ToLower(have)
	ext := path.Ext(want)
	switch stem := strings.TrimSuffix(have, path.Ext(have)); {
	case have == want:
		return 100
	case stem != "" && stem == strings.TrimSuffix(want, ext):
		return 90
	case strings.HasPrefix(have, want) || strings.HasPrefix(want, have):
		return 70
	case strings.Contains(have, want):
		return 60
	case len(have) > 2 && strings.Contains(want, have):
		return 40
	case ext != "" && ext == path.Ext(have) && commonRunes(want, have)*10 >= 4*max(len([]rune(want)), len([]rune(have))):
		return 30
	}
	return 0
}

// commonRunes counts the distinct characters two names share.
func commonRunes(a, b string) int {
	seen := map[rune]bool{}
	for _, r := range a {
		if strings.ContainsRune(b, r) {
			seen[r] = true
		}
	}
	return len(seen)
}
