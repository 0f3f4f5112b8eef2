package walk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// FS is what a walk needs of a file system. Names are absolute and
// slash-separated. All methods are safe for concurrent use.
type FS interface {
	// ReadDir lists a directory in any order. A link is listed as a link. The
	// directory is not reached through links.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Open opens a regular file for reading and refuses everything else,
	// without blocking and without following links.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// Resolve returns name with all links followed. Only ignore files that are
	// links are opened through it.
	Resolve(ctx context.Context, name string) (string, error)
}

// Disk is the file system of this machine. Directories are read and files
// opened with as few system calls as the system allows; on Linux no link is
// followed in any component of a name, elsewhere not in the last.
type Disk struct{}

var _ FS = Disk{}

// maxEntries bounds one directory: a hostile tree must not fill the memory.
const maxEntries = 1 << 20

// list reads all of an open directory.
func list(dir *os.File) ([]fs.DirEntry, error) {
	var all []fs.DirEntry
	for {
		some, err := dir.ReadDir(4096)
		all = append(all, some...)
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, err
		case len(all) > maxEntries:
			return nil, fmt.Errorf("walk: %s: more than %d entries", dir.Name(), maxEntries)
		}
	}
}
