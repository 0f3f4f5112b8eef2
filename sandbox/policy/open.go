package policy

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

var (
	errDirectory   = errors.New("a directory")
	errNoDirectory = errors.New("not a directory")
)

// openRegular opens a file that is one: a FIFO must not hang us.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", name)
		if info.IsDir() {
			err = fmt.Errorf("%s is %w", name, errDirectory)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openDir(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.IsDir() {
		f.Close()
		return nil, fmt.Errorf("%s is %w", name, errNoDirectory)
	}
	return f, nil
}
