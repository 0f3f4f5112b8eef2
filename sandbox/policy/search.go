package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// How far repositories are looked for, in each writable tree. What one directory
// costs is nearly all to open it; what lies in it is only counted so that the
// search ends.
const (
	maxDepth    = 64
	maxChildren = 10_000 // of a directory of git's
)

// Variables for tests.
var (
	maxDirectories  = 100_000
	maxEntries      = 10_000_000
	maxRepositories = 1000
)

// search looks for the repositories in a tree.
type search struct {
	tree        string
	directories int // left
	entries     int
	buf         []byte

	// Of the directory that is read.
	dir    string
	dirs   []string
	git    bool // it has a .git
	head   bool
	common bool
	marks  int
}

// guardRepositories closes .git of a tree and of the repositories inside it,
// the shallow ones first.
func (b *builder) guardRepositories(guard, tree string) error {
	if err := b.guardGit(guard, filepath.Join(tree, ".git")); err != nil {
		return err
	}
	if err := b.guardAround(guard, tree); err != nil {
		return err
	}
	s := &search{tree: tree, directories: maxDirectories, entries: maxEntries}
	level := []string{tree}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			b.unsearched("%s has directories deeper than %d: hooks of repositories down there can be written", tree, maxDepth)
			return nil
		}
		var next []string
		for _, dir := range level {
			if s.directories <= 0 || s.entries <= 0 {
				b.unsearched("%s is too large to be searched (%d directories, %d files): hooks of repositories deep inside it can be written", tree, maxDirectories, maxEntries)
				return nil
			}
			if err := b.look(s, guard, dir); err != nil {
				return err
			}
			for _, name := range s.dirs {
				next = append(next, join(dir, name))
			}
		}
		level = next
	}
	return nil
}

// look reads a directory and closes the repository that is in it. What looks
// like one may be a script's doing: the search goes on in there.
func (b *builder) look(s *search, guard, dir string) error {
	s.directories--
	s.dir, s.dirs, s.git, s.head, s.common, s.marks = dir, s.dirs[:0], false, false, false, 0
	if err := s.read(); err != nil {
		b.closed(dir, err)
	}
	if s.head && (s.common || s.marks == 2) {
		if err := b.guardGitDir(guard, dir, dir); err != nil {
			return err
		}
	}
	if s.git && dir != s.tree {
		return b.guardGit(guard, join(dir, ".git"))
	}
	return nil
}

// closed tells of a directory that could not be read. Another user's closed one
// is closed to the box as well, but its own a script can open again.
func (b *builder) closed(dir string, err error) {
	if leadsNowhere(err) && !errors.Is(err, syscall.ENAMETOOLONG) {
		return // it is gone, or it is no directory any more
	}
	info, statErr := os.Lstat(dir)
	if errors.Is(err, fs.ErrPermission) && statErr == nil && isOthers(info) {
		b.note("%s cannot be looked into: hooks of repositories in it can be written by who can open it", dir)
		return
	}
	var why *fs.PathError
	if errors.As(err, &why) {
		err = why.Err
	}
	b.unsearched("%s cannot be looked into (%v): hooks of repositories in it can be written", dir, err)
}

// unsearched notes what is not known to be guarded: no more than a few, which one
// line has room for.
func (b *builder) unsearched(format string, args ...any) {
	b.note(format, args...)
	if list := &b.policy.Unsearched; len(*list) < 3 {
		*list = append(*list, b.notes[len(b.notes)-1])
	}
}

// entry notes what one name in the directory means.
func (s *search) entry(name []byte, kind fs.FileMode) {
	s.entries--
	isDir, isLink := kind&fs.ModeDir != 0, kind&fs.ModeSymlink != 0
	switch string(name) {
	case ".git":
		s.git = true
		return
	case "HEAD":
		s.head = !isDir
	case "commondir":
		s.common = !isDir
	case "objects", "refs": // git follows links here
		if isDir || isLink {
			s.marks++
		}
	}
	if isDir {
		s.dirs = append(s.dirs, string(name))
	}
}
