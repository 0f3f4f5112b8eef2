package walk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"unicode"
)

// The ignore files of a directory, the stronger first.
const (
	rgignore   = iota // .rgignore
	dotIgnore         // .ignore
	gitignore         // .gitignore, in a repository only
	gitExclude        // .git/info/exclude
	ignoreKinds
)

// maxIgnoreFile bounds how much of an ignore file is read.
const maxIgnoreFile = 1 << 20

// verdict is what ignore rules say about a path.
type verdict uint8

const (
	undecided verdict = iota
	ignored
	included // a ! rule: shown even if hidden
)

// rule is one line of an ignore file.
type rule struct {
	Glob
	include bool
}

// frame holds the rules that one directory adds to those of its parents. A
// directory that adds none shares its parent's frame.
type frame struct {
	parent *frame
	base   int  // length of the directory's path with its slash: what is before a relative path
	git    bool // the directory is the top of a repository
	inRepo bool // it or a parent is
	rules  [ignoreKinds][]rule
}

// judge says what the rules in force at f decide about full, an absolute path.
func (f *frame) judge(full, name string, dir bool) verdict {
	var found [ignoreKinds]verdict
	inRepo, pastGit := f != nil && f.inRepo, false
	for ; f != nil; f = f.parent {
		for kind := range f.rules {
			rules := f.rules[kind]
			if len(rules) == 0 || found[kind] != undecided || kind >= gitignore && (!inRepo || pastGit) {
				continue
			}
			found[kind] = judge(rules, full[f.base:], name, dir)
		}
		if found[rgignore] != undecided {
			break
		}
		pastGit = pastGit || f.git
	}
	for _, v := range found {
		if v != undecided {
			return v
		}
	}
	return undecided
}

// judge lets the last rule that fits decide.
func judge(rules []rule, rel, name string, dir bool) verdict {
	for i := len(rules) - 1; i >= 0; i-- {
		if rules[i].match(rel, name, dir) {
			if rules[i].include {
				return included
			}
			return ignored
		}
	}
	return undecided
}

// ignoreNames tells which of the entries of a directory bear on ignoring.
type ignoreNames struct {
	rgignore, ignore, gitignore, git bool
}

func (n *ignoreNames) see(name string) {
	switch name {
	case ".rgignore":
		n.rgignore = true
	case ".ignore":
		n.ignore = true
	case ".gitignore":
		n.gitignore = true
	case ".git":
		n.git = true
	}
}

// child returns the frame of directory dir, whose entries are has.
func (f *frame) child(ctx context.Context, fsys FS, dir string, has ignoreNames) *frame {
	inRepo := has.git || f != nil && f.inRepo
	if !has.rgignore && !has.ignore && !has.git && !(has.gitignore && inRepo) {
		return f
	}
	n := &frame{parent: f, base: len(dir) + 1, git: has.git, inRepo: inRepo}
	if dir == "/" {
		n.base = 1
	}
	if has.rgignore {
		n.rules[rgignore] = readRules(ctx, fsys, path.Join(dir, ".rgignore"))
	}
	if has.ignore {
		n.rules[dotIgnore] = readRules(ctx, fsys, path.Join(dir, ".ignore"))
	}
	if has.gitignore && inRepo {
		n.rules[gitignore] = readRules(ctx, fsys, path.Join(dir, ".gitignore"))
	}
	if has.git {
		n.rules[gitExclude] = readRules(ctx, fsys, path.Join(gitDir(ctx, fsys, dir), "info", "exclude"))
	}
	return n
}

// above returns the frame of the directories over root, as far up as can be
// read: a search that starts inside a repository obeys all of it.
func above(ctx context.Context, fsys FS, root string) *frame {
	var dirs []string
	for dir := root; path.Dir(dir) != dir; {
		dir = path.Dir(dir)
		dirs = append(dirs, dir)
	}
	var f *frame
	for i := len(dirs) - 1; i >= 0; i-- {
		// Asked by name: a parent may be huge, or not listable.
		f = f.child(ctx, fsys, dirs[i], ignoreNames{
			rgignore: exists(ctx, fsys, join(dirs[i], ".rgignore")), ignore: exists(ctx, fsys, join(dirs[i], ".ignore")),
			gitignore: exists(ctx, fsys, join(dirs[i], ".gitignore")), git: exists(ctx, fsys, join(dirs[i], ".git")),
		})
	}
	return f
}

// exists reports whether there is something with that name, of whatever kind.
func exists(ctx context.Context, fsys FS, name string) bool {
	f, err := fsys.Open(ctx, name)
	if err == nil {
		f.Close()
	}
	return err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// gitDir returns where the repository with top dir keeps what its work trees
// share. In a linked work tree .git is a file that leads there, by absolute
// names; like ripgrep, this heeds no relative ones.
func gitDir(ctx context.Context, fsys FS, dir string) string {
	dotGit := path.Join(dir, ".git")
	own, ok := strings.CutPrefix(readSmall(ctx, fsys, dotGit), "gitdir: ")
	if own = strings.TrimRight(own, "\r\n"); !ok || !path.IsAbs(own) {
		return dotGit
	}
	common := strings.TrimRight(readSmall(ctx, fsys, path.Join(own, "commondir")), "\r\n")
	switch {
	case common == "":
		return dotGit
	case path.IsAbs(common):
		return common
	}
	return path.Join(own, common)
}

// readRules reads an ignore file; what cannot be read has no rules, and a line
// that cannot be understood is none.
func readRules(ctx context.Context, fsys FS, name string) []rule {
	return parseRules(readSmall(ctx, fsys, name))
}

func parseRules(text string) []rule {
	var rules []rule
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRightFunc(line, unicode.IsSpace)
		}
		include := false
		switch {
		case strings.HasPrefix(line, `\!`), strings.HasPrefix(line, `\#`):
			line = line[1:]
		case strings.HasPrefix(line, "!"):
			include, line = true, line[1:]
		}
		if g, err := parseGlob(line); err == nil {
			rules = append(rules, rule{Glob: *g, include: include})
		}
	}
	return rules
}

// readSmall returns the content of a file, "" when there is none.
func readSmall(ctx context.Context, fsys FS, name string) string {
	f, err := fsys.Open(ctx, name)
	if err != nil {
		real, err := fsys.Resolve(ctx, name)
		if err != nil || real == name {
			return ""
		}
		if f, err = fsys.Open(ctx, real); err != nil {
			return ""
		}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return ""
	}
	if len(text) == maxIgnoreFile {
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	return string(text)
}
