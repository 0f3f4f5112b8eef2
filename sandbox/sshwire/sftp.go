package sshwire

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// The wire of a box's files is SFTP, version 3 (draft-ietf-secsh-filexfer-02),
// with requests of our own where a guest can do in one step what takes SFTP
// several, or what SFTP has no words for. A guest tells that it knows them by
// the extension ExtensionFiles in its version; they are
//
//	open     name, most      → handle, attributes, data, ended  (a file and its first bytes; no handle when ended)
//	create   name, perm, how → handle                           (invisible; SSH_FXP_CLOSE drops it)
//	commit   handle          → status                           (the file appears under its name)
//	mkdir    name, perm      → status
//	mkdirall name, perm      → status
//	removeall name           → status
//
// Its SSH_FXP_REALPATH keeps components that do not exist; the text of a status
// that is an error is a Failure's Line; and attributes carry AttrsExact.
const (
	SFTPOurs        = "@hermes-exec" // what their names end in
	ExtensionFiles  = "files@hermes-exec"
	SFTPOpen        = "open@hermes-exec"
	SFTPCreate      = "create@hermes-exec"
	SFTPCommit      = "commit@hermes-exec"
	SFTPMake        = "mkdir@hermes-exec"
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
	code := uint32(StatusFailure)
	switch {
	case f.Is(fs.ErrNotExist):
		code = StatusNoFile
	case f.Is(fs.ErrPermission):
		code = StatusPermission
	case f.Text == "EOF":
		code = StatusEOF
	}
	return p.U32(code).Text(f.Line()).Text("en")
}

const (
	maxStatus = 8 << 10 // bytes of text
	maxKinds  = 1 << 10 // and of its kinds
)

// Status reads a status: its code, and for an error what went wrong.
func (b *Body) Status() (code uint32, f *Failure) {
	code = b.U32()
	if len(b.Rest) == 0 { // some servers send nothing more
		return code, &Failure{}
	}
	f = ParseFailure(strings.ToValidUTF8(b.Text(maxStatus+maxKinds), "\ufffd"))
	b.Text(256)
	return code, f
}

// Line is a Failure as the text of a status: the kinds stand in brackets after
// the text, and none where the text could be taken for some.
func (f *Failure) Line() string {
	text := f.Text[:min(len(f.Text), maxStatus)]
	if len(f.Kinds) == 0 && !strings.HasSuffix(text, "]") {
		return text
	}
	return text + " [" + strings.Join(f.Kinds, ",") + "]"
}

// ParseFailure reads a Line. Brackets that hold anything else than kinds belong
// to the text.
func ParseFailure(line string) *Failure {
	f := &Failure{Text: line}
	at := strings.LastIndex(line, " [")
	inside, closed := strings.CutSuffix(line[max(at, 0):], "]")
	if at < 0 || !closed {
		return f
	}
	inside = inside[len(" ["):]
	if inside == "" {
		f.Text = line[:at]
		return f
	}
	list := strings.Split(inside, ",")
	for _, name := range list {
		if !slices.ContainsFunc(kinds, func(k kind) bool { return k.name == name }) {
			return f
		}
	}
	f.Text, f.Kinds = line[:at], list
	return f
}
