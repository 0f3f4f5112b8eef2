package files

import (
	"context"
	"io/fs"
	"path"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Find implements sandbox.Finder.
func (c *Client) Find(ctx context.Context, names []string) (i int, real string, is fs.FileInfo, err error) {
	if !findable(ctx, names) {
		return sandbox.Find(ctx, oneByOne{c}, names)
	}
	var found sandbox.Found
	err = c.call(ctx, "find", &request{op: opFind, name: names[0], more: names[1:]}, func(_ *conn, kind byte, b *body, fd int) error {
		return takeFound(&found, names, kind, b, fd)
	})
	if err != nil {
		return 0, "", nil, err
	}
	return found.Index, found.Real, found.Info, found.Err
}

// findable reports whether names fit into a request.
func findable(ctx context.Context, names []string) bool {
	size := 0
	for _, name := range names {
		size += len(name)
		if checkRaw(ctx, "resolve", name) != nil {
			return false
		}
	}
	return len(names) > 0 && len(names) < maxNames && size <= maxName
}

// takeFound reads what was found.
func takeFound(found *sandbox.Found, names []string, kind byte, b *body, fd int) error {
	i := int(b.byte())
	switch b.byte() {
	case 0:
		file := &info{}
		found.Real = b.text(maxName)
		b.stat(&file.stat)
		if !path.IsAbs(found.Real) || path.Clean(found.Real) != found.Real || i == len(names) {
			b.bad = true
		}
		file.name = path.Base(found.Real)
		found.Info = file
	case 1:
		found.Err = b.error()
	default:
		b.bad = true
	}
	if refuse(fd) || kind != replyDone || !b.end() || i > len(names) {
		return errReply
	}
	found.Index = i
	return nil
}

// find is sandbox.Find.
func find(ctx context.Context, files sandbox.Files, names []string) (found sandbox.Found) {
	found.Index, found.Real, found.Info, found.Err = sandbox.Find(ctx, files, names)
	return found
}

// oneByOne is a Client that is no sandbox.Finder.
type oneByOne struct{ sandbox.Files }

// find appends what is found to the answer.
func (s *server) find(ctx context.Context, names []string) {
	found := find(ctx, s.files, names)
	s.out = append(s.out, byte(found.Index))
	if found.Err != nil {
		s.out = append(s.out, 1).error(found.Err)
		return
	}
	s.out = append(s.out, 0).text(found.Real).stat(found.Info.Sys().(*syscall.Stat_t))
}
