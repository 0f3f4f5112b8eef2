package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// guardAround closes what the repository that a tree is a part of makes git run
// in it.
func (b *builder) guardAround(guard, tree string) error {
	for dir := tree; dir != filepath.Dir(dir); {
		dir = filepath.Dir(dir)
		if git := filepath.Join(dir, ".git"); b.links.exists(git) {
			// Git goes on above one that is no repository, such as a reservation. Who
			// may not look has no use for it.
			if err := b.guardGit(guard, git); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err
			}
		}
	}
	return nil
}

// guardGit closes one .git, whatever it is: a repository, a file that names
// one, a link, or nothing yet.
func (b *builder) guardGit(guard, git string) error {
	root := filepath.Dir(git)
	real := b.links.real(git)
	info, err := os.Lstat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir() && !exists(filepath.Join(real, "HEAD")):
		b.denyWrite(guard, git) // no repository: nothing yet, or a session's reservation
		return b.guardConfigured(guard, "", root)
	case err != nil || !info.IsDir():
		b.denyWrite(guard, git)
		dir, err := b.pointer(real, "gitdir: ")
		if err != nil || dir == "" {
			return err
		}
		if !sandbox.Covers(b.workdir, dir) {
			common, err := b.commonDir(dir)
			if err != nil {
				return err
			}
			b.note("%s points to the repository %s, which lies outside the work dir: it can be read, not written, so git commit fails; a policy file with write: [%s] gives it", git, dir, common)
		}
		return b.guardGitDir(guard, dir, root)
	case real != filepath.Clean(git):
		b.policy.DenyWrite = append(b.policy.DenyWrite, git) // the link itself
		b.remember("deny_write", git, guard)
	}
	return b.guardGitDir(guard, real, root)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// commonDir is the repository that a linked worktree's directory belongs to.
func (b *builder) commonDir(dir string) (string, error) {
	common, err := b.pointer(filepath.Join(dir, "commondir"), "")
	if common == "" {
		common = dir
	}
	return common, err
}

// pointer is what a file of git's points to, "" if it points nowhere.
func (b *builder) pointer(name, prefix string) (string, error) {
	text, err := b.readInput(name, maxPointer)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(text, "\n")
	target, ok := strings.CutPrefix(line, prefix)
	if target = strings.TrimSpace(target); !ok || target == "" || strings.ContainsRune(target, 0) {
		return "", nil
	}
	if !filepath.IsAbs(target) {
		target = filepath.Dir(name) + "/" + target
	}
	if link := b.replaceable(target); link != "" {
		return "", refuse("policy: %s points through the link %s, which a script could replace: write %s in it, or open the guard: open_guards: [git]", name, link, b.links.real(target))
	}
	return b.links.real(target), nil
}

const maxPointer = 1 << 20 // as for git

// guardGitDir closes what git runs or believes in one repository directory, and
// in a working tree of it. What ordinary work writes (objects, refs, HEAD,
// index, logs) stays open.
func (b *builder) guardGitDir(guard, dir, root string) error {
	key := dir + "\x00" + root
	if b.git.repos[key] {
		return nil
	}
	if len(b.git.repos) == maxRepositories {
		b.unsearched("there are more than %d repositories: hooks of some of them can be written", maxRepositories)
	}
	if b.git.repos == nil {
		b.git.repos = map[string]bool{}
	}
	b.git.repos[key] = true
	if len(b.git.repos) > maxRepositories {
		return nil
	}
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		b.denyWrite(guard, filepath.Join(dir, name))
	}
	common, err := b.commonDir(dir)
	if err == nil && common != dir && b.writable(common) {
		err = b.guardGitDir(guard, common, common)
	}
	if err != nil {
		return err
	}
	if err := b.guardHooks(guard, filepath.Join(dir, "hooks")); err != nil {
		return err
	}
	// A linked worktree's half in its repository: nothing here uses it.
	worktrees, err := b.entries(filepath.Join(dir, "worktrees"), fs.ModeDir)
	if err == nil {
		err = b.look(dir, len(worktrees))
	}
	if err != nil {
		return err
	}
	for _, name := range worktrees {
		b.denyWrite(guard, name)
	}
	if err := b.guardModules(guard, filepath.Join(dir, "modules"), 0); err != nil {
		return err
	}
	return b.guardConfigured(guard, dir, root)
}

// guardModules closes the repositories of submodules, whose names may have
// slashes.
func (b *builder) guardModules(guard, dir string, depth int) error {
	if b.git.modules++; depth > maxDepth || b.git.modules > maxDirectories {
		b.unsearched("%s is too deep, or there is too much beside it: hooks of submodules down there can be written", dir)
		return nil
	}
	children, err := b.entries(dir, fs.ModeDir)
	if err != nil {
		return err
	}
	for _, child := range children {
		if b.links.exists(filepath.Join(child, "HEAD")) {
			err = b.guardGitDir(guard, child, child) // its configuration says where its tree is
		} else {
			err = b.guardModules(guard, child, depth+1)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// entries lists what is of one type in a directory, which must be readable and
// small if it exists.
func (b *builder) entries(dir string, kind fs.FileMode) (names []string, err error) {
	f, err := openDir(dir)
	if leadsNowhere(err) || errors.Is(err, errNoDirectory) {
		return nil, nil
	}
	var entries []fs.DirEntry
	if err == nil {
		defer f.Close()
		entries, err = f.ReadDir(maxChildren + 1)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(entries) > maxChildren {
		err = fmt.Errorf("it has more than %d entries", maxChildren)
	}
	if err != nil {
		return nil, &unread{dir, err}
	}
	for _, e := range entries {
		if e.Type()&kind != 0 {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names, nil
}

// isFull tells whether a place is a directory with something in it: an empty one
// may be the reservation of a file.
func (b *builder) isFull(name string) bool {
	f, err := openDir(b.links.real(name))
	if err != nil {
		return b.isDir(name)
	}
	defer f.Close()
	entries, _ := f.ReadDir(1)
	return len(entries) > 0
}

func (b *builder) isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}
