package policy

import (
	"fmt"
	"os"
	"syscall"
)

// openRegular opens a file that is one: a FIFO must not hang us.
func openRegular(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		what := "not a regular file"
		if info.IsDir() {
			what = "a directory"
		}
		err = fmt.Errorf("%s is %s", name, what)
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
		return nil, fmt.Errorf("%s is not a directory", name)
	}
	return f, nil
}
