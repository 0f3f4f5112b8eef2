//go:build !linux

package policy

import (
	"errors"
	"io"
)

// read reads the directory.
func (s *search) read() error {
	f, err := openDir(s.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for s.entries > 0 {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			s.entry([]byte(e.Name()), e.Type())
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
