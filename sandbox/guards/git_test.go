//go:build unix

package guards

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// gitGuards are what a policy guards in a repository's directory.
func gitGuards(dirs ...string) (names []string) {
	for _, dir := range dirs {
		for _, name := range []string{"hooks", "config", "config.worktree", "commondir"} {
			names = append(names, dir+"/"+name)
		}
	}
	return names
}

// runGit runs git in dir without anybody's configuration.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	base := []string{"-c", "user.name=u", "-c", "user.email=u@x", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", "-c", "gc.autoDetach=false"}
	cmd := exec.Command("git", append(base, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("git %q: %v\n%s", args, err, out)
	}
	if text := string(out); strings.Contains(text, "warning:") || strings.Contains(text, "error:") || strings.Contains(text, "fatal:") {
		t.Errorf("git %q complains:\n%s", args, text)
	}
	return string(out)
}

// everyday is what somebody does in his repository while sessions run in it.
func everyday(t *testing.T, root string) {
	t.Helper()
	for _, args := range [][]string{
		{"status"}, {"add", "-A"}, {"commit", "-q", "-m", "x"}, {"branch", "other"}, {"checkout", "-q", "other"}, {"checkout", "-q", "main"},
		{"stash"}, {"stash", "pop"}, {"stash", "list"}, {"gc", "-q"}, {"fsck", "--no-progress"}, {"log", "--oneline"}, {"tag", "t"}, {"pack-refs", "--all"},
		{"worktree", "add", "-q", "../linked", "other"}, {"worktree", "list"}, {"-C", "../linked", "status"}, {"worktree", "remove", "../linked"},
		{"clone", "-q", ".", "../clone"}, {"clone", "-q", "--no-local", ".", "../clone2"}, {"push", "-q", "../clone", "main:pushed"}, {"fetch", "-q", "../clone", "main"},
		{"branch", "-D", "other"}, {"tag", "-d", "t"}, {"config", "a.b", "c"}, {"config", "--unset", "a.b"}, {"config", "--list"}, {"clean", "-n", "-x"},
		{"submodule", "status"}, {"maintenance", "run", "--quiet"}, {"reset", "-q", "--hard"},
	} {
		if args[0] == "stash" && len(args) == 1 || args[0] == "add" {
			put(t, root, "tracked", rand.Text())
		}
		runGit(t, root, args...)
	}
	for _, dir := range []string{"clone", "clone2"} {
		if err := os.RemoveAll(filepath.Join(filepath.Dir(root), dir)); err != nil {
			t.Error(err)
		}
	}
}

// repository makes one with a commit, and a store.
func repository(t *testing.T) (Store, string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "repo")
	put(t, root, "tracked", "first")
	runGit(t, root, "init", "-q")
	runGit(t, root, "add", "-A")
	runGit(t, root, "commit", "-q", "-m", "first")
	return Store{Dir: filepath.Join(t.TempDir(), "state")}, root
}

// Whoever works in a repository does not notice what is reserved in it.
func TestGitWorksBesideReservations(t *testing.T) {
	for what, prepare := range map[string]func(t *testing.T, root string){
		"plain": func(*testing.T, string) {},
		"settings, no hooks": func(t *testing.T, root string) {
			runGit(t, root, "config", "extensions.worktreeConfig", "true")
			runGit(t, root, "config", "include.path", "shared.gitconfig")
			if err := os.RemoveAll(root + "/.git/hooks"); err != nil {
				t.Fatal(err)
			}
		},
		"no config": func(t *testing.T, root string) {
			if err := os.Remove(root + "/.git/config"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, root := repository(t)
			everyday(t, root) // without any, for the comparison
			prepare(t, root)
			git, ignored := gitListing(t, root), runGit(t, root, "status", "--porcelain", "--ignored")
			names := append(gitGuards(".git"), ".git/shared.gitconfig", ".envrc", ".vscode", ".mcp.json", ".github/workflows")
			h := hold(t, s, root, names...)
			if got := runGit(t, root, "status", "--porcelain", "--ignored"); got != ignored {
				t.Errorf("git sees the reservations: %s", got)
			}
			everyday(t, root)
			kept := release(t, h)
			if what == "no config" { // git made one, which is the user's
				git = append(git, "config")
				slices.Sort(git)
				if want := []string{root + "/.git/config"}; !slices.Equal(kept, want) {
					t.Errorf("kept %q, want %q", kept, want)
				}
			} else if kept != nil {
				t.Errorf("kept %q", kept)
			}
			if got := runGit(t, root, "status", "--porcelain", "--ignored"); got != ignored {
				t.Errorf("status was %q, is %q", ignored, got)
			}
			if got := gitListing(t, root); !slices.Equal(got, git) {
				t.Errorf(".git was %q, is %q", git, got)
			}
			if state := listing(t, s.Dir); len(state) > 0 {
				t.Errorf("left in the store: %q", state)
			}
		})
	}
}

