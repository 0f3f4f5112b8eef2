//go:build unix && !linux

package guards

import (
	"errors"

	"golang.org/x/sys/unix"
)

// errNeedsName tells that files have names here from the start.
var errNeedsName = errors.New("no files without a name")

func openNameless(int) (int, error) { return -1, errNeedsName }

func linkNameless(int, int, string) error { return unix.ENOSYS }

// rename renames within a directory and replaces nothing.
func rename(dir int, from, to string) error { return renameByLink(dir, from, to) }
