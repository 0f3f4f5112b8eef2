package guest

import (
	"strings"

	"golang.org/x/sys/unix"
)

// defaultPath is what a program is looked up on when Env has no PATH.
const defaultPath = "/usr/bin:/bin"

// lookPath finds the program a command names, as execvp would, but never in a
// directory that is not given by an absolute path: what runs must not depend
// on where it runs. The error is EACCES when there is such a file and none may
// be executed, else ENOENT.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	if name == "" {
		return "", unix.ENOENT
	}
	path := defaultPath
	for _, v := range env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			path = p
			break // as getenv: the first one counts
		}
	}
	var found error = unix.ENOENT
	for dir := range strings.SplitSeq(path, ":") {
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		full := dir + "/" + name
		switch err := executable(full); err {
		case nil:
			return full, nil
		case unix.EACCES:
			found = err
		}
	}
	return "", found
}

// executable reports why a file cannot be executed, as far as can be seen
// without trying.
func executable(path string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EACCES
	}
	return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
}
