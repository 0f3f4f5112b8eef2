package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Bounds of removing a tree.
const (
	maxTreeDepth  = 1000
	maxTreeErrors = 16 // refusals reported
	removeAtOnce  = 16
)

func errNoExtension(name string) error {
	return fmt.Errorf("the sftp server does not know %s: %w", name, sandbox.ErrUnsupported)
}

func unlinkPacket(name string, dir bool) func(id uint32) sshwire.Packet {
	kind := byte(sshwire.SFTPRemove)
	if dir {
		kind = sshwire.SFTPRmdir
	}
	return func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, kind, id).Text(name) }
}

func (f stockFiles) remove(ctx context.Context, name string) error {
	if name == "/" {
		return syscall.EBUSY
	}
	info, err := f.existing(ctx, name, false)
	if err != nil {
		return err
	}
	err = f.status(ctx, unlinkPacket(name, info.IsDir()))
	if info.IsDir() && isRefused(err) {
		err = syscall.ENOTEMPTY
	}
	return err
}

func (f stockFiles) removeAll(ctx context.Context, name string) error {
	if name == "/" {
		return syscall.EBUSY
	}
	info, err := f.check(ctx, name, false)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil || info == nil:
		return err
	case !info.IsDir():
		return gone(f.status(ctx, unlinkPacket(name, false)))
	}
	t := &treeRemover{stockFiles: f, ctx: ctx}
	if err := t.remove(name, 0); err != nil {
		return err
	}
	if len(t.errs) > 0 {
		return &severalError{errors.Join(t.errs...)}
	}
	return nil
}

// gone makes nothing of the error that somebody was faster.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// treeRemover removes one tree, and what it can of one that resists.
type treeRemover struct {
	stockFiles
	ctx  context.Context
	errs []error
}

func (t *treeRemover) refused(name string, err error) {
	if len(t.errs) < maxTreeErrors {
		t.errs = append(t.errs, pathError("removeall", name, err))
	}
}

// remove empties a directory and removes it. Its error is about the
// connection.
func (t *treeRemover) remove(dir string, depth int) error {
	if depth > maxTreeDepth || len(dir) > maxSFTPPath {
		t.refused(dir, syscall.ENAMETOOLONG)
		return nil
	}
	before := len(t.errs)
	d := &dirReader{dir: dir, files: t.files}
	err := t.readDir(t.ctx, d)
	if errors.Is(err, fs.ErrPermission) { // its mode keeps us out; if it is ours, let us in
		if t.setMode(dir, 0o700) == nil {
			err = t.readDir(t.ctx, d)
		}
	}
	if err != nil {
		if t.over() {
			return err
		}
		if gone(err) != nil {
			t.refused(dir, err)
		}
		return nil
	}
	entries := d.sorted()
	if err := t.unlink(dir, entries); err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := t.remove(path.Join(dir, e.Name()), depth+1); err != nil {
				return err
			}
		}
	}
	if err := gone(t.status(t.ctx, unlinkPacket(dir, true))); err != nil {
		if t.over() {
			return err
		}
		if len(t.errs) == before {
			if isRefused(err) {
				err = syscall.ENOTEMPTY
			}
			t.refused(dir, err)
		}
	}
	return nil
}

// over tells whether there is no use in going on.
func (t *treeRemover) over() bool { return t.ctx.Err() != nil || t.failure() != nil }

// unlink removes all that is no directory.
func (t *treeRemover) unlink(dir string, entries []fs.DirEntry) error {
	opened := false
	type removal struct {
		name string
		call *sftpCall
	}
	var under []removal
	settle := func() error {
		r := under[0]
		under = under[1:]
		reply, err := t.wait(t.ctx, r.call, nil)
		if err != nil {
			return err
		}
		err = gone(t.refusal(&reply))
		if errors.Is(err, fs.ErrPermission) && !opened {
			opened = true
			_ = t.setMode(dir, 0o700)
		}
		if errors.Is(err, fs.ErrPermission) && opened {
			err = gone(t.status(t.ctx, unlinkPacket(r.name, false)))
		}
		if err != nil {
			if t.over() {
				return err
			}
			t.refused(r.name, err)
		}
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		if len(under) == removeAtOnce {
			if err := settle(); err != nil {
				return err
			}
		}
		name := path.Join(dir, e.Name())
		call, err := t.start(t.ctx, 0, unlinkPacket(name, false))
		if err != nil {
			return err
		}
		under = append(under, removal{name, call})
	}
	for len(under) > 0 {
		if err := settle(); err != nil {
			return err
		}
	}
	return nil
}

// setMode changes the mode of a directory that was seen to be one.
func (t *treeRemover) setMode(dir string, mode uint32) error {
	info, err := t.existing(t.ctx, dir, true)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return err
	}
	return t.status(t.ctx, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPSetstat, id).Text(dir).Attrs(sshwire.Attrs{Has: sshwire.AttrMode, Mode: mode})
	})
}
