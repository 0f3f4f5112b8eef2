package sshbox

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// stockFile is a file being written under a temporary name beside its own.
type stockFile struct {
	stockFiles
	name, temp string
	opt        sandbox.CreateOptions
	old        *fileInfo // what it replaces
	sent       bool      // the handle was closed
	upload
}

func (f stockFiles) create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	for _, need := range []struct {
		name   string
		wanted bool
	}{{sshwire.SFTPPosixRename, !opt.New}, {sshwire.SFTPHardlink, opt.New}, {sshwire.SFTPFsync, opt.Sync}} {
		if need.wanted && !f.ext[need.name] {
			return nil, errNoExtension(need.name)
		}
	}
	a := &stockFile{
		stockFiles: f, name: name, opt: opt,
		temp:   path.Join(path.Dir(name), ".hermes-"+strconv.FormatUint(rand.Uint64(), 36)+".tmp"),
		upload: upload{ctx: ctx, k: f.sftpConn, chunk: stockChunk},
	}
	if err := a.look(); err != nil {
		return nil, err
	}
	if len(path.Base(name)) > 255 {
		return nil, syscall.ENAMETOOLONG
	}
	perm := uint32(opt.Perm)
	if a.old != nil && !opt.New {
		perm = 0o600 // until Commit gives it the old file's
		// Renaming over a file asks nothing of its mode; writing to it would.
		probe, err := f.handle(ctx, nil, openPacket(name, sshwire.SFTPFlagWrite, sshwire.Attrs{}))
		if err != nil {
			return nil, err
		}
		go f.closeLater(probe)
	}
	f.files.noteTemp(a.temp, f.sftpConn)
	late := func(handle string) {
		f.closeLater(handle)
		f.removeLater(a.temp)
	}
	handle, err := f.handle(ctx, late, openPacket(a.temp, sshwire.SFTPFlagWrite|sshwire.SFTPFlagCreat|sshwire.SFTPFlagExcl,
		sshwire.Attrs{Has: sshwire.AttrMode, Mode: perm}))
	if err != nil {
		if ctx.Err() == nil && f.failure() == nil { // it was refused
			f.files.dropTemp(a.temp)
		}
		return nil, f.fullOr(ctx, path.Dir(name), err)
	}
	a.upload.handle = handle
	return a, nil
}

// look sees what is under the name now and refuses what cannot be replaced.
func (a *stockFile) look() error {
	info, err := a.check(a.ctx, a.name, true)
	if err == nil && info != nil && !info.Mode().IsRegular() {
		err = sandbox.ErrNotRegular
	}
	a.old = info
	return err
}

func (a *stockFile) Write(p []byte) (int, error) {
	a.upload.mu.Lock()
	defer a.upload.mu.Unlock()
	if a.upload.done {
		return 0, pathError("write", a.name, fs.ErrClosed)
	}
	n, err := a.write(p)
	return n, pathError("write", a.name, a.fullOr(a.ctx, path.Dir(a.name), err))
}

func (a *stockFile) Commit() error {
	a.upload.mu.Lock()
	defer a.upload.mu.Unlock()
	if a.upload.done {
		return pathError("commit", a.name, fs.ErrClosed)
	}
	err := a.commit()
	if err != nil {
		err = a.fullOr(a.ctx, path.Dir(a.name), err)
		a.drop()
	}
	a.upload.done = true
	return pathError("commit", a.name, err)
}

func (a *stockFile) commit() error {
	a.flush()
	if a.upload.err != nil {
		return a.upload.err
	}
	own, err := a.start(a.ctx, 0, a.handlePacket(sshwire.SFTPFstat, nil))
	if err != nil {
		return err
	}
	if err := a.look(); err != nil {
		a.forsake(own)
		return err
	}
	if err := a.settle(); err != nil {
		a.forsake(own)
		return err
	}
	r, err := a.upload.k.wait(a.ctx, own, nil)
	if err != nil {
		return err
	}
	now, err := a.info(a.temp, &r)
	if err != nil {
		return err
	}
	if err := a.finish(now); err != nil {
		return err
	}
	if a.opt.New {
		err = a.link()
	} else if err = a.posixRename(a.ctx, a.temp, a.name); err == nil {
		a.files.dropTemp(a.temp)
	}
	if err != nil {
		return a.taken(err)
	}
	return a.syncDir()
}

// handlePacket is a request about the file that is open.
func (a *stockFile) handlePacket(kind byte, attrs *sshwire.Attrs) func(id uint32) sshwire.Packet {
	return func(id uint32) sshwire.Packet {
		p := sshwire.NewPacket(nil, kind, id).Text(a.upload.handle)
		if attrs != nil {
			p = p.Attrs(*attrs)
		}
		return p
	}
}

