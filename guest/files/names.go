package files

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

var _ sandbox.Files = (*Files)(nil)

const (
	maxName  = 4096 // bytes of a name; Linux's PATH_MAX
	maxLinks = 40   // links followed by one Resolve; Linux's own bound
)

// checkName returns name in its shortest form. It refuses what no method can
// mean: relative names, NUL, names that are too long, and "..", which only
// Resolve may interpret, because its meaning depends on links.
func checkName(ctx context.Context, op, name string) (string, error) {
	if err := checkRaw(ctx, op, name); err != nil {
		return "", err
	}
	if hasDotDot(name) {
		return "", pathError(op, name, fs.ErrInvalid)
	}
	return filepath.Clean(name), nil
}

func checkRaw(ctx context.Context, op, name string) error {
	switch {
	case ctx.Err() != nil:
		return pathError(op, name, context.Cause(ctx))
	case strings.IndexByte(name, 0) >= 0 || !filepath.IsAbs(name):
		return pathError(op, name, fs.ErrInvalid)
	case len(name) > maxName:
		return pathError(op, name[:64]+"…", syscall.ENAMETOOLONG)
	}
	return nil
}

func hasDotDot(name string) bool {
	for c := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		if c == ".." {
			return true
		}
	}
	return false
}

// pathError names the file in err, once.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// tempName is what a file is called while it is being written: hidden, and
// unlike anything else.
func tempName() string {
	return ".hermes-" + strconv.FormatUint(rand.Uint64(), 36) + ".tmp"
}

// entry is a directory entry whose Info is looked up under the same rules as
// every other name.
type entry struct {
	fs.DirEntry
	files *Files
	path  string
}

func (e entry) Info() (fs.FileInfo, error) { return e.files.Stat(context.Background(), e.path) }
