package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"io"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/walk"
)

// hasGuest tells whether our own walk can run in the box, where the files are.
func (t *searcher) hasGuest() bool { return t.box.Info().Guest != "" }

// guestWalk has the guest carry out a walk or, with a pattern, a search. ok is
// false when there is no guest, or it did not do what is expected of it: then
// the search is up to us.
func (t *searcher) guestWalk(ctx context.Context, q query, pattern *string, fn func(walk.Found, context.CancelCauseFunc)) (all found, ok bool) {
	guest := t.box.Info().Guest
	if guest == "" {
		return all, false
	}
	order, err := json.Marshal(walk.Order{Root: q.root, Pattern: pattern, Globs: q.globs, Hidden: q.opt.Hidden})
	if err != nil {
		return all, false
	}
	var stats walk.Stats
	cmd := sandbox.Cmd{Args: []string{guest, "guest", "walk"}, Env: []string{}, Dir: "/", Stdin: bytes.NewReader(order)}
	_, _, lost := t.near(ctx, cmd, func(_ context.Context, out io.Reader, stop context.CancelCauseFunc) error {
		stats, err = walk.Results(out, q.root, q.opt, func(f walk.Found) { fn(f, stop) })
		return err
	}, &all)
	if all.limit != nil {
		return all, true
	}
	all.unreadable = stats.Unreadable > 0
	return all, err == nil && lost == nil
}

func (t *searcher) guestCount(ctx context.Context, q query) (found, bool) {
	var hits found
	all, ok := t.guestWalk(ctx, q, &q.Pattern, func(f walk.Found, stop context.CancelCauseFunc) { hits.add(stop)(f.Hit) })
	all.hits = hits.hits
	return all, ok
}

func (t *searcher) guestFind(ctx context.Context, q query) (files []file, all found, ok bool) {
	all, ok = t.guestWalk(ctx, q, nil, func(f walk.Found, stop context.CancelCauseFunc) {
		if len(files) == maxSearchHits {
			stop(errSearchHits)
			return
		}
		files = append(files, file{f.Path, f.ModTime})
	})
	return files, all, ok
}
