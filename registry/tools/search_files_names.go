package tools

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/walk"
)

// file is one that was found by name.
type file struct {
	path  string
	mtime time.Time
}

// searchNames finds files by name.
func (t *searcher) searchNames(ctx context.Context, q query) (searchResult, error) {
	if err := q.only(q.Pattern); err != nil {
		return searchResult{}, err
	}
	var files []file
	var all found
	if q.single {
		files = []file{{path: path.Base(q.root)}}
		if !q.opt.Globs[len(q.opt.Globs)-1].Match(files[0].path) {
			files = nil
		}
	} else {
		var err error
		if files, all, err = t.findAll(ctx, q); err != nil {
			return searchResult{}, err
		}
	}
	slices.SortFunc(files, func(a, b file) int {
		return cmp.Or(b.mtime.Compare(a.mtime), cmp.Compare(a.path, b.path))
	})
	result := all.result(len(files))
	names := []string{}
	for _, f := range files[min(q.Offset, len(files)):min(q.Offset+q.Limit, len(files))] {
		names = append(names, q.show(f.path))
	}
	result.Files = list(q, names)
	result.paging(q, len(names), len(files))
	if g := q.opt.Globs[len(q.opt.Globs)-1]; len(files) == 0 && result.Hint == "" {
		if name, plain := g.Plain(); plain {
			result.Hint = fmt.Sprintf("No file is called exactly %q. A glob such as %q finds names that contain it.", name, "*"+path.Base(name)+"*")
		}
	}
	return result, nil
}

// findAll finds all files, by the guest when there is much to do and the box
// has it.
func (t *searcher) findAll(ctx context.Context, q query) ([]file, found, error) {
	if t.hasGuest() {
		if t.headStart > 0 {
			quick, stop := context.WithTimeoutCause(ctx, t.headStart, errHeadStart)
			files, all, err := t.findOurselves(quick, q)
			over := context.Cause(quick) == errHeadStart
			stop()
			if err == nil || !over {
				return files, all, err
			}
		}
		if files, all, ok := t.guestFind(ctx, q); ok {
			return files, all, nil
		}
	}
	return t.findOurselves(ctx, q)
}

func (t *searcher) findOurselves(ctx context.Context, q query) (files []file, all found, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	q.opt.Workers = searchWorkers
	stats, err := walk.Walk(ctx, boxFS{t.box.Files()}, q.root, q.opt, func(e walk.Entry) error {
		info, err := e.Info()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil: // gone meanwhile
		case len(files) == maxSearchHits:
			stop(errSearchHits)
		default:
			files = append(files, file{e.Path, info.ModTime()})
		}
		return nil
	})
	all.unreadable = stats.Unreadable > 0
	all, err = all.ended(ctx, err)
	return files, all, err
}
