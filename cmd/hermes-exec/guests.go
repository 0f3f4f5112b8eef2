package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// guest is the program that acts inside a box of a system: this one where the
// systems are the same, else what make guests built.
func (a *app) guest(goos, goarch string) (string, error) {
	if goos == runtime.GOOS && goarch == runtime.GOARCH {
		return os.Executable()
	}
	name := filepath.Join(a.home, "guests", "hermes-exec-"+goos+"-"+goarch)
	if info, err := os.Stat(name); a.home == "" || err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("there is no guest program for %s/%s at %s: make guests builds those for linux, copy them there: %w", goos, goarch, name, sandbox.ErrUnsupported)
	}
	return name, nil
}
