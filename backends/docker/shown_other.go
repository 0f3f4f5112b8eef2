//go:build !linux

package docker

import (
	"errors"
	"io/fs"
	"os"
)

// idMaps shows root's files as a user's, which takes Linux.
type idMaps struct{}

func (*idMaps) close() {}

func (*idMaps) tree(string, user) (*os.File, error) { return nil, errors.ErrUnsupported }

func (*idMaps) show(_ string, _ user, names []string) (map[string]string, error) {
	if len(names) > 0 {
		return nil, errors.ErrUnsupported
	}
	return nil, nil
}

func hide(dir string) error {
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
