package files

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// tempTree makes a directory whose own name has no links in it.
func tempTree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func mustWrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func mustLink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here:", err)
	}
}

func mustMkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
}

// put writes a file through Create.
func put(f sandbox.Files, name, content string, opt sandbox.CreateOptions) error {
	w, err := f.Create(context.Background(), name, opt)
	if err != nil {
		return err
	}
	defer w.Discard()
	if _, err := io.WriteString(w, content); err != nil {
		return err
	}
	return w.Commit()
}

func content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// within fails the test when what it runs does not end: the calls here must
// never wait for somebody else.
func within(t *testing.T, d time.Duration, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s blocks", what)
	}
}

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
