package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry/tools/patchtext"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// transaction makes a draft true. What can fail for want of space is done
// first, under temporary names; what follows are renames, each of which is
// undone when a later one fails.
type transaction struct {
	*draft
	staged map[*draftFile]sandbox.AtomicFile
	undo   []undoStep // newest last
}

type undoStep struct {
	path string
	do   func(context.Context) error
}

// commitError says that nothing was changed, or, if lost is not empty, what
// could not be restored.
type commitError struct {
	path string
	err  error
	lost []string
}

func (e *commitError) Error() string {
	state := "all changes were rolled back"
	if len(e.lost) > 0 {
		state = "state may be inconsistent — run `git diff` to assess; not restored: " + strings.Join(e.lost, ", ")
	}
	return "Apply phase failed (" + state + "):\n  • " + pathTrouble(e.path, e.err).Error()
}

func (e *commitError) Unwrap() error { return e.err }

// errMeanwhile: somebody else got in between.
var errMeanwhile = errors.New("the file was changed by somebody else while it was being patched")

func (f *draftFile) written() bool { return f.exists && (!f.existed || f.text != f.old) }
func (f *draftFile) deleted() bool { return f.existed && !f.exists }

// origin is the file f was moved from, if f can become it by a rename.
func (d *draft) origin(f *draftFile) *draftFile {
	if from := d.files[f.from]; f.from != "" && f.exists && !f.existed && from.deleted() {
		return from
	}
	return nil
}

// commit writes what the draft changed; after an error everything is as
// before, or a commitError says what is not.
func (d *draft) commit(ctx context.Context) error {
	t := &transaction{draft: d, staged: map[*draftFile]sandbox.AtomicFile{}}
	at, err := t.run(ctx)
	for _, w := range t.staged {
		w.Discard() // does nothing after Commit
	}
	if err == nil {
		return t.verify(ctx)
	}
	failure := &commitError{path: at.path, err: err}
	ctx = context.WithoutCancel(ctx)
	for i := len(t.undo) - 1; i >= 0; i-- {
		if err := t.undo[i].do(ctx); err != nil {
			failure.lost = append(failure.lost, t.undo[i].path)
		}
	}
	return failure
}

// run returns the file at which it failed.
func (t *transaction) run(ctx context.Context) (*draftFile, error) {
	for _, phase := range []func(context.Context, *draftFile) error{t.prepare, t.untouched, t.rename, t.put, t.trash, t.emptyTrash} {
		for _, f := range t.order {
			if ctx.Err() != nil {
				return f, context.Cause(ctx)
			}
			if err := phase(ctx, f); err != nil {
				return f, err
			}
		}
	}
	return nil, nil
}

func (t *transaction) onFailure(path string, do func(context.Context) error) {
	t.undo = append(t.undo, undoStep{path, do})
}

// prepare makes f's directories and writes its content out of sight.
func (t *transaction) prepare(ctx context.Context, f *draftFile) error {
	if !f.written() {
		return nil
	}
	if err := t.parents(ctx, path.Dir(f.path)); err != nil || t.origin(f) != nil {
		return err
	}
	opt := sandbox.CreateOptions{New: !f.existed}
	if from := t.files[f.from]; from != nil && from.info != nil {
		opt.Perm = from.info.Mode().Perm()
	} else if f.exec {
		opt.Perm = 0o777
	}
	return t.stage(ctx, f, opt)
}

// parents makes the directories that are missing.
func (t *transaction) parents(ctx context.Context, dir string) error {
	undo, err := t.makeDirs(ctx, dir)
	t.onFailure(dir, func(ctx context.Context) error { undo(ctx); return nil })
	return err
}

// stage writes f's new content under a temporary name.
func (t *transaction) stage(ctx context.Context, f *draftFile, opt sandbox.CreateOptions) error {
	opt.Sync = t.cfg.Fsync
	w, err := t.box.Files().Create(ctx, f.path, opt)
	if err != nil {
		return err
	}
	t.staged[f] = w
	_, err = io.WriteString(w, f.text)
	return err
}

// untouched makes sure that f is still what the draft began with.
func (t *transaction) untouched(ctx context.Context, f *draftFile) error {
	if !f.written() && !f.deleted() {
		return nil
	}
	info, err := t.box.Files().Stat(ctx, f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if f.existed {
			return errMeanwhile
		}
		return nil
	case err != nil:
		return err
	case !f.existed || stampOf(info) != stampOf(f.info):
		return errMeanwhile
	}
	return nil
}

// rename moves a file to its new place and gives it its new content there, so
// that it stays the same file, with its mode and owner.
func (t *transaction) rename(ctx context.Context, f *draftFile) error {
	from := t.origin(f)
	if from == nil {
		return nil
	}
	files := t.box.Files()
	if err := files.Rename(ctx, from.path, f.path); err != nil {
		return err
	}
	t.onFailure(from.path, func(ctx context.Context) error { return files.Rename(ctx, f.path, from.path) })
	if f.text == from.old {
		return nil
	}
	return t.stage(ctx, f, sandbox.CreateOptions{})
}

