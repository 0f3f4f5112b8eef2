package walk

import (
	"context"
	"errors"
	"sync"
)

// Hit is a file with lines that match.
type Hit struct {
	Path  string // relative to the root
	Count int    // lines that match
}

// Search counts the matching lines of every file that Walk would show, and
// calls fn for those that have some: in no order, one call at a time. Binary
// files have none. It ends early, with the cause, when ctx is done; what fn got
// until then is right.
func Search(ctx context.Context, fsys FS, root string, opt Options, p *Pattern, fn func(Hit)) (Stats, error) {
	var mu sync.Mutex
	return Walk(ctx, fsys, root, opt, func(e Entry) error {
		n, err := countFile(ctx, fsys, e.Full, p)
		switch {
		case err == nil:
		case errors.Is(err, ErrBinary):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return errUnreadable
		}
		if n > 0 {
			mu.Lock()
			defer mu.Unlock()
			fn(Hit{e.Path, n})
		}
		return nil
	})
}

func countFile(ctx context.Context, fsys FS, name string, p *Pattern) (int, error) {
	f, err := fsys.Open(ctx, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return p.Count(ctx, f)
}
