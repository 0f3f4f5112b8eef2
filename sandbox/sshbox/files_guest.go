package sshbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// guestChunk is how much of a file one packet carries between a guest and us.
const guestChunk = 128 << 10

// openHead is how much of a file comes with its opening: all of most files.
const openHead = 64 << 10

// guestFiles is the dialect of a serving guest, which does every call in one
// step.
type guestFiles struct{ *sftpConn }

func (f guestFiles) resolve(ctx context.Context, name string) (string, error) {
	r, err := f.do(ctx, 0, nil, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPRealpath, id).Text(name)
	})
	if err != nil {
		return "", err
	}
	if r.kind != sshwire.SFTPName {
		return "", f.unexpected(&r)
	}
	if r.body.U32() != 1 {
		return "", f.broken()
	}
	real := r.body.Text(maxSFTPPath)
	r.body.Bytes(maxSFTPAnswer)
	r.body.Attrs()
	if _, err := checkName(ctx, "resolve", real); !r.body.End() || err != nil || path.Clean(real) != real {
		return "", f.broken()
	}
	return real, nil
}

// unexpected is the error of an answer of another kind than was asked for.
func (k *sftpConn) unexpected(r *sftpReply) error {
	if err := k.refusal(r); err != nil {
		return err
	}
	return k.broken()
}

func (f guestFiles) open(ctx context.Context, name string) (*remoteFile, error) {
	late := func(r sftpReply) {
		if h := r.body.Text(256); r.kind == sshwire.SFTPReply && h != "" {
			f.closeLater(h)
		}
	}
	r, err := f.do(ctx, openHead+maxSFTPAnswer, late, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPOpen, id).Text(name).U32(openHead)
	})
	if err != nil {
		return nil, err
	}
	if r.kind != sshwire.SFTPReply {
		return nil, f.unexpected(&r)
	}
	file := newRemoteFile(ctx, f.sftpConn, name, r.body.Text(256), guestChunk)
	file.info.attrs = r.body.Attrs()
	file.head = r.body.Bytes(openHead)
	ended := r.body.Byte()
	if !r.body.End() || ended > 1 || (ended == 1) != (file.handle == "") || !file.info.Mode().IsRegular() {
		return nil, f.broken()
	}
	return file, nil
}

func (f guestFiles) create(ctx context.Context, name string, opt sandbox.CreateOptions) (sandbox.AtomicFile, error) {
	var how uint32
	if opt.New {
		how |= sshwire.CreateNew
	}
	if opt.Sync {
		how |= sshwire.CreateSync
	}
	handle, err := f.handle(ctx, nil, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPCreate, id).Text(name).U32(uint32(opt.Perm)).U32(how)
	})
	if err != nil {
		return nil, err
	}
	return &guestFile{name: name, upload: upload{ctx: ctx, k: f.sftpConn, handle: handle, chunk: guestChunk}}, nil
}

func (f guestFiles) readDir(ctx context.Context, d *dirReader) error { return f.listAll(ctx, d) }

// listAll opens a directory and reads it.
func (k *sftpConn) listAll(ctx context.Context, d *dirReader) error {
	handle, err := k.handle(ctx, nil, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPOpendir, id).Text(d.dir)
	})
	if err != nil {
		return err
	}
	defer func() { go k.closeLater(handle) }()
	return k.list(ctx, handle, d)
}

// list reads an open directory, some answers at once: two at first, for most
// directories end with the second. The server may take the requests in any
// order: the end counts when all have been answered.
func (k *sftpConn) list(ctx context.Context, handle string, d *dirReader) error {
	var calls []*sftpCall
	defer func() { k.forsake(calls...) }()
	ended := false
	for atOnce := 2; !ended; atOnce = 4 {
		for len(calls) < atOnce {
			call, err := k.start(ctx, sshwire.MaxSFTP, func(id uint32) sshwire.Packet {
				return sshwire.NewPacket(nil, sshwire.SFTPReaddir, id).Text(handle)
			})
			if err != nil {
				return err
			}
			calls = append(calls, call)
		}
		for len(calls) > 0 {
			r, err := k.wait(ctx, calls[0], nil)
			calls = calls[1:]
			if err == nil && r.kind != sshwire.SFTPName {
				err = k.unexpected(&r)
			}
			if errors.Is(err, io.EOF) {
				ended = true
				continue
			}
			if err != nil {
				return err
			}
			before := d.seen
			err, ok := d.add(&r.body)
			if !ok || err == nil && d.seen == before {
				return k.broken()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f guestFiles) stat(ctx context.Context, name string) (*fileInfo, error) {
	return f.lstat(ctx, name)
}

// lstat describes a name.
func (k *sftpConn) lstat(ctx context.Context, name string) (*fileInfo, error) {
	r, err := k.do(ctx, 0, nil, lstatPacket(name))
	if err != nil {
		return nil, err
	}
	return k.info(name, &r)
}

func lstatPacket(name string) func(id uint32) sshwire.Packet {
	return func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPLstat, id).Text(name) }
}

// info is an answer with attributes.
func (k *sftpConn) info(name string, r *sftpReply) (*fileInfo, error) {
	if r.kind != sshwire.SFTPAttrs {
		return nil, k.unexpected(r)
	}
	i := &fileInfo{path.Base(name), r.body.Attrs()}
	if !r.body.End() || i.attrs.Has&sshwire.AttrMode == 0 {
		return nil, k.broken()
	}
	return i, nil
}

func (f guestFiles) mkdir(ctx context.Context, name string, perm fs.FileMode) error {
	return f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPMake, id).Text(name).U32(uint32(perm))
	})
}

func mkdirPacket(name string, perm fs.FileMode) func(id uint32) sshwire.Packet {
	return func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPMkdir, id).Text(name).Attrs(sshwire.Attrs{Has: sshwire.AttrMode, Mode: uint32(perm)})
	}
}

func (f guestFiles) mkdirAll(ctx context.Context, name string, perm fs.FileMode) error {
	return f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPMkdirAll, id).Text(name).U32(uint32(perm))
	})
}

func (f guestFiles) rename(ctx context.Context, oldName, newName string) error {
	return f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPPosixRename, id).Text(oldName).Text(newName)
	})
}

func (f guestFiles) remove(ctx context.Context, name string) error {
	return f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPRemove, id).Text(name)
	})
}

func (f guestFiles) removeAll(ctx context.Context, name string) error {
	err := f.status(ctx, func(id uint32) sshwire.Packet {
		return sshwire.Extended(nil, sshwire.SFTPRemoveAll, id).Text(name)
	})
	var said *sshwire.Failure
	if errors.As(err, &said) {
		return &severalError{said}
	}
	return err
}
