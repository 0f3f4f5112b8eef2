package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// patience bounds the calls that have no context.
const patience = 10 * time.Second

// Resolve implements sandbox.Files.
func (c *Client) Resolve(ctx context.Context, name string) (string, error) {
	if err := checkRaw(ctx, "resolve", name); err != nil {
		return "", err
	}
	var resolved string
	err := c.call(ctx, "resolve", &request{op: opResolve, name: name}, func(_ *conn, kind byte, b *body, fd int) error {
		resolved = b.text(maxName)
		if refuse(fd) || kind != replyDone || !b.end() || !path.IsAbs(resolved) || path.Clean(resolved) != resolved {
			return errReply
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return resolved, nil
}

// refuse closes a descriptor that nobody asked for.
func refuse(fd int) bool {
	if fd < 0 {
		return false
	}
	unix.Close(fd)
	return true
}

// Open implements sandbox.Files.
func (c *Client) Open(ctx context.Context, name string) (sandbox.File, error) {
	file, err := c.file(ctx, "open", &request{op: opOpen, name: name}, unix.O_RDONLY)
	if err != nil {
		return nil, err // not a nil *os.File
	}
	return file, nil
}

// file does what is answered with a descriptor and nothing else.
func (c *Client) file(ctx context.Context, op string, r *request, access int) (file *os.File, err error) {
	if r.name, err = checkName(ctx, op, r.name); err != nil {
		return nil, err
	}
	err = c.call(ctx, op, r, func(_ *conn, kind byte, b *body, fd int) error {
		if err := accept(kind, b, fd, access); err != nil {
			return err
		}
		file = os.NewFile(uintptr(fd), r.name)
		return nil
	})
	return file, err
}

// accept closes the descriptor of an answer that is not as it must be.
func accept(kind byte, b *body, fd, access int) error {
	err := verify(fd, access)
	if err == nil && (kind != replyDone || !b.end()) {
		err = errReply
	}
	if err != nil {
		refuse(fd)
	}
	return err
}

// Stat implements sandbox.Files.
func (c *Client) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	name, err := checkName(ctx, "stat", name)
	if err != nil {
		return nil, err
	}
	i := &info{name: path.Base(name)}
	err = c.call(ctx, "stat", &request{op: opStat, name: name}, func(_ *conn, kind byte, b *body, fd int) error {
		b.stat(&i.stat)
		if refuse(fd) || kind != replyDone || !b.end() {
			return errReply
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return i, nil
}

// ReadDir implements sandbox.Files.
func (c *Client) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	name, err := checkName(ctx, "readdir", name)
	if err != nil {
		return nil, err
	}
	var list []fs.DirEntry
	var refused error
	err = c.call(ctx, "readdir", &request{op: opReadDir, name: name}, func(k *conn, kind byte, b *body, fd int) error {
		for {
			if refuse(fd) {
				return errReply
			}
			if kind == replyDone && b.end() {
				return nil
			}
			if kind != replyPart || b.end() { // an empty part could repeat for ever
				return errReply
			}
			for len(b.rest) > 0 {
				base, mode := b.entry()
				if b.bad || len(list) == maxEntries {
					return errReply
				}
				list = append(list, &remoteEntry{base, mode, c, name})
			}
			var more body
			var err error
			if kind, more, fd, refused, err = k.next(ctx); err != nil || refused != nil {
				return err
			}
			b = &more
		}
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	sortEntries(list)
	return list, nil
}

// remoteEntry is a directory entry whose Info is asked for when it is wanted.
type remoteEntry struct {
	name   string
	mode   fs.FileMode
	client *Client
	dir    string
}

func (e *remoteEntry) Name() string      { return e.name }
func (e *remoteEntry) IsDir() bool       { return e.mode.IsDir() }
func (e *remoteEntry) Type() fs.FileMode { return e.mode }
func (e *remoteEntry) String() string    { return fs.FormatDirEntry(e) }

func (e *remoteEntry) Info() (fs.FileInfo, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return e.client.Stat(ctx, path.Join(e.dir, e.name))
}

// Mkdir implements sandbox.Files.
func (c *Client) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return c.plain(ctx, "mkdir", &request{op: opMkdir, name: name, perm: perm.Perm()})
}

// MkdirAll implements sandbox.Files.
func (c *Client) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return c.plain(ctx, "mkdirall", &request{op: opMkdirAll, name: name, perm: perm.Perm()})
}

// make is Files.make.
func (c *Client) make(ctx context.Context, name string, perm, dir fs.FileMode) (*os.File, error) {
	return c.file(ctx, "make", &request{op: opMake, name: name, perm: perm.Perm(), dir: dir.Perm()}, unix.O_WRONLY)
}

// Rename implements sandbox.Files.
func (c *Client) Rename(ctx context.Context, oldName, newName string) error {
	newName, newErr := checkName(ctx, "rename", newName)
	if _, err := checkName(ctx, "rename", oldName); err == nil && newErr != nil {
		return newErr
	}
	return c.plain(ctx, "rename", &request{op: opRename, name: oldName, to: newName})
}

// Remove implements sandbox.Files.
func (c *Client) Remove(ctx context.Context, name string) error {
	return c.plain(ctx, "remove", &request{op: opRemove, name: name})
}

// RemoveAll implements sandbox.Files.
func (c *Client) RemoveAll(ctx context.Context, name string) error {
	return c.plain(ctx, "removeall", &request{op: opRemoveAll, name: name})
}

// plain does what only succeeds or fails.
func (c *Client) plain(ctx context.Context, op string, r *request) (err error) {
	if r.name, err = checkName(ctx, op, r.name); err != nil {
		return err
	}
	return c.call(ctx, op, r, nil)
}

// remoteFile is a file being written through a descriptor of our own; its name
// and its end are the server's.
type remoteFile struct {
	ctx    context.Context // of Create
	conn   *conn           // where the handle means something
	handle uint32
	name   string
	file   *os.File
	err    error // of the first failed Write
	done   bool
}

// Create implements sandbox.Files.
func (c *Client) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	name, err := checkName(ctx, "create", name)
	if err != nil {
		return nil, err
	}
	r := &request{op: opCreate, name: name, perm: opt.Perm.Perm()}
	if opt.New {
		r.flags |= flagNew
	}
	if opt.Sync {
		r.flags |= flagSync
	}
	a := &remoteFile{ctx: ctx, name: name}
	err = c.call(ctx, "create", r, func(k *conn, kind byte, b *body, fd int) error {
		a.conn, a.handle = k, b.u32()
		if err := accept(kind, b, fd, unix.O_WRONLY); err != nil {
			return err
		}
		a.file = os.NewFile(uintptr(fd), name)
		k.handles++
		return nil
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (a *remoteFile) Write(p []byte) (int, error) {
	if a.done {
		return 0, pathError("write", a.name, fs.ErrClosed)
	}
	n, err := a.file.Write(p)
	if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

func (a *remoteFile) Commit() error {
	if a.done {
		return pathError("commit", a.name, fs.ErrClosed)
	}
	err := a.err
	if cerr := a.file.Close(); err == nil { // some file systems tell only here that the disk is full
		err = cerr
	}
	if err == nil && a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
	}
	if err != nil {
		a.Discard()
		return pathError("commit", a.name, err)
	}
	a.done = true
	return a.end(a.ctx, "commit", opCommit)
}

func (a *remoteFile) Discard() error {
	if a.done {
		return nil
	}
	a.done = true
	a.file.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), patience)
	defer cancel()
	return a.end(ctx, "discard", opDiscard)
}

// end sends the last request about the file.
func (a *remoteFile) end(ctx context.Context, op string, code byte) error {
	k := a.conn
	c := k.client
	if err := c.reacquire(ctx, k); err != nil {
		return &fs.PathError{Op: op, Path: a.name, Err: err}
	}
	refused, err := k.do(ctx, &request{op: code, handle: a.handle}, nil)
	k.handles--
	c.release(k, ctx, err)
	if err != nil {
		return c.failed(ctx, op, a.name, err)
	}
	return refused
}
