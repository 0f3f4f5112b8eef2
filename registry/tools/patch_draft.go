package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools/patchtext"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxPatchFile is the longest file that is patched, in bytes: it is held in
// memory a few times.
const maxPatchFile = 64 << 20

// errMissing marks a file that is not there.
var errMissing = errors.New("file not found")

// draft is what the files would become: operations change it, commit makes it
// true. Results are told by comparing it with what was there, so they say what
// happened and not what was asked for. While it is open its files are locked.
type draft struct {
	*session
	caller   registry.Caller
	resolved map[string]string // by the name the caller used
	denied   map[string]error
	files    map[string]*draftFile // by resolved path
	order    []*draftFile
	unlock   []func()
	warnings []string
}

// draftFile is one file of a draft.
type draftFile struct {
	name string // as the caller spells it
	path string // resolved

	existed bool
	old     string
	info    fs.FileInfo

	exists bool
	text   string
	exec   bool   // created, and executable
	from   string // the resolved path it was moved from, "" if it was not

	trash string // where it is kept until a deletion is final
}

func newDraft(s *session, caller registry.Caller) *draft {
	return &draft{session: s, caller: caller, resolved: map[string]string{}, denied: map[string]error{}, files: map[string]*draftFile{}}
}

// open resolves every name and locks the files, in one order for everybody so
// that two patches never wait for each other.
func (d *draft) open(ctx context.Context, names ...string) error {
	var paths []string
	for _, name := range names {
		if _, ok := d.resolved[name]; ok {
			continue
		}
		resolved, err := d.resolve(ctx, name, toWrite)
		if err == nil {
			// The diff tells what the file holds.
			err = d.allowed(name, resolved, toRead)
		}
		d.resolved[name] = resolved
		if err != nil {
			d.denied[name] = err
			continue
		}
		paths = append(paths, resolved)
	}
	slices.Sort(paths)
	for _, p := range slices.Compact(paths) {
		unlock, err := d.locks.lock(ctx, p)
		if err != nil {
			return err
		}
		d.unlock = append(d.unlock, unlock)
	}
	return nil
}

func (d *draft) close() {
	for _, unlock := range d.unlock {
		unlock()
	}
	d.unlock = nil
}

// purpose is what a file of a draft is looked up for.
type purpose int

const (
	forText  purpose = iota // it must be there; links are followed
	forName                 // it must be there under that very name
	forPlace                // nothing may be there
)

// file returns a file of the draft, reading it when it is asked for first.
func (d *draft) file(ctx context.Context, name string, why purpose) (*draftFile, error) {
	if err := d.denied[name]; err != nil {
		return nil, err
	}
	resolved := d.resolved[name]
	f := d.files[resolved]
	if f == nil {
		f = &draftFile{name: name, path: resolved}
		if err := d.read(ctx, f); err != nil {
			return nil, err
		}
		f.exists, f.text = f.existed, f.old
		d.warn(f)
		d.files[resolved] = f
		d.order = append(d.order, f)
	}
	if why != forText && d.isLink(ctx, name) {
		return nil, fmt.Errorf("'%s' is a symbolic link; name the file it leads to", name)
	}
	if why != forPlace && !f.exists {
		return nil, errMissing
	}
	return f, nil
}

