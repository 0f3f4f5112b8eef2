package sshwire

import (
	"errors"
	"io/fs"
	"strings"
)

// The wire of a box's files is SFTP, version 3 (draft-ietf-secsh-filexfer-02),
// with requests of our own where a guest can do in one step what takes a stock
// server several. A guest tells that it knows them by the extension
// ExtensionFiles in its version; they are
//
//	open     name, most      → handle, attributes, data, ended  (a file and its first bytes; no handle when ended)
//	create   name, perm, how → handle                           (invisible; SSH_FXP_CLOSE drops it)
//	commit   handle          → status                           (the file appears under its name)
//	list     name            → handle, names                    (no handle when these are all; else SSH_FXP_READDIR goes on)
//	mkdirall name, perm      → status
//	removeall name           → status
//
// Its SSH_FXP_REALPATH keeps components that do not exist; a status that is an
// error has, after the language, the Kinds of a Failure, joined by commas; and
// attributes carry AttrsExact.
const (
	ExtensionFiles  = "files@hermes-exec"
	SFTPOpen        = "open@hermes-exec"
	SFTPCreate      = "create@hermes-exec"
	SFTPCommit      = "commit@hermes-exec"
	SFTPList        = "list@hermes-exec"
	SFTPMkdirAll    = "mkdirall@hermes-exec"
	SFTPRemoveAll   = "removeall@hermes-exec"
	AttrsExact      = "exact@hermes-exec" // nanoseconds of the last change and the inode, 8 bytes each
	SFTPPosixRename = "posix-rename@openssh.com"
	SFTPFsync       = "fsync@openssh.com"
	SFTPHardlink    = "hardlink@openssh.com"
	SFTPStatVFS     = "statvfs@openssh.com"
)

// How SFTPCreate creates.
const (
	CreateNew  = 1
	CreateSync = 2
)

// The types of packets.
const (
	SFTPInit     = 1
	SFTPVersion  = 2
	SFTPOpenFile = 3
	SFTPClose    = 4
	SFTPRead     = 5
	SFTPWrite    = 6
	SFTPLstat    = 7
	SFTPFstat    = 8
	SFTPSetstat  = 9
	SFTPFsetstat = 10
	SFTPOpendir  = 11
	SFTPReaddir  = 12
	SFTPRemove   = 13
	SFTPMkdir    = 14
	SFTPRmdir    = 15
	SFTPRealpath = 16
	SFTPStat     = 17
	SFTPRename   = 18
	SFTPReadlink = 19
	SFTPStatus   = 101
	SFTPHandle   = 102
	SFTPData     = 103
	SFTPName     = 104
	SFTPAttrs    = 105
	SFTPExtended = 200
	SFTPReply    = 201
)

// The flags of SFTPOpenFile.
const (
	SFTPFlagRead  = 1
	SFTPFlagWrite = 2
	SFTPFlagCreat = 8
	SFTPFlagTrunc = 16
	SFTPFlagExcl  = 32
)

// The codes of a status.
const (
	StatusOK          = 0
	StatusEOF         = 1
	StatusNoFile      = 2
	StatusPermission  = 3
	StatusFailure     = 4
	StatusBadMessage  = 5
	StatusUnsupported = 8
)

// MaxSFTP bounds a packet, its length not counted; it is OpenSSH's bound.
const MaxSFTP = 256 << 10

// ErrSFTP is what a malformed packet gets.
var ErrSFTP = errors.New("malformed sftp packet")

// Status appends what became of a request; nil is success.
func (p Packet) Status(err error) Packet {
	if err == nil {
		return p.U32(StatusOK).Text("").Text("")
	}
	f := NewFailure(err)
	if len(f.Text) > maxStatus {
		f.Text = f.Text[:maxStatus]
	}
	code := uint32(StatusFailure)
	switch {
	case f.Is(fs.ErrNotExist):
		code = StatusNoFile
	case f.Is(fs.ErrPermission):
		code = StatusPermission
	case f.Text == "EOF":
		code = StatusEOF
	}
	return p.U32(code).Text(f.Text).Text("en").Text(strings.Join(f.Kinds, ","))
}

const maxStatus = 8 << 10 // bytes of text

// Status reads a status: its code, and for an error what went wrong.
func (b *Body) Status() (code uint32, f *Failure) {
	code = b.U32()
	f = &Failure{}
	if len(b.Rest) > 0 { // some servers send nothing more
		f.Text = strings.ToValidUTF8(b.Text(maxStatus), "\ufffd")
		b.Text(256)
	}
	if len(b.Rest) > 0 && !b.Bad {
		if kinds := b.Text(1024); kinds != "" {
			f.Kinds = strings.Split(kinds, ",")
		}
	}
	return code, f
}
