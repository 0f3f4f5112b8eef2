package engine

import (
	"context"
	"io"
	"path"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// callDir is where calls of a box without sockets come in as files. It
// implements rpc.Dir.
type callDir struct {
	files sandbox.Files
	name  string
}

// List implements rpc.Dir.
func (d callDir) List(ctx context.Context) ([]string, error) {
	entries, err := d.files.ReadDir(ctx, d.name)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Read implements rpc.Dir.
func (d callDir) Read(ctx context.Context, name string, max int) ([]byte, error) {
	f, err := d.files.Open(ctx, path.Join(d.name, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(max)))
}

// Write implements rpc.Dir.
func (d callDir) Write(ctx context.Context, name string, content io.WriterTo) error {
	f, err := d.files.Create(ctx, path.Join(d.name, name), sandbox.CreateOptions{Perm: 0o600})
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := content.WriteTo(f); err != nil {
		return err
	}
	return f.Commit()
}
