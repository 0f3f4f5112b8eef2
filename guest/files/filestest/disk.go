package filestest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TempTree makes a directory whose own name has no links in it.
func TempTree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// MustWrite writes a file, and makes the test fail when it cannot.
func MustWrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// MustLink makes a symbolic link, and skips the test where there are none.
func MustLink(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here:", err)
	}
}

// MustMkdir makes a directory and its parents.
func MustMkdir(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o755); err != nil {
		t.Fatal(err)
	}
}

// Put writes a file through Create.
func Put(f sandbox.Files, name, content string, opt sandbox.CreateOptions) error {
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

// Content is what a file holds.
func Content(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Names are what a directory holds, sorted.
func Names(t *testing.T, dir string) []string {
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

// Within fails the test when what it runs does not end: the calls here must
// never wait for somebody else.
func Within(t *testing.T, d time.Duration, what string, call func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); call() }()
	select {
	case <-done:
	case <-time.After(d):
		t.Fatalf("%s blocks", what)
	}
}
