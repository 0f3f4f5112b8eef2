package tools

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/walk"
)

const (
	maxMatchRunes   = 500
	maxMatchBytes   = 4096    // of a line before it is redacted and cut
	maxScriptSearch = 8 << 20 // bytes of content in one answer for a script
)

// page cuts the answer out of all that was found.
func (t *searcher) page(ctx context.Context, q query, p *walk.Pattern, all found) (searchResult, error) {
	lines := 0
	for _, h := range all.hits {
		lines += h.Count
	}
	switch q.OutputMode {
	case "files_only":
		result := all.result(len(all.hits))
		files := []string{}
		for _, h := range cut(q, all.hits) {
			files = append(files, q.show(h.Path))
		}
		result.Files = list(q, files)
		result.paging(q, len(files), len(all.hits))
		return result, nil
	case "count":
		result := all.result(lines)
		counts := map[string]int{}
		some := cut(q, all.hits)
		for _, h := range some {
			counts[q.show(h.Path)] += h.Count // names that are not UTF-8 may look the same
		}
		if len(counts) > 0 || q.caller.IsScript() {
			result.Counts = &counts
		}
		result.paging(q, len(some), len(all.hits))
		return result, nil
	}
	result := all.result(lines)
	matches, n, err := t.excerpts(ctx, q, p, all.hits, &result)
	if err != nil {
		return searchResult{}, err
	}
	if len(matches) > 0 || q.caller.IsScript() {
		result.Matches = &matches
	}
	result.paging(q, n, lines)
	return result, nil
}

func cut(q query, hits []walk.Hit) []walk.Hit {
	return hits[min(q.Offset, len(hits)):min(q.Offset+q.Limit, len(hits))]
}

// list is nil for an empty list, which only a script wants to see.
func list(q query, names []string) *[]string {
	if len(names) == 0 && !q.caller.IsScript() {
		return nil
	}
	return &names
}

// paging says whether and where to go on: shown of total results are on the
// page, which starts at the offset.
func (r *searchResult) paging(q query, shown, total int) {
	next := q.Offset + shown
	switch {
	case next < total:
		r.Truncated, r.NextOffset = true, next
		r.Hint = strings.TrimSpace(fmt.Sprintf("Results truncated. Use offset=%d to see more, or narrow the search with a more specific pattern or file_glob. %s", next, r.Hint))
	case q.Offset > 0 && q.Offset >= total:
		r.Hint = strings.TrimSpace(fmt.Sprintf("offset %d is past the last of %d results. %s", q.Offset, total, r.Hint))
	}
}

// part is what a page holds of one file.
type part struct {
	hit   walk.Hit
	want  walk.Excerpt
	lines []walk.Line
	err   error
}

// excerpts returns the lines of the page and how many results they are.
func (t *searcher) excerpts(ctx context.Context, q query, p *walk.Pattern, hits []walk.Hit, result *searchResult) ([]searchMatch, int, error) {
	limit := min(q.Limit, maxSearchLines/(1+2*q.Context))
	var parts []part
	skip, left := q.Offset, limit
	for _, h := range hits {
		if skip >= h.Count {
			skip -= h.Count
			continue
		}
		n := min(left, h.Count-skip)
		parts = append(parts, part{hit: h, want: walk.Excerpt{Skip: skip, Limit: n, Context: q.Context, MaxBytes: maxMatchBytes}})
		if skip, left = 0, left-n; left == 0 {
			break
		}
	}
	room := t.cfg.MaxReadChars
	if q.caller.IsScript() {
		room = maxScriptSearch
	}
	matches, shown := []searchMatch{}, 0
	for some := range slices.Chunk(parts, 4*searchWorkers) {
		t.readParts(ctx, q, p, some)
		for _, part := range some {
			if ctx.Err() != nil {
				result.LimitReason = errSearchTime.Error()
				return matches, shown, contextEnd(ctx)
			}
			lines := t.render(q, part)
			got := 0
			for _, group := range groups(lines, q.Context) {
				size := 0
				for _, l := range group {
					size += len(l.Content) + len(l.Path) + 40
				}
				if room -= size; room < 0 && shown > 0 {
					result.LimitReason = "result_size"
					return matches, shown, nil
				}
				matches = append(matches, group...)
				shown++
				got++
			}
			if got < part.want.Limit {
				// The places of the lines that went are kept, so that pages stay in step.
				shown += part.want.Limit - got
				result.Warning = strings.TrimSpace(result.Warning + " Some files changed while they were searched; what they matched before is missing here.")
			}
		}
	}
	return matches, shown, nil
}

