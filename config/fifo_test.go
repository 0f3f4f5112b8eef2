//go:build unix

package config

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A FIFO under the file's name neither hangs the program nor counts as absent.
func TestFIFO(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "config.yaml"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := Load(Options{Home: dir, Environ: []string{}}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
		t.Errorf("got %v", err)
	}
}
