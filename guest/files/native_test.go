package files

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The files keep every promise, whichever way they are reached.
func TestFiles(t *testing.T) {
	eachFiles(t, func(t *testing.T, f sandbox.Files) { filestest.Run(t, f, nil) })
}

func BenchmarkFiles(b *testing.B) {
	ctx := context.Background()
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	f, name, data := New(), filepath.Join(dir, "file"), make([]byte, 1000)
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			w, err := f.Create(ctx, name, sandbox.CreateOptions{})
			if err != nil {
				b.Fatal(err)
			}
			w.Write(data)
			if err := w.Commit(); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("rawwrite", func(b *testing.B) {
		for b.Loop() {
			if err := os.WriteFile(name+".tmp", data, 0o644); err != nil {
				b.Fatal(err)
			}
			if err := os.Rename(name+".tmp", name); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		buf := make([]byte, 4096)
		for b.Loop() {
			r, err := f.Open(ctx, name)
			if err != nil {
				b.Fatal(err)
			}
			r.Read(buf)
			r.Close()
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Resolve(ctx, name); err != nil {
				b.Fatal(err)
			}
		}
	})
}
