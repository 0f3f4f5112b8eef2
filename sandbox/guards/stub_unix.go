//go:build unix

package guards

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// form is what reserves a name: an empty directory, or a file, for good, with
// this content.
type form struct {
	file    bool
	content string
}

// stubs are the names that a directory does not keep but breaks: git reads
// them, if they are there, at each command, and gives up when it cannot. The
// contents say what git believes without the file. All others are directories,
// as git does not list these in a working tree, nor adds them to a commit.
var stubs = [...]struct {
	pattern string // of the last element, as for path.Match
	gitDir  bool   // only beside a HEAD
	content string
}{
	{"commondir", true, ".\n"}, // this repository is its own
	{"config*", true, ""},
	{"*gitconfig*", false, ""}, // what configurations include
}

// formOf returns what is to reserve a name that is missing.
func (h *Hold) formOf(t *tree, name string) form {
	dir, base := path.Dir(name), path.Base(name)
	for _, s := range stubs {
		if ok, _ := path.Match(s.pattern, base); !ok {
			continue
		}
		if s.gitDir {
			if _, err := t.stat(path.Join(dir, "HEAD")); err != nil {
				continue
			}
		}
		if base == "commondir" && h.worksElsewhere(t, dir) {
			return form{}
		}
		return form{true, s.content}
	}
	return form{}
}

// maxConfig bounds what is read of a repository's configuration.
const maxConfig = 1 << 20

// worksElsewhere reports whether the repository dir names a working tree that
// git would not find by itself. Beside a commondir git overlooks that setting,
// and would take another tree for the working tree: better it stops.
func (h *Hold) worksElsewhere(t *tree, dir string) bool {
	config, _ := t.read(path.Join(dir, "config"), maxConfig)
	at := h.path(dir)
	for line := range strings.Lines(config) {
		key, value, _ := strings.Cut(line, "=")
		key = strings.TrimSpace(key[strings.LastIndexByte(key, ']')+1:])
		if !strings.EqualFold(key, "worktree") {
			continue
		}
		place := strings.Trim(strings.TrimSpace(value), `"`)
		if !filepath.IsAbs(place) {
			place = filepath.Join(at, place)
		}
		if filepath.Base(at) == ".git" && filepath.Clean(place) == filepath.Dir(at) {
			continue // where it is anyway
		}
		if _, err := os.Stat(place); err != nil {
			continue // a submodule that is not checked out
		}
		if st, err := os.Lstat(filepath.Join(place, ".git")); err != nil || !st.Mode().IsRegular() {
			return true // none from which git gets here, as a submodule has one
		}
	}
	return false
}

// fileFlags open a file itself: no link, and nothing that blocks.
const fileFlags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK

// openFlags open it for reading.
func (f form) openFlags() int {
	if f.file {
		return fileFlags
	}
	return dirFlags
}

// read returns the first bytes of a regular file below the root.
func (t *tree) read(name string, limit int) (string, error) {
	parent, err := t.dir(path.Dir(name))
	if err != nil {
		return "", err
	}
	fd, err := unix.Openat(parent, path.Base(name), fileFlags, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	if n, err := identify(fd, ""); err != nil || !n.isFile() {
		return "", unix.EINVAL
	}
	return readFile(fd, limit)
}

// readFile returns the first bytes of an open file.
func readFile(fd, limit int) (string, error) {
	buf := make([]byte, min(limit, 4096))
	size := 0
	for size < limit {
		if size == len(buf) {
			buf = append(buf, make([]byte, min(len(buf), limit-len(buf)))...)
		}
		n, err := unix.Pread(fd, buf[size:], int64(size))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return "", err
		case n == 0:
			return string(buf[:size]), nil
		}
		size += max(n, 0)
	}
	return string(buf[:size]), nil
}

// untouched reports whether what is open as fd is as it was made: an empty
// directory, or a file with that content and no other name.
func (f form) untouched(fd int) bool {
	if !f.file {
		none, err := empty(fd)
		return none && err == nil
	}
	n, err := identify(fd, "")
	if err != nil || !n.isFile() || n.nlink != 1 {
		return false
	}
	text, err := readFile(fd, len(f.content)+1)
	return err == nil && text == f.content
}
