package policy

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// future are the places inside a writable tree that somebody will run or trust
// later. Those marked ? are closed only where they exist: to reserve each
// missing one would litter the tree.
const future = `
git: hooks and settings that git runs: ./.git ./.husky? ./.githooks? ./.gitconfig? ./.hg/hgrc? ./.jj/repo/config.toml? ./.sl/config?
editors: tasks and settings that editors run: ./.vscode ./.idea ./.zed? ./.fleet? ./.devcontainer? ./.exrc? ./.nvimrc? ./.nvim.lua?
agents_config: settings and hooks of coding agents: ./.claude ./.cursor ./.mcp.json ./.codex? ./.gemini? ./.windsurf?
direnv: commands that a shell runs on entering the directory: ./.envrc
workflows: jobs that the code host runs: ./.github/workflows ./.gitlab-ci.yml? ./.circleci?
shell: files that a shell runs when it starts: ./.bashrc? ./.bash_profile? ./.bash_login? ./.bash_logout? ./.bash_aliases?
+ ./.profile? ./.zshrc? ./.zshenv? ./.zprofile? ./.zlogin? ./.zlogout? ./.kshrc? ./.cshrc? ./.tcshrc? ./.login?
+ ./.config/fish? ./.xprofile? ./.xinitrc? ./.pam_environment? ./.inputrc?
policy!: the policy itself: 
`

// guardTree closes what is run or trusted later in one writable tree.
func (b *builder) guardTree(tree string) {
	for _, g := range b.table {
		if g.Clause != "deny_write" || b.open[g.Name] {
			continue
		}
		for _, place := range g.Places {
			name, onlyExisting := strings.CutSuffix(place, "?")
			name = filepath.Join(tree, name)
			switch {
			case name == filepath.Join(tree, ".git"):
				b.guardRepositories(g.Name, tree)
			case !onlyExisting || b.links.exists(name):
				b.denyWrite(g.Name, name)
			}
		}
	}
	if IsFile(b.policy.Name) {
		b.denyWrite("policy", b.policy.Name)
	}
}

// How far repositories are looked for. What lies deeper, or is made later, is
// for the look after each run.
const (
	maxDepth   = 4
	maxEntries = 10_000
)

// guardRepositories closes .git of a tree and of the repositories inside it.
func (b *builder) guardRepositories(guard, tree string) {
	b.guardGit(guard, filepath.Join(tree, ".git"))
	left := maxEntries
	level := []string{tree}
	for depth := 0; depth < maxDepth && len(level) > 0; depth++ {
		var next []string
		for _, dir := range level {
			names, links, bare := b.scan(dir, &left)
			if bare {
				b.guardGitDir(guard, dir)
				continue
			}
			for _, name := range append(names, links...) {
				if name == ".git" && dir != tree {
					b.guardGit(guard, filepath.Join(dir, name))
				}
			}
			for _, name := range names {
				if name != ".git" {
					next = append(next, filepath.Join(dir, name))
				}
			}
		}
		level = next
	}
	if left <= 0 {
		b.note("%s has more than %d entries: repositories deep inside it may have been missed, and their hooks can be written", tree, maxEntries)
	}
}

// scan lists a directory's subdirectories, and a .git that is none; bare tells
// that the directory itself is a repository.
func (b *builder) scan(dir string, left *int) (dirs, others []string, bare bool) {
	if *left <= 0 {
		return nil, nil, false
	}
	f, err := openDir(dir)
	if err != nil {
		return nil, nil, false
	}
	defer f.Close()
	entries, err := f.ReadDir(*left)
	if *left -= len(entries); errors.Is(err, io.EOF) || err == nil && *left > 0 {
		err = nil
	}
	marks := 0
	for _, e := range entries {
		switch name := e.Name(); {
		case e.IsDir():
			dirs = append(dirs, name)
			if name == "objects" || name == "refs" {
				marks++
			}
		case name == ".git":
			others = append(others, name)
		case name == "HEAD":
			marks++
		}
	}
	return dirs, others, marks == 3
}

