package sandbox

import (
	"context"
	"errors"
	"io/fs"
)

// Finder is implemented by Files that do what Find does in one step.
type Finder interface {
	Find(ctx context.Context, names []string) (i int, real string, info fs.FileInfo, err error)
}

// Found is what Find returns.
type Found struct {
	Index int
	Real  string
	Info  fs.FileInfo
	Err   error
}

// Find looks for the first of several names that is there, or of which it cannot
// be told: i is its index, real what Resolve returns for it, info what Stat says
// of that, and err the error of either. When none is there i is len(names), and
// err, of the last, wraps fs.ErrNotExist.
func Find(ctx context.Context, files Files, names []string) (i int, real string, info fs.FileInfo, err error) {
	if finder, ok := files.(Finder); ok {
		return finder.Find(ctx, names)
	}
	err = fs.ErrNotExist
	for i, name := range names {
		if real, err = files.Resolve(ctx, name); err == nil {
			info, err = files.Stat(ctx, real)
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return i, real, info, err
		}
	}
	return len(names), "", nil, err
}
