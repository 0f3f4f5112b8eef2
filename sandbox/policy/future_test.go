package policy

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs git without anybody's configuration.
func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "protocol.file.allow=always", "-c", "user.name=u", "-c", "user.email=u@x", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repository is one with a commit.
func repository(t *testing.T, dir string) {
	t.Helper()
	git(t, dir, "init", "-q")
	git(t, dir, "commit", "-q", "--allow-empty", "-m", "x")
}

func TestRepositories(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	w := newWorld(t)
	repository(t, w.c.WorkDir)
	repository(t, w.dir("elsewhere"))
	git(t, w.c.WorkDir, "submodule", "add", "-q", w.at("elsewhere"), "libs/one")
	git(t, w.c.WorkDir, "worktree", "add", "-q", w.at("linked"))
	repository(t, w.dir("home/work/nested/deep"))
	git(t, w.c.WorkDir, "init", "-q", "--bare", "bare.git")
	git(t, w.c.WorkDir, "config", "core.hooksPath", "tools/hooks")
	git(t, w.c.WorkDir, "config", "include.path", "../shared.gitconfig")
	p := w.make(Workspace)
	w.expect(p, map[string]string{
		"home/work/.git/hooks/pre-commit": "r-", "home/work/.git/config": "r-", "home/work/.git/commondir": "r-",
		"home/work/.git/HEAD": "rw", "home/work/.git/index": "rw", "home/work/.git/refs/heads/x": "rw", "home/work/.git/objects/ab": "rw",
		"home/work/.git/modules/libs/one/hooks/x": "r-", "home/work/.git/modules/libs/one/config": "r-", "home/work/.git/modules/libs/one/HEAD": "rw",
		"home/work/.git/worktrees/linked/gitdir": "r-", "home/work/.git/worktrees/linked/HEAD": "r-",
		"home/work/libs/one/.git": "r-", "home/work/libs/one/a": "rw",
		"home/work/nested/deep/.git/hooks/x": "r-", "home/work/nested/deep/.git/config": "r-", "home/work/nested/deep/.git/HEAD": "rw",
		"home/work/bare.git/hooks/x": "r-", "home/work/bare.git/config": "r-", "home/work/bare.git/HEAD": "rw",
		"home/work/tools/hooks/pre-push": "r-", "home/work/tools/x": "rw", "home/work/shared.gitconfig": "r-",
	})
	w.c.Open = []string{"git"}
	w.expect(w.make(Workspace), map[string]string{"home/work/.git/hooks/x": "rw", "home/work/tools/hooks/x": "rw", "home/work/.envrc": "r-"})
	w.c.Open = nil

	// A linked worktree's repository is not the script's to write, and it says so.
	w.c.WorkDir = w.at("linked")
	p = w.make(Workspace)
	w.expect(p, map[string]string{"linked/.git": "r-", "linked/a": "rw", "home/work/.git/HEAD": "r-", "home/work/.git/hooks": "r-"})
	if notes := strings.Join(p.Notes, "\n"); !strings.Contains(notes, "git commit fails") || !strings.Contains(notes, "write: ["+w.at("home/work/.git")+"]") {
		t.Errorf("notes: %s", notes)
	}
	// Given by a file, it is guarded as any other.
	w.file("p.yaml", "extends: workspace\nwrite: ["+w.at("home/work/.git")+"]\n")
	w.expect(w.make(w.at("p.yaml")), map[string]string{
		"home/work/.git/HEAD": "rw", "home/work/.git/hooks/x": "r-", "home/work/.git/config": "r-", "home/work/.git/commondir": "r-",
	})
}

func TestNoRepositoryYet(t *testing.T) {
	w := newWorld(t)
	w.expect(w.make(Workspace), map[string]string{"home/work/.git": "r-", "home/work/.git/hooks/x": "r-", "home/work/a/.git": "rw"})
}

