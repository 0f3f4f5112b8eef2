package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
)

// Sentinels of Files, besides those of io/fs.
var (
	// ErrSymlink is returned when any component of a name is a symbolic link:
	// names come from Resolve, so a link there means that somebody changed the
	// tree after it was checked.
	ErrSymlink = errors.New("path has become a symbolic link")
	// ErrNotRegular is returned when a name is neither a regular file nor,
	// where that makes sense, a directory: a device, a FIFO, a socket.
	ErrNotRegular = errors.New("not a regular file")
)

// Files gives access to a box's files, exactly as a process inside would have
// it. All names are absolute paths inside the box.
//
// A name is looked at once. Resolve follows every symbolic link and returns
// the real path; every other method refuses with ErrSymlink a name that has a
// link in any component. So a rule that was checked against a resolved path
// holds for what is opened: a link put there in between makes the call fail,
// it never leads elsewhere (CWE-367).
//
// Errors wrap fs.ErrNotExist, fs.ErrExist, fs.ErrPermission or the sentinels
// above where they apply. All methods are safe for concurrent use.
type Files interface {
	// Resolve returns name with every symbolic link followed and "." and ".."
	// removed. The last components need not exist: what exists is resolved and
	// the rest appended, so that the place of a new file can be checked.
	Resolve(ctx context.Context, name string) (string, error)
	// Open opens a regular file for reading, without blocking; anything else
	// is ErrNotRegular.
	Open(ctx context.Context, name string) (File, error)
	// Create begins to write a regular file. Nothing is visible under name
	// until Commit, which puts the whole content there in one step.
	Create(ctx context.Context, name string, opt CreateOptions) (AtomicFile, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error)
	// Stat describes what name is; a link as the last component is described
	// itself, not followed.
	Stat(ctx context.Context, name string) (fs.FileInfo, error)
	// Mkdir makes one directory with exactly the given permissions less the
	// umask; fs.ErrExist if something is there.
	Mkdir(ctx context.Context, name string, perm fs.FileMode) error
	// MkdirAll makes a directory and the parents that are missing.
	MkdirAll(ctx context.Context, name string, perm fs.FileMode) error
	// Rename moves a file or directory, replacing a file at newName.
	Rename(ctx context.Context, oldName, newName string) error
	// Remove removes a file, a link itself, or an empty directory.
	Remove(ctx context.Context, name string) error
	// RemoveAll removes a tree without following any link; no error if there
	// is none.
	RemoveAll(ctx context.Context, name string) error
}

// Stager is implemented by Files that can make a directory of small files in
// one step, for who needs it before anybody else looks.
type Stager interface {
	// Stage makes a directory, with the permissions 0700, and regular files in it,
	// 0600; fs.ErrExist if something of its name is there. After an error there is
	// nothing of it; after that of ctx, soon. With look it then does what Find does
	// with these names, in the same step: found tells what came of that.
	Stage(ctx context.Context, dir string, files []StagedFile, look []string) (found Found, err error)
}

// StagedFile is one file for Stager.
type StagedFile struct{ Name, Content string } // Name: without a directory

// File is an open regular file.
type File interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	io.Closer
	Stat() (fs.FileInfo, error)
}

// CreateOptions says how a file is written.
type CreateOptions struct {
	// Perm is for a file that does not exist yet, less the umask; 0 means
	// 0666. A file that exists keeps its mode, and its owner where the box's
	// user may set it.
	Perm fs.FileMode
	// New refuses with fs.ErrExist when the name is taken at Commit.
	New bool
	// Sync makes Commit wait until content and name are on disk.
	Sync bool
}

// AtomicFile is a file being written. Exactly one of Commit and Discard ends
// it; Discard after Commit does nothing, so it can be deferred.
type AtomicFile interface {
	io.Writer
	// Commit makes the content visible under the name. After an error the old
	// content is untouched and nothing is left behind.
	Commit() error
	// Discard drops what was written.
	Discard() error
}