// gitListing is .git without the names that commits make.
func gitListing(t *testing.T, root string) []string {
	t.Helper()
	all := slices.DeleteFunc(listing(t, root+"/.git"), func(name string) bool { return strings.HasPrefix(name, "objects/") })
	slices.Sort(all)
	return all
}

func TestGitWorksInSubmodulesAndBareRepositories(t *testing.T) {
	s, root := repository(t)
	dir := filepath.Dir(root)
	runGit(t, dir, "clone", "-q", "--bare", "repo", "up.git")
	runGit(t, root, "clone", "-q", "--bare", ".", "bare.git")
	runGit(t, root, "submodule", "--quiet", "add", dir+"/up.git", "libs/one")
	runGit(t, root, "commit", "-q", "-m", "sub", ".gitmodules", "libs/one")
	runGit(t, root, "worktree", "add", "-q", "../linked")
	runGit(t, dir, "clone", "-q", root+"/bare.git", "work")
	before := listing(t, root)
	h := hold(t, s, root, append(gitGuards(".git", "bare.git", ".git/modules/libs/one"), ".git/worktrees/linked")...)
	for _, d := range []string{".git", "bare.git", ".git/modules/libs/one"} {
		if got, err := os.ReadFile(filepath.Join(root, d, "commondir")); string(got) != ".\n" {
			t.Errorf("%s: %q, %v", d, got, err)
		}
	}
	sub := filepath.Join(root, "libs/one")
	if got := runGit(t, sub, "rev-parse", "--show-toplevel"); got != sub+"\n" {
		t.Errorf("the submodule's tree is %q", got)
	}
	if got := runGit(t, root, "-C", "bare.git", "rev-parse", "--is-bare-repository"); got != "true\n" {
		t.Errorf("bare: %q", got)
	}
	for _, args := range [][]string{
		{"submodule", "status"}, {"submodule", "update", "--init", "--recursive"}, {"submodule", "sync", "--quiet"},
		{"submodule", "--quiet", "foreach", "git status"}, {"-C", sub, "commit", "-q", "--allow-empty", "-m", "x"}, {"diff", "--submodule"},
		{"-C", "../linked", "commit", "-q", "--allow-empty", "-m", "x"}, {"-C", "../work", "commit", "-q", "--allow-empty", "-m", "x"},
		{"-C", "../work", "push", "-q"}, {"-C", "../work", "fetch", "-q"}, {"-C", "bare.git", "gc", "-q"}, {"-C", "bare.git", "fsck", "--no-progress"},
		{"-C", "bare.git", "worktree", "list"}, {"clone", "-q", "bare.git", "../again"},
	} {
		runGit(t, root, args...)
	}
	if kept := release(t, h); kept != nil {
		t.Errorf("kept %q", kept)
	}
	for _, name := range listing(t, root) {
		switch base := filepath.Base(name); base {
		case "commondir", "config", "config.worktree", "hooks":
			if !slices.Contains(before, name) {
				t.Errorf("left %s", name)
			}
		}
	}
}

// What git itself writes to a reserved name on the host is the user's.
func TestGitReplacesAReservation(t *testing.T) {
	s, root := repository(t)
	runGit(t, root, "config", "extensions.worktreeConfig", "true")
	h := hold(t, s, root, gitGuards(".git")...)
	runGit(t, root, "config", "--worktree", "a.b", "c")
	if kept, want := release(t, h), []string{root + "/.git/config.worktree"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	if got := runGit(t, root, "config", "a.b"); got != "c\n" {
		t.Errorf("the setting is %q", got)
	}
	if _, err := os.Lstat(root + "/.git/commondir"); err == nil {
		t.Error("commondir is still there")
	}
}