// put makes a staged content visible.
func (t *transaction) put(ctx context.Context, f *draftFile) error {
	w := t.staged[f]
	if w == nil {
		return nil
	}
	if err := w.Commit(); err != nil {
		return err
	}
	old, existed := f.old, f.existed
	if from := t.origin(f); from != nil {
		old, existed = from.old, true
	}
	t.onFailure(f.path, func(ctx context.Context) error {
		if !existed {
			return t.box.Files().Remove(ctx, f.path)
		}
		_, err := t.session.put(ctx, f.path, old)
		return err
	})
	return nil
}

// trash takes f out of sight; emptyTrash removes it when nothing can fail any
// more.
func (t *transaction) trash(ctx context.Context, f *draftFile) error {
	if !f.deleted() || t.movedAway(f) {
		return nil
	}
	files := t.box.Files()
	f.trash = path.Join(path.Dir(f.path), ".hermes-trash-"+rand.Text())
	if err := files.Rename(ctx, f.path, f.trash); err != nil {
		f.trash = ""
		return err
	}
	t.onFailure(f.path, func(ctx context.Context) error {
		err := files.Rename(ctx, f.trash, f.path)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		w, err := files.Create(ctx, f.path, sandbox.CreateOptions{Perm: f.info.Mode().Perm(), New: true})
		if err != nil {
			return err
		}
		defer w.Discard()
		if _, err := io.WriteString(w, f.old); err != nil {
			return err
		}
		return w.Commit()
	})
	return nil
}

func (t *transaction) emptyTrash(ctx context.Context, f *draftFile) error {
	if f.trash == "" {
		return nil
	}
	return t.box.Files().Remove(ctx, f.trash)
}

// verify reads back what was written, byte for byte, and remembers that this
// session knows it.
func (t *transaction) verify(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx) // it is written: what is left is to say so
	for _, f := range t.order {
		if !f.written() {
			continue
		}
		now := draftFile{name: f.name, path: f.path}
		switch err := t.read(ctx, &now); {
		case err != nil:
			return &shownError{"Post-write verification failed for '" + f.path + "': " + err.Error(), err}
		case !now.existed || now.old != f.text:
			return &shownError{"Post-write verification failed for '" + f.path + "': it does not hold what was written. Somebody else changed it: read it again.", errMeanwhile}
		}
		t.reads.wrote(t.caller.Session, f.path, stampOf(now.info))
	}
	return nil
}

// result says what the draft, once committed, has changed.
func (d *draft) result() patchResult {
	out := patchResult{Success: true, FilesModified: []string{}}
	var changes []patchtext.Change
	for _, f := range d.order {
		c := patchtext.Change{OldPath: d.relative(f.path), NewPath: d.relative(f.path), Old: f.old, New: f.text}
		switch from := d.origin(f); {
		case from != nil:
			c.OldPath, c.Old = d.relative(from.path), from.old
			changes = append(changes, c)
		case f.written():
			if !f.existed {
				c.OldPath, c.Exec = "", f.exec
			}
			changes = append(changes, c)
		case f.deleted() && !d.movedAway(f):
			c.NewPath, c.Exec = "", f.info.Mode()&0o111 != 0
			changes = append(changes, c)
		}
		if f.written() {
			out.FilesModified = append(out.FilesModified, f.path)
			if !f.existed {
				out.FilesCreated = append(out.FilesCreated, path.Clean(f.name))
			}
		}
		if f.deleted() {
			out.FilesDeleted = append(out.FilesDeleted, path.Clean(f.name))
		}
	}
	out.setDiff(d.shown(d.caller, patchtext.Diff(changes...)))
	for _, w := range d.warnings {
		out.warn(w)
	}
	if len(out.FilesModified)+len(out.FilesDeleted) == 0 {
		out.warn("Nothing was changed: the text is already what it was to become.")
	}
	return out
}

// movedAway reports whether some other file is f by now.
func (d *draft) movedAway(f *draftFile) bool {
	for _, other := range d.order {
		if d.origin(other) == f {
			return true
		}
	}
	return false
}

// relative is a path as a diff names it: below the working directory where it
// is, else below the root.
func (d *draft) relative(p string) string {
	if dir := d.cwd(); dir != "/" && under(p, dir) && p != dir {
		return p[len(dir)+1:]
	}
	return strings.TrimPrefix(p, "/")
}

// linted is what a check of one file said.
type linted struct {
	name   string
	result lintResult
}

// lintAll checks the syntax of what was written.
func (d *draft) lintAll(ctx context.Context) []linted {
	var out []linted
	for _, f := range d.order {
		if !f.written() {
			continue
		}
		before, known := f.old, f.existed
		if from := d.files[f.from]; from != nil {
			before, known = from.old, true
		}
		out = append(out, linted{f.name, d.lint(ctx, d.caller, f.path, f.text, oldFile{text: before, whole: known})})
	}
	return out
}
