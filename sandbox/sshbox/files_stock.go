package sshbox

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

const (
	stockChunk = 32 << 10 // what every server takes and gives at once
	maxLinks   = 40       // followed by one Resolve
)

// stockFiles is the dialect of an ordinary sftp server. Before a name is used,
// all its components are looked at, at once.
type stockFiles struct {
	*sftpConn
	files *remoteFiles
}

func (f stockFiles) stat(ctx context.Context, name string) (*fileInfo, error) {
	return f.existing(ctx, name, false)
}

func (f stockFiles) open(ctx context.Context, name string) (*remoteFile, error) {
	info, err := f.existing(ctx, name, true)
	if err == nil && !info.Mode().IsRegular() {
		err = sandbox.ErrNotRegular
	}
	if err != nil {
		return nil, err
	}
	handle, err := f.handle(ctx, nil, openPacket(name, sshwire.SFTPFlagRead, sshwire.Attrs{}))
	if err != nil {
		return nil, err
	}
	file := newRemoteFile(ctx, f.sftpConn, name, handle, stockChunk)
	if err := f.begin(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func openPacket(name string, flags uint32, a sshwire.Attrs) func(id uint32) sshwire.Packet {
	return func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPOpenFile, id).Text(name).U32(flags).Attrs(a)
	}
}

// begin asks at once what was opened and for its first bytes.
func (f stockFiles) begin(file *remoteFile) error {
	stat, err := f.start(file.ctx, 0, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPFstat, id).Text(file.handle)
	})
	if err != nil {
		return err
	}
	first, err := file.start(0, file.chunk)
	if err != nil {
		f.forsake(stat)
		return err
	}
	file.ahead = []*sftpCall{first}
	r, err := f.wait(file.ctx, stat, nil)
	if err != nil {
		return err
	}
	info, err := f.info(file.name, &r)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return sandbox.ErrNotRegular
	}
	file.info = *info
	return nil
}

func (f stockFiles) readDir(ctx context.Context, d *dirReader) error {
	info, err := f.existing(ctx, d.dir, true)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return err
	}
	return f.listAll(ctx, d)
}

func (f stockFiles) mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	info, err := f.check(ctx, name, false)
	if err == nil && info != nil {
		err = fs.ErrExist
	}
	if err != nil {
		return err
	}
	if err = f.status(ctx, mkdirPacket(name, perm)); isRefused(err) {
		if _, now := f.lstat(ctx, name); now == nil {
			return fs.ErrExist
		}
		return f.fullOr(ctx, path.Dir(name), err)
	}
	return f.refine(err, name)
}

func (f stockFiles) mkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	for at := 1; at <= len(name); at++ {
		if at < len(name) && name[at] != '/' {
			continue
		}
		part := name[:at]
		info, err := f.check(ctx, part, true)
		switch {
		case err != nil:
			return err
		case info == nil:
			if err := f.mkdir(ctx, part, perm); err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		case !info.IsDir():
			return syscall.ENOTDIR
		}
	}
	return nil
}

func (f stockFiles) rename(ctx context.Context, oldName, newName string) error {
	if oldName == "/" || newName == "/" {
		return syscall.EBUSY
	}
	from, err := f.existing(ctx, oldName, true)
	if err != nil {
		return err
	}
	to, err := f.check(ctx, newName, true)
	if err != nil {
		return err
	}
	err = f.posixRename(ctx, oldName, newName)
	switch {
	case !isRefused(err):
	case to != nil && to.IsDir() && !from.IsDir():
		err = syscall.EISDIR
	case to != nil && !to.IsDir() && from.IsDir():
		err = syscall.ENOTDIR
	case to != nil && to.IsDir():
		err = syscall.ENOTEMPTY
	case strings.HasPrefix(newName, oldName+"/"):
		err = syscall.EINVAL
	}
	return err
}

// posixRename replaces what is at newName. A server that cannot is not worked
// around: there would be a moment without the file.
func (f stockFiles) posixRename(ctx context.Context, oldName, newName string) error {
	if !f.ext[sshwire.SFTPPosixRename] {
		return errNoExtension(sshwire.SFTPPosixRename)
	}
	return f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPPosixRename, id).Text(oldName).Text(newName)
	})
}

// fullOr tells whether the disk is full, which a server has no word for.
func (f stockFiles) fullOr(ctx context.Context, dir string, err error) error {
	if !isRefused(err) || !f.ext[sshwire.SFTPStatVFS] {
		return err
	}
	r, serr := f.do(ctx, 0, nil, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPStatVFS, id).Text(dir)
	})
	if serr != nil || r.kind != sshwire.SFTPReply {
		return err
	}
	var v [11]uint64 // block sizes, blocks: all, free, for us; files: all, free, for us; …
	for i := range v {
		v[i] = r.body.U64()
	}
	if !r.body.Bad && (v[4] == 0 || v[5] > 0 && v[7] == 0) {
		return syscall.ENOSPC
	}
	return err
}
