package policy

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
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
	maxRepositories = 300       // some mounts each, which one order has to have room for
	maxLooks        = 1_000_000 // at what git's settings name, once for each working tree
	maxDenied       = 20_000    // places, several times what one order has room for
)

// search looks for the repositories in some directories of a tree.
type search struct {
	entries int      // left
	next    []string // the directories in those
	found   []found
	buf     []byte

	// Of the directory that is read.
	dir    string
	git    bool // it has a .git
	head   bool
	common bool
	marks  int
}

// found is a directory that needs more than to be passed through.
type found struct {
	dir       string
	git, bare bool
	err       error
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
	directories, entries, level := maxDirectories, maxEntries, []string{tree}
	for depth := 0; len(level) > 0; depth++ {
		if depth > maxDepth {
			b.unsearched("%s has directories deeper than %d: hooks of repositories down there can be written", tree, maxDepth)
			return nil
		}
		cut := len(level) > directories
		if cut {
			level = level[:directories]
		}
		directories -= len(level)
		var next []string
		left := entries
		for _, s := range searchLevel(level, entries) {
			left -= entries - s.entries
			next = append(next, s.next...)
			for _, f := range s.found {
				if err := b.guardFound(guard, tree, f); err != nil {
					return err
				}
			}
		}
		entries = left
		if level = next; cut || entries <= 0 {
			b.unsearched("%s is too large to be searched (%d directories, %d files): hooks of repositories deep inside it can be written", tree, maxDirectories, maxEntries)
			return nil
		}
	}
	return nil
}

// guardFound closes a repository. What looks like one may be a script's doing: the
// search goes on in there.
func (b *builder) guardFound(guard, tree string, f found) error {
	if f.err != nil {
		b.closed(f.dir, f.err)
	}
	if f.bare {
		if err := b.guardGitDir(guard, f.dir, f.dir); err != nil {
			return err
		}
	}
	if f.git && f.dir != tree {
		return b.guardGit(guard, join(f.dir, ".git"))
	}
	return nil
}

// searchLevel reads directories, many of them by more than one processor.
func searchLevel(level []string, entries int) []*search {
	const worth = 500 // directories, to begin another goroutine for
	parts := max(1, min(len(level)/worth, runtime.GOMAXPROCS(0), 4))
	searches := make([]*search, parts)
	var all sync.WaitGroup
	for i := range parts {
		s := &search{entries: entries}
		searches[i] = s
		look := func() { s.look(level[len(level)*i/parts : len(level)*(i+1)/parts]) }
		if parts == 1 {
			look()
		} else {
			all.Go(look)
		}
	}
	all.Wait()
	return searches
}

func (s *search) look(dirs []string) {
	for _, dir := range dirs {
		if s.entries <= 0 {
			return
		}
		s.dir, s.git, s.head, s.common, s.marks = dir, false, false, false, 0
		err := s.read()
		if bare := s.head && (s.common || s.marks == 2); bare || s.git || err != nil {
			s.found = append(s.found, found{dir, s.git, bare, err})
		}
	}
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
		s.next = append(s.next, join(s.dir, string(name)))
	}
}