// contextEnd is nil when only the time of the search is up.
func contextEnd(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != errSearchTime {
		return cause
	}
	return nil
}

// readParts reads the files of some parts side by side.
func (t *searcher) readParts(ctx context.Context, q query, p *walk.Pattern, parts []part) {
	next := make(chan *part, len(parts))
	for i := range parts {
		next <- &parts[i]
	}
	close(next)
	var group sync.WaitGroup
	for range min(searchWorkers, len(parts)) {
		group.Go(func() {
			for part := range next {
				part.lines, part.err = t.excerpt(ctx, q, p, *part)
			}
		})
	}
	group.Wait()
}

func (t *searcher) excerpt(ctx context.Context, q query, p *walk.Pattern, part part) ([]walk.Line, error) {
	name := q.root
	if !q.single {
		name = strings.TrimSuffix(q.root, "/") + "/" + part.hit.Path
	}
	f, err := t.box.Files().Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return p.Lines(ctx, f, part.want)
}

// groups splits lines into results: a match with the context that belongs to
// it, which is what follows within reach and, of what is left, what precedes.
func groups(lines []searchMatch, reach int) (out [][]searchMatch) {
	start, match := 0, -1
	for i, l := range lines {
		if match >= 0 && (!l.Context || l.Line-lines[match].Line > reach) {
			out = append(out, lines[start:i])
			start, match = i, -1
		}
		if !l.Context {
			match = i
		}
	}
	if start < len(lines) {
		out = append(out, lines[start:])
	}
	return out
}

// render makes lines presentable: redacted for a model, then cut.
func (t *searcher) render(q query, part part) []searchMatch {
	texts := make([]string, len(part.lines))
	for i, l := range part.lines {
		texts[i] = strings.ToValidUTF8(string(l.Text), "\uFFFD")
	}
	if t.cfg.Redact != nil && !q.caller.IsScript() {
		t.redactLines(texts)
	}
	shown := q.show(part.hit.Path)
	out := make([]searchMatch, len(texts))
	for i, l := range part.lines {
		out[i] = searchMatch{Path: shown, Line: l.Number, Content: firstRunes(texts[i], maxMatchRunes), Context: l.Context}
	}
	return out
}

// redactLines masks secrets in each line, and the lines of secrets that span
// several.
func (t *searcher) redactLines(texts []string) {
	together := strings.Split(t.cfg.Redact(strings.Join(texts, "\n")), "\n")
	if len(together) == len(texts) {
		copy(texts, together)
		return
	}
	for i, text := range texts {
		if text = t.cfg.Redact(text); text != "" && !slices.Contains(together, text) {
			text = "[REDACTED]"
		}
		texts[i] = text
	}
}

func firstRunes(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}

// unlessRepeated warns a model that gets the very same answer to the very same
// question three times in a row, and refuses it the fourth time. A script may
// poll as it likes.
func (t *searcher) unlessRepeated(q query, result searchResult) any {
	if q.caller.IsScript() || result.Error != "" {
		return result
	}
	text, err := json.Marshal(struct {
		Args   searchArgs
		Result searchResult
	}{q.searchArgs, result})
	if err != nil {
		return result
	}
	// It shares its memory with read_file: what resets one resets the other.
	switch n := t.reads.repeat(q.caller.Session, view{path: fmt.Sprintf("search\x00%x", sha256.Sum256(text))}); {
	case n > 3:
		return blockedSearch{
			Error: fmt.Sprintf("BLOCKED: You have run this exact search %d times in a row. "+
				"Nothing has changed; the answer you have is still right. Work with it, or search for something else.", n),
			Pattern: q.Pattern, AlreadySearched: n,
		}
	case n == 3:
		result.Warning = strings.TrimSpace(result.Warning + fmt.Sprintf(" You have run this exact search %d times in a row with the same result. Work with what it returned.", n))
	}
	return result
}