// isLink reports whether the name itself, not what it leads to, is a link.
func (d *draft) isLink(ctx context.Context, name string) bool {
	full, err := d.expand(name)
	if err != nil {
		return false
	}
	dir, err := d.box.Files().Resolve(ctx, path.Dir(full))
	if err != nil {
		return false
	}
	info, err := d.box.Files().Stat(ctx, path.Join(dir, path.Base(full)))
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// warn notes what the caller should know before f is changed.
func (d *draft) warn(f *draftFile) {
	w := ""
	if f.existed {
		w = d.reads.stale(d.caller.Session, f.path, stampOf(f.info))
	}
	if w == "" {
		w = d.outside(f.name, f.path)
	}
	if w != "" {
		d.warnings = append(d.warnings, w)
	}
}

// read fills in what is on disk.
func (d *draft) read(ctx context.Context, f *draftFile) error {
	file, err := d.box.Files().Open(ctx, f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.readTrouble(ctx, f, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return d.readTrouble(ctx, f, err)
	}
	if info.Size() > maxPatchFile {
		return fmt.Errorf("the file is too large to patch: %d bytes, at most %d", info.Size(), maxPatchFile)
	}
	text, err := readAll(ctx, io.LimitReader(file, maxPatchFile+1), info.Size())
	if err != nil {
		return d.readTrouble(ctx, f, err)
	}
	if len(text) > maxPatchFile {
		return fmt.Errorf("the file is too large to patch: more than %d bytes", maxPatchFile)
	}
	f.existed, f.old, f.info = true, text, info
	return nil
}

// readAll is io.ReadAll into a string, without the copies.
func readAll(ctx context.Context, r io.Reader, size int64) (string, error) {
	var b strings.Builder
	b.Grow(int(size))
	buf := make([]byte, min(size+1, chunkSize))
	for {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		n, err := r.Read(buf)
		b.Write(buf[:n])
		if err == io.EOF {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
	}
}

func (d *draft) readTrouble(ctx context.Context, f *draftFile, err error) error {
	if errors.Is(err, sandbox.ErrNotRegular) {
		if info, serr := d.box.Files().Stat(ctx, f.path); serr == nil && info.IsDir() {
			return fmt.Errorf("'%s' is a directory", f.name)
		}
	}
	return pathTrouble(f.name, err)
}

// simulate carries out the operations in the draft. loosest is the least exact
// way a hunk was found; problems say which operations cannot be done.
func (d *draft) simulate(ctx context.Context, ops []patchtext.Op) (loosest patchtext.Strategy, problems []string) {
	broken := map[string]bool{} // files about which enough was said
	for _, op := range ops {
		from, to := d.resolved[op.Path], d.resolved[op.To]
		if broken[from] || to != "" && broken[to] {
			continue
		}
		how, err := d.do(ctx, op)
		if err != nil {
			broken[from] = true
			if to != "" {
				broken[to] = true
			}
			problems = append(problems, err.Error())
		}
		if how.Looser(loosest) {
			loosest = how
		}
		if ctx.Err() != nil {
			return loosest, problems
		}
	}
	return loosest, problems
}

// do carries out one operation in the draft.
func (d *draft) do(ctx context.Context, op patchtext.Op) (patchtext.Strategy, error) {
	about := func(name string, err error) error { return fmt.Errorf("%s: %w", clip(name, 300), err) }
	switch op.Kind {
	case patchtext.Add:
		f, err := d.file(ctx, op.Path, forPlace)
		if err != nil {
			return "", about(op.Path, err)
		}
		if f.exists {
			return "", about(op.Path, errors.New("file already exists; use *** Update File: to change it"))
		}
		f.exists, f.text, f.exec, f.from = true, op.Content, op.Exec, ""
		return "", nil
	case patchtext.Update:
		f, err := d.file(ctx, op.Path, forText)
		if err != nil {
			return "", about(op.Path, err)
		}
		text, how, err := edit(f.text, op.Apply)
		if err != nil {
			return "", about(op.Path, err)
		}
		f.text = text
		return how, nil
	case patchtext.Delete:
		f, err := d.file(ctx, op.Path, forName)
		if errors.Is(err, errMissing) {
			return "", about(op.Path, errors.New("file not found for deletion"))
		}
		if err != nil {
			return "", about(op.Path, err)
		}
		if len(op.Hunks) > 0 {
			if rest, _, err := edit(f.text, op.Apply); err != nil {
				return "", about(op.Path, err)
			} else if rest != "" {
				return "", about(op.Path, errors.New("the file holds more than the patch deletes"))
			}
		}
		f.exists, f.text, f.from = false, "", ""
		return "", nil
	}
	return d.move(ctx, op, about)
}

func (d *draft) move(ctx context.Context, op patchtext.Op, about func(string, error) error) (patchtext.Strategy, error) {
	src, err := d.file(ctx, op.Path, forName)
	if errors.Is(err, errMissing) {
		return "", about(op.Path, errors.New("source file not found for move"))
	}
	if err != nil {
		return "", about(op.Path, err)
	}
	dst, err := d.file(ctx, op.To, forPlace)
	if err != nil {
		return "", about(op.To, err)
	}
	if dst.exists {
		return "", about(op.To, errors.New("destination already exists — move would overwrite"))
	}
	text, how, err := edit(src.text, op.Apply)
	if err != nil {
		return "", about(op.Path, err)
	}
	dst.exists, dst.text, dst.exec = true, text, src.exec
	if dst.from = src.from; dst.from == "" && src.existed {
		dst.from, dst.exec = src.path, src.info.Mode()&0o111 != 0
	}
	src.exists, src.text, src.from = false, "", ""
	return how, nil
}
