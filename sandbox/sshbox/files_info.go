package sshbox

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// Bounds of one directory: what lists it holds every name in memory.
const (
	maxDirEntries = 1_000_000
	maxDirBytes   = 128 << 20
)

// fileInfo describes a file by its attributes.
type fileInfo struct {
	name  string
	attrs sshwire.Attrs
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return int64(i.attrs.Size) }
func (i *fileInfo) Mode() fs.FileMode  { return i.attrs.FileMode() }
func (i *fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *fileInfo) ModTime() time.Time { return time.Unix(0, i.attrs.Mtime) }

// Sys is the inode where the server tells it.
func (i *fileInfo) Sys() any {
	if i.attrs.Has&sshwire.AttrExact == 0 {
		return nil
	}
	return &struct{ Ino uint64 }{i.attrs.Ino}
}

// dirEntry is a directory entry as it was when the directory was listed.
type dirEntry struct {
	fileInfo
	path  string
	files sandbox.Files
}

func (e *dirEntry) Type() fs.FileMode { return e.Mode().Type() }

func (e *dirEntry) String() string { return fs.FormatDirEntry(e) }

// Info is what came with the listing; what did not is looked up under the same
// rules as every other name.
func (e *dirEntry) Info() (fs.FileInfo, error) {
	const all = sshwire.AttrSize | sshwire.AttrMode | sshwire.AttrTimes
	if e.attrs.Has&all == all {
		return &e.fileInfo, nil
	}
	return e.files.Stat(context.Background(), e.path)
}

// dirReader collects the entries of one directory.
type dirReader struct {
	dir     string
	files   sandbox.Files
	entries []fs.DirEntry
	seen    int // names
	dots    int // of them, "." and ".."
	bytes   int
}

// add takes the names of one answer; ok is false when it is malformed.
func (d *dirReader) add(b *sshwire.Body) (err error, ok bool) {
	for range b.U32() {
		name := b.Text(maxSFTPAnswer)
		b.Bytes(maxSFTPAnswer) // for people
		attrs := b.Attrs()
		if b.Bad {
			break
		}
		if d.seen++; name == "." || name == ".." {
			if d.dots++; d.dots > 2 {
				b.Bad = true
			}
			continue
		}
		if name == "" || strings.ContainsAny(name, "/\x00") || attrs.Has&sshwire.AttrMode == 0 {
			b.Bad = true
			break
		}
		if d.bytes += len(name); d.bytes > maxDirBytes || len(d.entries) == maxDirEntries {
			return errDirSize, true
		}
		d.entries = append(d.entries, &dirEntry{fileInfo{name, attrs}, path.Join(d.dir, name), d.files})
	}
	return nil, b.End()
}

// sorted is what was collected; a name that came twice is there once.
func (d *dirReader) sorted() []fs.DirEntry {
	slices.SortFunc(d.entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return slices.CompactFunc(d.entries, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() })
}
