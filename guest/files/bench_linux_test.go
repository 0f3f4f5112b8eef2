package files

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// BenchmarkRemote compares a client and its server with the files themselves;
// a call with a context that can be cancelled has more to watch.
func BenchmarkRemote(b *testing.B) {
	dir, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	name := filepath.Join(dir, "file")
	if err := os.WriteFile(name, make([]byte, 1000), 0o644); err != nil {
		b.Fatal(err)
	}
	cancellable, cancel := context.WithCancel(context.Background())
	defer cancel()
	native := New()
	client := remote(b, native)
	for _, kind := range []struct {
		name string
		ctx  context.Context
		f    sandbox.Files
	}{
		{"native", cancellable, native},
		{"client", cancellable, client},
		{"client-background", context.Background(), client},
	} {
		b.Run("read/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			buf := make([]byte, 4096)
			for b.Loop() {
				real, err := kind.f.Resolve(kind.ctx, name)
				if err != nil {
					b.Fatal(err)
				}
				r, err := kind.f.Open(kind.ctx, real)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Read(buf); err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
		})
		b.Run("write/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			data := make([]byte, 1000)
			for b.Loop() {
				w, err := kind.f.Create(kind.ctx, name, sandbox.CreateOptions{})
				if err != nil {
					b.Fatal(err)
				}
				w.Write(data)
				if err := w.Commit(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("stat/"+kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := kind.f.Stat(kind.ctx, name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
