package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxStaged is how much content a request to stage carries; of what has more,
// each file is a request, and written through its descriptor.
const maxStaged = 48 << 10

// Stage implements sandbox.Stager.
func (c *Client) Stage(ctx context.Context, dir string, files []sandbox.StagedFile, look []string) (found sandbox.Found, err error) {
	dir, err = checkStaged(ctx, dir, files)
	if err != nil {
		return found, err
	}
	size := 0
	for _, f := range files {
		size += len(f.Content)
	}
	if size > maxStaged {
		err = stage(ctx, c, dir, files, func(name string, perm, dir fs.FileMode) (*os.File, error) {
			return c.make(ctx, name, perm, dir)
		})
		if err == nil && len(look) > 0 {
			found = find(ctx, c, look)
		}
		return found, err
	}
	r, take := &request{op: opStage, name: dir, staged: files}, (func(*conn, byte, *body, int) error)(nil)
	together := findable(ctx, look)
	if together {
		r.more = look
		take = func(_ *conn, kind byte, b *body, fd int) error { return takeFound(&found, look, kind, b, fd) }
	}
	err = c.call(ctx, "stage", r, take)
	if err == nil && !together && len(look) > 0 {
		found = find(ctx, c, look)
	}
	return found, err
}

// checkStaged is checkName for all the names.
func checkStaged(ctx context.Context, dir string, files []sandbox.StagedFile) (string, error) {
	clean, err := checkName(ctx, "stage", dir)
	if err == nil && (clean == "/" || len(files) == 0 || len(files) > maxFiles) {
		err = pathError("stage", dir, fs.ErrInvalid)
	}
	for _, f := range files {
		if err == nil && !isBase(f.Name) {
			err = pathError("stage", path.Join(clean, f.Name), fs.ErrInvalid)
		}
	}
	return clean, err
}

// stage makes the files one after the other, the directory with the first.
func stage(ctx context.Context, all sandbox.Files, dir string, files []sandbox.StagedFile,
	create func(name string, perm, dir fs.FileMode) (*os.File, error)) error {
	dir, err := checkStaged(ctx, dir, files)
	if err != nil {
		return err
	}
	with := fs.FileMode(0o700)
	for _, f := range files {
		name := path.Join(dir, f.Name)
		file, err := create(name, 0o600, with)
		if err != nil && with != 0 {
			return err // there is nothing, or nothing of ours; a server that is given up undoes what it did
		}
		with = 0
		if err == nil {
			_, err = file.WriteString(f.Content)
			if e := file.Close(); err == nil { // some file systems tell only here that the disk is full
				err = e
			}
		}
		if err != nil {
			return errors.Join(err, all.RemoveAll(context.WithoutCancel(ctx), dir))
		}
	}
	if ctx.Err() != nil { // nobody knows of them
		return errors.Join(pathError("stage", dir, context.Cause(ctx)), all.RemoveAll(context.WithoutCancel(ctx), dir))
	}
	return nil
}

// undo takes back what a client that has gone will not know of.
func (s *server) undo(r *request) {
	ctx := context.Background()
	switch {
	case r.op == opStage:
		_ = s.files.RemoveAll(ctx, r.name)
	case r.op == opMake && r.dir != 0:
		_ = s.files.RemoveAll(ctx, path.Dir(r.name))
	case r.op == opMake:
		_ = s.files.Remove(ctx, r.name)
	}
}
