package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// errDirSize is what a directory gets that does not end.
var errDirSize = errors.New("directory has more than 1000000 entries")

// remoteFiles are a box's files over SFTP.
//
// A serving guest does each step itself, without ever following a link. A
// stock server knows no such way: there every component of a name is looked at
// before it is used, and somebody who changes the tree between the two can lead
// a call elsewhere.
//
// A context bounds its call, and the file that Open or Create returns: when it
// is done, reading, writing and Commit fail; whether a Commit under way then
// came to pass is not known.
type remoteFiles struct {
	dial func(ctx context.Context) (io.ReadWriteCloser, error)
	turn chan struct{} // held while connecting

	mu     sync.Mutex
	conn   *sftpConn
	closed bool
	temps  map[string]*sftpConn // files of a stock server that are being written
}

var _ sandbox.Files = (*remoteFiles)(nil)

// newFiles returns the files of a box. It connects with open when it first
// must, and again after a connection was lost; closing what open returned must
// end its Read and Write.
func newFiles(open func(ctx context.Context) (io.ReadWriteCloser, error)) *remoteFiles {
	return &remoteFiles{dial: open, turn: make(chan struct{}, 1), temps: map[string]*sftpConn{}}
}

// closePatience bounds how long Close waits for a server to drop what was not
// committed.
const closePatience = 2 * time.Second

// Close discards what is not committed and ends every call. It may be repeated.
func (r *remoteFiles) Close() error {
	r.mu.Lock()
	k := r.conn
	closed := r.closed
	r.closed, r.conn = true, nil
	r.mu.Unlock()
	if closed || k == nil {
		return nil
	}
	if !k.guest {
		ctx, stop := context.WithTimeout(context.Background(), closePatience)
		r.sweep(ctx, k, true)
		stop()
	}
	k.fail(sandbox.ErrClosed)
	return nil
}

// dialect is what the calls are made of: sandbox.Files without checks of names
// and without names in errors.
type dialect interface {
	resolve(ctx context.Context, name string) (string, error)
	open(ctx context.Context, name string) (*remoteFile, error)
	create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error)
	readDir(ctx context.Context, d *dirReader) error
	stat(ctx context.Context, name string) (*fileInfo, error)
	mkdir(ctx context.Context, name string, perm fs.FileMode) error
	mkdirAll(ctx context.Context, name string, perm fs.FileMode) error
	rename(ctx context.Context, oldName, newName string) error
	remove(ctx context.Context, name string) error
	removeAll(ctx context.Context, name string) error
}

// use returns a connection that stands, in the dialect of its server.
func (r *remoteFiles) use(ctx context.Context) (dialect, error) {
	k, err := r.connected(ctx)
	if err != nil {
		return nil, err
	}
	if k.guest {
		return guestFiles{k}, nil
	}
	return stockFiles{k, r}, nil
}

func (r *remoteFiles) connected(ctx context.Context) (*sftpConn, error) {
	if k, err := r.standing(); k != nil || err != nil {
		return k, err
	}
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if k, err := r.standing(); k != nil || err != nil {
		return k, err
	}
	rw, err := r.dial(ctx)
	var k *sftpConn
	if err == nil {
		k, err = dialSFTP(ctx, rw)
	}
	if err != nil {
		switch {
		case ctx.Err() != nil:
			err = context.Cause(ctx)
		case !errors.Is(err, sandbox.ErrClosed) && !errors.Is(err, sandbox.ErrLost):
			err = fmt.Errorf("%w: %w", sandbox.ErrLost, err)
		}
		return nil, err
	}
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.conn = k
	}
	r.mu.Unlock()
	if closed {
		k.fail(sandbox.ErrClosed)
		return nil, sandbox.ErrClosed
	}
	if !k.guest {
		r.sweep(ctx, k, false)
	}
	return k, nil
}

// standing is the connection, unless there is none.
func (r *remoteFiles) standing() (*sftpConn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, sandbox.ErrClosed
	case r.conn != nil && r.conn.failure() == nil:
		return r.conn, nil
	}
	return nil, nil
}

func (r *remoteFiles) Resolve(ctx context.Context, name string) (string, error) {
	if err := checkRaw(ctx, "resolve", name); err != nil {
		return "", err
	}
	f, err := r.use(ctx)
	var resolved string
	if err == nil {
		resolved, err = f.resolve(ctx, name)
	}
	return resolved, pathError("resolve", name, err)
}

// call makes a call about one name.
func (r *remoteFiles) call(ctx context.Context, op, name string, do func(f dialect, name string) error) error {
	name, err := checkName(ctx, op, name)
	if err != nil {
		return err
	}
	f, err := r.use(ctx)
	if err == nil {
		err = do(f, name)
	}
	var several *severalError
	if errors.As(err, &several) {
		return err
	}
	return pathError(op, name, err)
}

func (r *remoteFiles) Open(ctx context.Context, name string) (sandbox.File, error) {
	var file *remoteFile
	err := r.call(ctx, "open", name, func(f dialect, name string) (err error) {
		file, err = f.open(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (r *remoteFiles) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	if opt.Perm &= fs.ModePerm; opt.Perm == 0 {
		opt.Perm = 0o666
	}
	var file sandbox.AtomicFile
	err := r.call(ctx, "create", name, func(f dialect, name string) (err error) {
		if name == "/" {
			return sandbox.ErrNotRegular
		}
		file, err = f.create(ctx, name, opt)
		return err
	})
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (r *remoteFiles) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	d := &dirReader{files: r}
	err := r.call(ctx, "readdir", name, func(f dialect, name string) error {
		d.dir = name
		return f.readDir(ctx, d)
	})
	if err != nil {
		return nil, err
	}
	return d.sorted(), nil
}

func (r *remoteFiles) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	var info *fileInfo
	err := r.call(ctx, "stat", name, func(f dialect, name string) (err error) {
		info, err = f.stat(ctx, name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (r *remoteFiles) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return r.call(ctx, "mkdir", name, func(f dialect, name string) error {
		if name == "/" {
			return fs.ErrExist
		}
		return f.mkdir(ctx, name, perm.Perm())
	})
}

func (r *remoteFiles) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return r.call(ctx, "mkdirall", name, func(f dialect, name string) error { return f.mkdirAll(ctx, name, perm.Perm()) })
}

func (r *remoteFiles) Rename(ctx context.Context, oldName, newName string) error {
	to, err := checkName(ctx, "rename", newName)
	if err != nil {
		return err
	}
	var from string
	err = r.call(ctx, "rename", oldName, func(f dialect, name string) error {
		from = name
		return f.rename(ctx, name, to)
	})
	var pe *fs.PathError
	if from == "" || !errors.As(err, &pe) {
		return err
	}
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: pe.Err}
}

func (r *remoteFiles) Remove(ctx context.Context, name string) error {
	return r.call(ctx, "remove", name, func(f dialect, name string) error { return f.remove(ctx, name) })
}

func (r *remoteFiles) RemoveAll(ctx context.Context, name string) error {
	return r.call(ctx, "removeall", name, func(f dialect, name string) error { return f.removeAll(ctx, name) })
}

// severalError is about names of its own.
type severalError struct{ error }

func (e *severalError) Unwrap() error { return e.error }
