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
	size, odd := 0, len(names) == 0 || len(names) > maxNames
	for _, name := range names {
		size += len(name)
		odd = odd || checkRaw(ctx, "resolve", name) != nil
	}
	if odd || size > maxName {
		return sandbox.Find(ctx, oneByOne{c}, names)
	}
	var found error
	file := &info{}
	err = c.call(ctx, "find", &request{op: opFind, name: names[0], more: names[1:]}, func(_ *conn, kind byte, b *body, fd int) error {
		i = int(b.byte())
		switch b.byte() {
		case 0:
			real = b.text(maxName)
			b.stat(&file.stat)
			if !path.IsAbs(real) || path.Clean(real) != real || i == len(names) {
				b.bad = true
			}
		case 1:
			found = b.error()
		default:
			b.bad = true
		}
		if refuse(fd) || kind != replyDone || !b.end() || i > len(names) {
			return errReply
		}
		return nil
	})
	if err == nil {
		err = found
	}
	if err != nil {
		return min(i, len(names)), "", nil, err
	}
	file.name = path.Base(real)
	return i, real, file, nil
}

// oneByOne is a Client that is no sandbox.Finder.
type oneByOne struct{ sandbox.Files }

// find answers opFind.
func (s *server) find(ctx context.Context, r *request) {
	i, real, info, err := sandbox.Find(ctx, s.files, append([]string{r.name}, r.more...))
	s.out = append(s.out, byte(i))
	if err != nil {
		s.out = append(s.out, 1).error(err)
		return
	}
	s.out = append(s.out, 0).text(real).stat(info.Sys().(*syscall.Stat_t))
}