// finish gives the new file the old one's owner, where we may, and mode, and
// closes it. The set-id bits go, as they do when a file is written to.
func (a *stockFile) finish(now *fileInfo) error {
	type step struct {
		packet func(id uint32) sshwire.Packet
		must   bool
	}
	var steps []step
	if a.old != nil && !a.opt.New {
		was, is := a.old.attrs, now.attrs
		if was.Has&is.Has&sshwire.AttrOwner != 0 {
			for _, uid := range []uint32{is.UID, was.UID} { // the group alone, if not both
				if uid != is.UID || was.GID != is.GID {
					steps = append(steps, step{a.handlePacket(sshwire.SFTPFsetstat, &sshwire.Attrs{Has: sshwire.AttrOwner, UID: uid, GID: was.GID}), false})
				}
			}
		}
		steps = append(steps, step{a.handlePacket(sshwire.SFTPFsetstat, &sshwire.Attrs{Has: sshwire.AttrMode, Mode: was.Mode & 0o1777}), true})
	}
	if a.opt.Sync {
		steps = append(steps, step{func(id uint32) sshwire.Packet {
			return sshwire.Extended(nil, sshwire.SFTPFsync, id).Text(a.upload.handle)
		}, true})
	}
	steps = append(steps, step{a.handlePacket(sshwire.SFTPClose, nil), true})
	a.sent = true
	var calls []*sftpCall
	for _, s := range steps {
		call, err := a.start(a.ctx, 0, s.packet)
		if err != nil {
			a.forsake(calls...)
			return err
		}
		calls = append(calls, call)
	}
	var first error
	for i, call := range calls {
		r, err := a.upload.k.wait(a.ctx, call, nil)
		if err == nil {
			err = a.refusal(&r)
		}
		if err != nil && first == nil && (steps[i].must || a.failure() != nil) {
			first = err
		}
	}
	return first
}

// link gives the file its name unless that is taken, and takes the temporary
// one away, whatever comes of it.
func (a *stockFile) link() error {
	linked, err := a.start(a.ctx, 0, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPHardlink, id).Text(a.temp).Text(a.name)
	})
	if err != nil {
		return err
	}
	removed, err := a.start(a.ctx, 0, unlinkPacket(a.temp, false))
	if err != nil {
		a.forsake(linked)
		return err
	}
	r, err := a.upload.k.wait(a.ctx, linked, nil)
	if err == nil {
		err = a.refusal(&r)
	}
	r, rerr := a.upload.k.wait(a.ctx, removed, nil)
	if rerr == nil && a.refusal(&r) == nil {
		a.files.dropTemp(a.temp)
	}
	return err
}

// taken tells what stands in the way of the new name.
func (a *stockFile) taken(err error) error {
	if !isRefused(err) {
		return err
	}
	info, lerr := a.lstat(a.ctx, a.name)
	switch {
	case lerr != nil:
		return err
	case a.opt.New:
		return fs.ErrExist
	case info.Mode()&fs.ModeSymlink != 0:
		return sandbox.ErrSymlink
	case !info.Mode().IsRegular():
		return sandbox.ErrNotRegular
	}
	return err
}

// syncDir puts the name on disk, where the server lets a directory be opened.
func (a *stockFile) syncDir() error {
	if !a.opt.Sync {
		return nil
	}
	handle, err := a.stockFiles.handle(a.ctx, nil, openPacket(path.Dir(a.name), sshwire.SFTPFlagRead, sshwire.Attrs{}))
	if err != nil {
		return err
	}
	defer func() { go a.closeLater(handle) }()
	return a.status(a.ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPFsync, id).Text(handle)
	})
}

func (a *stockFile) Discard() error {
	a.upload.mu.Lock()
	defer a.upload.mu.Unlock()
	if !a.upload.done {
		a.drop()
		a.upload.done = true
	}
	return nil
}

// drop removes the temporary file, and waits for that if it may.
func (a *stockFile) drop() {
	a.forsake(a.upload.calls...)
	if !a.sent {
		a.sent = true
		go a.closeLater(a.upload.handle)
	}
	if !a.files.isTemp(a.temp) {
		return
	}
	if a.ctx.Err() != nil {
		go a.removeLater(a.temp)
		return
	}
	if gone(a.status(a.ctx, unlinkPacket(a.temp, false))) == nil {
		a.files.dropTemp(a.temp)
	}
}
