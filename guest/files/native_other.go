//go:build !linux

package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Files are this machine's files. Without openat2 a name is checked link by
// link and what was opened is compared with what was checked; somebody who
// changes the tree between the two can make a call fail, and in a directory he
// can write to, make it act there. Only the open policy runs on such systems.
type Files struct{}

// New returns the files of this machine, as this process may touch them.
func New() *Files { return &Files{} }

// checkLinks refuses a name with a link in any component; last says whether
// the last one counts.
func checkLinks(name string, last bool) error {
	for at := name; ; {
		up := filepath.Dir(at)
		if at == up {
			return nil
		}
		if last {
			if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
				return sandbox.ErrSymlink
			}
		}
		at, last = up, true
	}
}

// check is checkName and checkLinks.
func check(ctx context.Context, op, name string, last bool) (string, error) {
	clean, err := checkName(ctx, op, name)
	if err == nil {
		err = pathError(op, name, checkLinks(clean, last))
	}
	return clean, err
}

func (f *Files) Resolve(ctx context.Context, name string) (string, error) {
	if err := checkRaw(ctx, "resolve", name); err != nil {
		return "", err
	}
	clean, rest := filepath.Clean(name), ""
	if hasDotDot(name) { // the meaning of ".." depends on links: resolve what is before it
		parts := strings.Split(filepath.ToSlash(name), "/")
		i := slices.Index(parts, "..")
		before, err := f.Resolve(ctx, strings.Join(parts[:i], "/")+"/")
		if err != nil {
			return "", err
		}
		return f.Resolve(ctx, filepath.Join(filepath.Dir(before), strings.Join(parts[i+1:], "/")))
	}
	for {
		real, err := filepath.EvalSymlinks(clean)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || clean == filepath.Dir(clean) {
			return "", pathError("resolve", name, err)
		}
		if target, lerr := os.Readlink(clean); lerr == nil { // dangling
			if !filepath.IsAbs(target) {
				target = filepath.Join(filepath.Dir(clean), target)
			}
			if strings.HasPrefix(target+"/", clean+"/") {
				return "", pathError("resolve", name, err)
			}
			clean = target
			continue
		}
		clean, rest = filepath.Dir(clean), filepath.Join(filepath.Base(clean), rest)
	}
}

func (f *Files) Open(ctx context.Context, name string) (sandbox.File, error) {
	name, err := check(ctx, "open", name, true)
	if err != nil {
		return nil, err
	}
	looked, err := os.Lstat(name)
	if err == nil && !looked.Mode().IsRegular() {
		err = sandbox.ErrNotRegular
	}
	if err != nil {
		return nil, pathError("open", name, err)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(looked, opened) {
		file.Close()
		return nil, pathError("open", name, sandbox.ErrSymlink)
	}
	return file, nil
}

func (f *Files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	name, err := check(ctx, "stat", name, false)
	if err != nil {
		return nil, err
	}
	info, err := os.Lstat(name)
	return info, pathError("stat", name, err)
}

func (f *Files) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	name, err := check(ctx, "readdir", name, true)
	if err != nil {
		return nil, err
	}
	list, err := os.ReadDir(name)
	for i, e := range list {
		list[i] = entry{e, f, filepath.Join(name, e.Name())}
	}
	return list, pathError("readdir", name, err)
}

func (f *Files) Mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	name, err := check(ctx, "mkdir", name, false)
	if err != nil {
		return err
	}
	return pathError("mkdir", name, os.Mkdir(name, perm.Perm()))
}

func (f *Files) MkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	name, err := check(ctx, "mkdirall", name, true)
	if err != nil {
		return err
	}
	return pathError("mkdirall", name, os.MkdirAll(name, perm.Perm()))
}

func (f *Files) Rename(ctx context.Context, oldName, newName string) error {
	oldName, err := check(ctx, "rename", oldName, true)
	if err != nil {
		return err
	}
	if newName, err = check(ctx, "rename", newName, true); err != nil {
		return err
	}
	return os.Rename(oldName, newName)
}

func (f *Files) Remove(ctx context.Context, name string) error {
	name, err := check(ctx, "remove", name, false)
	if err != nil {
		return err
	}
	return pathError("remove", name, os.Remove(name))
}

func (f *Files) RemoveAll(ctx context.Context, name string) error {
	name, err := check(ctx, "removeall", name, false)
	if err != nil {
		return err
	}
	return pathError("removeall", name, os.RemoveAll(name))
}

// atomicFile is a file being written under a temporary name in the directory
// it will appear in.
type atomicFile struct {
	name, temp string
	opt        sandbox.CreateOptions
	file       *os.File
	err        error
	done       bool
}

func (f *Files) Create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	name, err := check(ctx, "create", name, true)
	if err != nil {
		return nil, err
	}
	if opt.Perm == 0 {
		opt.Perm = 0o666
	}
	perm := opt.Perm.Perm()
	if old, err := os.Lstat(name); err == nil {
		if !old.Mode().IsRegular() {
			return nil, pathError("create", name, sandbox.ErrNotRegular)
		}
		if !opt.New {
			perm = 0o600 // until Commit gives it the old file's
		}
	}
	temp := filepath.Join(filepath.Dir(name), tempName())
	file, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return nil, pathError("create", name, err)
	}
	return &atomicFile{name: name, temp: temp, opt: opt, file: file}, nil
}

func (a *atomicFile) Write(p []byte) (int, error) {
	n, err := a.file.Write(p)
	if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

// WriteAt writes at a place of the file, for who gets its pieces in any order.
// It is not safe for concurrent use.
func (a *atomicFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := a.file.WriteAt(p, off)
	if err != nil && a.err == nil {
		a.err = err
	}
	return n, err
}

func (a *atomicFile) Commit() error {
	if a.done {
		return pathError("commit", a.name, fs.ErrClosed)
	}
	err := a.commit()
	if err != nil {
		a.Discard()
	}
	a.done = true
	return pathError("commit", a.name, err)
}

func (a *atomicFile) commit() error {
	if a.err != nil {
		return a.err
	}
	if err := checkLinks(a.name, true); err != nil {
		return err
	}
	if old, err := os.Lstat(a.name); err == nil && !a.opt.New {
		if !old.Mode().IsRegular() {
			return sandbox.ErrNotRegular
		}
		if err := os.Chmod(a.temp, old.Mode().Perm()); err != nil {
			return err
		}
	}
	if a.opt.Sync {
		if err := a.file.Sync(); err != nil {
			return err
		}
	}
	if err := a.file.Close(); err != nil {
		return err
	}
	if !a.opt.New {
		return os.Rename(a.temp, a.name)
	}
	if err := os.Link(a.temp, a.name); err != nil {
		return err
	}
	return os.Remove(a.temp)
}

func (a *atomicFile) Discard() error {
	if a.done {
		return nil
	}
	a.done = true
	a.file.Close()
	return pathError("discard", a.name, os.Remove(a.temp))
}