// guardGit closes one .git, whatever it is: a repository, a file that names
// one, a link, or nothing yet.
func (b *builder) guardGit(guard, git string) {
	real := b.links.real(git)
	info, err := os.Lstat(real)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && info.IsDir() && !exists(filepath.Join(real, "HEAD")):
		b.denyWrite(guard, git) // no repository: nothing yet, or a session's reservation
		return
	case err != nil || !info.IsDir():
		b.denyWrite(guard, git)
		if dir := b.gitFile(real); dir != "" && !sandbox.Covers(b.workdir, dir) {
			b.note("%s points to the repository %s, which lies outside the work dir: it can be read, not written, so git commit fails; a policy file with write: [%s] gives it", git, dir, b.commonDir(dir))
		} else if dir != "" {
			b.guardGitDir(guard, dir)
		}
		return
	case real != filepath.Clean(git):
		b.policy.DenyWrite = append(b.policy.DenyWrite, git) // the link itself
		b.remember("deny_write", git, guard)
	}
	b.guardGitDir(guard, real)
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// gitFile reads what a .git file points to.
func (b *builder) gitFile(name string) string {
	return b.pointer(name, "gitdir: ")
}

// commonDir is the repository that a linked worktree's directory belongs to.
func (b *builder) commonDir(dir string) string {
	if common := b.pointer(filepath.Join(dir, "commondir"), ""); common != "" {
		return common
	}
	return dir
}

func (b *builder) pointer(name, prefix string) string {
	f, err := openRegular(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, 8<<10))
	line, _, _ := strings.Cut(string(data), "\n")
	target, ok := strings.CutPrefix(line, prefix)
	if target = strings.TrimSpace(target); !ok || target == "" || strings.ContainsRune(target, 0) {
		return ""
	}
	if !filepath.IsAbs(target) {
		target = filepath.Dir(name) + "/" + target
	}
	return b.links.real(target)
}

// guardGitDir closes what git runs or believes in one repository directory.
// What ordinary work writes (objects, refs, HEAD, index, logs) stays open.
func (b *builder) guardGitDir(guard, dir string) {
	if b.repos[dir] || len(b.repos) >= maxEntries/10 {
		return
	}
	if b.repos == nil {
		b.repos = map[string]bool{}
	}
	b.repos[dir] = true
	for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
		b.denyWrite(guard, filepath.Join(dir, name))
	}
	// A linked worktree's half in its repository: nothing here uses it.
	for _, name := range b.children(filepath.Join(dir, "worktrees")) {
		b.denyWrite(guard, name)
	}
	b.guardModules(guard, filepath.Join(dir, "modules"), 0)
	b.guardConfigured(guard, dir)
}

// guardModules closes the repositories of submodules, whose names may have
// slashes.
func (b *builder) guardModules(guard, dir string, depth int) {
	if depth == maxDepth {
		return
	}
	for _, child := range b.children(dir) {
		if b.links.exists(filepath.Join(child, "HEAD")) {
			b.guardGitDir(guard, child)
		} else {
			b.guardModules(guard, child, depth+1)
		}
	}
}

// children lists the directories in a directory, a bounded number of them.
func (b *builder) children(dir string) (names []string) {
	f, err := openDir(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(1000)
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

// guardConfigured closes the files that a repository's configuration makes git
// run or read: core.hooksPath, and includes.
func (b *builder) guardConfigured(guard, dir string) {
	root := filepath.Dir(dir) // of the working tree
	if real := b.links.real(filepath.Join(dir, "config")); b.links.exists(real) {
		f, err := openRegular(real)
		if err != nil {
			return
		}
		defer f.Close()
		section := ""
		lines := bufio.NewScanner(io.LimitReader(f, 1<<20))
		for lines.Scan() {
			line := strings.TrimSpace(lines.Text())
			if strings.HasPrefix(line, "[") {
				section, _, _ = strings.Cut(strings.ToLower(strings.Trim(line, "[] \t")), " ")
				continue
			}
			key, value, _ := strings.Cut(line, "=")
			value = strings.Trim(strings.TrimSpace(value), `"`)
			base := ""
			switch key = strings.ToLower(strings.TrimSpace(key)); {
			case section == "core" && key == "hookspath":
				base = root
			case strings.HasPrefix(section, "include") && key == "path":
				base = filepath.Dir(real)
			default:
				continue
			}
			if value == "" || strings.HasPrefix(value, "~") || strings.ContainsRune(value, 0) {
				continue // a home is not written
			}
			if !filepath.IsAbs(value) {
				value = base + "/" + value
			}
			if value = b.links.real(value); !sandbox.Covers(value, root) {
				b.denyWrite(guard, value)
			}
		}
	}
}