func TestExistingStartupFiles(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{".bashrc", ".zshrc", ".husky/pre-commit", ".config/fish/config.fish", ".hg/hgrc", ".jj/repo/config.toml", ".qwen/settings.json", "crush.json"} {
		w.file("home/work/"+name, "x")
	}
	w.expect(w.make(Workspace), map[string]string{
		"home/work/.bashrc": "r-", "home/work/.zshrc": "r-", "home/work/.profile": "rw", "home/work/.husky/pre-commit": "r-",
		"home/work/.config/fish/config.fish": "r-", "home/work/.config/x": "rw",
		"home/work/.hg/hgrc": "r-", "home/work/.hg/store/x": "rw", "home/work/.jj/repo/config.toml": "r-", "home/work/.jj/repo/op": "rw", "home/work/.sl/config": "rw",
		"home/work/.qwen/settings.json": "r-", "home/work/crush.json": "r-", "home/work/.trae/x": "rw",
	})
}

// Hostile repositories: pointers in circles, to nothing, to what is no file.
func TestHostileRepositories(t *testing.T) {
	w := newWorld(t)
	w.file("home/work/a/.git", "gitdir: ../b/.git\n")
	w.file("home/work/b/.git", "gitdir: ../a/.git\n")
	w.link("home/work/c/.git", ".git")
	w.file("home/work/d/.git", "gitdir: \x00/etc\n")
	w.file("home/work/e/.git/config", strings.Repeat("[include]\npath = /\nhooksPath = ..\n[core]\nhookspath = \"../../..\"\n", 10))
	w.file("home/work/f/.git", strings.Repeat("gitdir: ", 10_000))
	w.file("home/work/g/.git/modules/HEAD", "")
	p := w.make(Workspace)
	w.expect(p, map[string]string{"home/work/a/.git": "r-", "home/work/c/.git": "r-", "home/work/x": "rw", "home/work/e/x": "rw", "/etc": "r-"})
	for _, name := range p.Policy.DenyWrite {
		if !strings.HasPrefix(name, w.at("home/work")+"/") {
			t.Errorf("a repository denied %s", name)
		}
	}
	if filepath.Dir(p.Policy.Private[0]) != w.at("home/.cache/hermes-exec") {
		t.Errorf("private: %v", p.Policy.Private)
	}
}

func TestPolicyAndStateBehindLinksAreRefused(t *testing.T) {
	w := newWorld(t)
	w.file("home/work/real/p.yaml", "extends: workspace\n")
	w.link("home/work/link", "real")
	w.link("outside", "home/work/real")
	w.refused(w.at("home/work/link/p.yaml"), w.at("home/work/link"), w.at("home/work/real/p.yaml"))
	for _, name := range []string{"home/work/real/p.yaml", "outside/p.yaml"} {
		w.expect(w.make(w.at(name)), map[string]string{"home/work/real/p.yaml": "r-", "home/work/real/x": "rw"})
	}
	w.dir("state")
	w.link("home/work/state", "../../state")
	w.c.HermesHome = w.at("home/work/state")
	w.refused(Workspace, w.at("home/work/state"), w.at("state"))
	w.c.HermesHome, w.c.StateDirs = "", []string{w.at("home/work/state"), w.at("state")}
	w.refused(Workspace, w.at("home/work/state"))
	w.c.StateDirs = []string{w.at("state")}
	w.make(Workspace)
	w.c.HermesHome = w.dir("home/.hermes")
	w.link("home/.hermes/config.yaml", "../work/link/config.yaml")
	w.refused(Workspace, w.at("home/work/link"))
}

// A relative $HERMES_HOME is where the engine is, not at the root.
func TestRelativeHermesHome(t *testing.T) {
	w := newWorld(t)
	t.Chdir(w.root)
	w.c.HermesHome = "home/work/.hermes"
	w.dir("home/work/.hermes")
	w.refused(Workspace, "the engine's own state")
}
