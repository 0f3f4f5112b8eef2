//go:build unix

package guards

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func BenchmarkHoldRelease(b *testing.B) {
	s, root := workspace(b)
	for b.Loop() {
		h, err := s.Hold(b.Context(), root, usual)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHoldShared is a session that comes to one that runs already.
func BenchmarkHoldShared(b *testing.B) {
	s, root := workspace(b)
	first := hold(b, s, root, usual...)
	for b.Loop() {
		h, err := s.Hold(b.Context(), root, usual)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
	release(b, first)
}

func BenchmarkScan(b *testing.B) {
	for _, c := range []struct{ dirs, files int }{{4, 5}, {500, 20}, {2500, 4}} {
		root, err := filepath.EvalSymlinks(b.TempDir())
		if err != nil {
			b.Fatal(err)
		}
		for d := range c.dirs {
			dir := filepath.Join(root, fmt.Sprintf("group%d/dir%d", d%20, d))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
			for f := range c.files {
				put(b, dir, fmt.Sprintf("file%d.txt", f), "")
			}
		}
		for name, after := range map[string]time.Duration{"old": time.Minute, "new": -time.Hour} {
			b.Run(fmt.Sprintf("files=%d/dirs=%d/%s", c.dirs*c.files, c.dirs, name), func(b *testing.B) {
				since := time.Now().Add(after)
				for b.Loop() {
					if _, complete, err := Scan(b.Context(), root, since, ScanOptions{Budget: time.Minute}); err != nil || !complete {
						b.Fatal(complete, err)
					}
				}
			})
		}
	}
}

// BenchmarkScanLinks is a tree with many links, in ordinary places and where what
// they lead to is looked at.
func BenchmarkScanLinks(b *testing.B) {
	root, err := filepath.EvalSymlinks(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for i := range 1000 {
		put(b, root, fmt.Sprintf("src/d%d/file", i), "")
		for dir, up := range map[string]string{"node_modules/.bin": "../../", "links": "../"} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.Symlink(fmt.Sprintf("%ssrc/d%d/file", up, i), filepath.Join(root, dir, fmt.Sprint(i))); err != nil {
				b.Fatal(err)
			}
		}
	}
	for name, after := range map[string]time.Duration{"old": time.Minute, "new": -time.Hour} {
		b.Run(name, func(b *testing.B) {
			since := time.Now().Add(after)
			for b.Loop() {
				if _, complete, err := Scan(b.Context(), root, since, ScanOptions{Budget: time.Minute}); err != nil || !complete {
					b.Fatal(complete, err)
				}
			}
		})
	}
}
