package policy

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// bareRepository is what git takes for one, without git.
func (w *world) bareRepository(dir, config string) {
	w.t.Helper()
	w.file(dir+"/HEAD", "ref: refs/heads/main\n")
	w.dir(dir + "/objects")
	w.dir(dir + "/refs")
	w.file(dir+"/config", config)
}

// refused fails unless there is no policy, because of what is named, with a way
// out.
func (w *world) refused(name string, because ...string) {
	w.t.Helper()
	_, err := Make(name, w.c)
	if !errors.Is(err, sandbox.ErrPolicy) {
		w.t.Fatalf("not refused: %v", err)
	}
	for _, s := range because {
		if !strings.Contains(err.Error(), s) {
			w.t.Errorf("%v: does not name %s", err, s)
		}
	}
}

var gitTexts = []string{
	"[core]\n\thooksPath = hk\n", "[core] hooksPath = hk", "[core]hooksPath=hk", "\xef\xbb\xbf[CoRe] HOOKSPATH = \"h k\" # x\n",
	"[core]\r\nhookspath = a\\\r\nb ; c\r\n", "[core]\nhookspath = \"a # b\" c  d  \n", "[core]\nhookspath = a\\\\b\\\"c\\td\\ne\n",
	"[a \"b \\\" ] c\"] d = e\n[a.B]\nc = d\n[core]x=1\n", "; [core] hookspath = no\n# y\n[core] # z\nhookspath = yes\n", "[core]\n\n  bare\n hookspath\t=\n",
	"[includeIf \"gitdir:~/x/\"] path = ../y\n[include]\npath=\"z\"\n", "[filter \"x\"] clean = \"tools/clean --a=\\\"b c\\\"\" %f\n",
	"[core]\nhookspath = one\nhookspath = two\n\t \r[core] hookspath = three", "[core] [alias] x = !y\n", "[core]\nhookspath = a\\",
	"[core]\nhookspath = \"a\" \"b\"\n", "[core]\nx-y9 = 1\n", "[core \"hookspath\x00 x\"]\ny = hk\n",
}

// What is read of a configuration is what git reads.
func TestConfigurationIsReadAsByGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	name := filepath.Join(t.TempDir(), "config")
	for _, text := range gitTexts {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("git", "config", "--no-includes", "-z", "--list", "--file", name).Output()
		if err != nil {
			t.Errorf("git does not read %q: %v", text, err)
		}
		var got, want []string
		parseGit(text, func(name, value string) { got = append(got, name+"\n"+value) })
		for v := range strings.SplitSeq(string(out), "\x00") {
			if strings.Contains(v, "\n") { // else it has no value
				want = append(want, v)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, git reads %q", text, got, want)
		}
	}
}

// Whatever git stumbles over, what comes after it is read.
func TestConfigurationWithErrors(t *testing.T) {
	for _, text := range []string{"[core\nhookspath = hk\n", "[core]\n=\n1x = y\nhookspath = \"hk\n", "[core \"x\n[core]\nhookspath = hk\x00no\n", "\x00\n[core] hookspath=hk"} {
		got := ""
		parseGit(text, func(name, value string) {
			if name == "core.hookspath" {
				got = value
			}
		})
		if got != "hk" {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func FuzzConfiguration(f *testing.F) {
	for _, text := range gitTexts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parseGit(text, func(name, value string) {
			if strings.ContainsRune(name+value, 0) {
				t.Errorf("%q %q", name, value)
			}
		})
	})
}

// However the hooks are named, they cannot be written.
func TestHooksAreGuardedWhereverTheyAre(t *testing.T) {
	for what, c := range map[string]struct {
		files  map[string]string // in the home
		guards []string          // in the work dir
		open   string
	}{
		"one line":           {map[string]string{"work/.git/config": "[core] hooksPath = hk\n"}, []string{"hk/pre-commit"}, "hk2"},
		"quotes":             {map[string]string{"work/.git/config": "[core]\nhooksPath = \"h\"k ; x\n"}, []string{"hk/pre-commit"}, "x"},
		"more than one":      {map[string]string{"work/.git/config": "[core]\nhooksPath = a\nhooksPath = b\n"}, []string{"a/x", "b/x"}, "c/x"},
		"a home":             {map[string]string{"work/.git/config": "[core]\nhooksPath = ~/work/hk\n"}, []string{"hk/x"}, "x"},
		"an include":         {map[string]string{"work/.git/config": "[include] path = ../inc\n", "work/inc": "[core]\nhooksPath=hk\n"}, []string{"inc", "hk/x"}, "x"},
		"a condition":        {map[string]string{"work/.git/config": "[includeIf \"gitdir:/none\"]\npath = ../a/inc\n", "work/a/inc": "[include]\npath=inc2\n", "work/a/inc2": "[core] hooksPath=hk\n"}, []string{"a/inc", "a/inc2", "hk/x"}, "a/hk"},
		"the user's":         {map[string]string{".gitconfig": "[core]\nhooksPath = .myhooks\n"}, []string{".myhooks/x", "sub/.myhooks/x"}, "a/.myhooks"},
		"the user's other":   {map[string]string{".config/git/config": "[core]\nhooksPath = .myhooks\n"}, []string{".myhooks/x"}, "x"},
		"the environment's":  {map[string]string{"global": "[core]\nhooksPath = .myhooks\n"}, []string{".myhooks/x"}, "x"},
		"the user's include": {map[string]string{".gitconfig": "[include]\npath = more/git\n", "more/git": "[core]\nhooksPath = .myhooks\n"}, []string{".myhooks/x"}, "x"},
		"per worktree":       {map[string]string{"work/.git/config.worktree": "[core]\nhooksPath = hk\n"}, []string{"hk/x"}, "x"},
		"a submodule":        {map[string]string{"work/.git/modules/m/HEAD": "", "work/.git/modules/m/config": "[core]\nworktree = ../../../libs/m\nhooksPath = hk\n"}, []string{"libs/m/hk/x"}, "libs/m/x"},
		"programs": {map[string]string{"work/.git/config": "[core]\nfsmonitor = tools/monitor\npager = less\n[filter \"x\"]\nclean = python3 'tools/clean.py' %f\n[alias]\ny = \"!tools/y; sh y.sh README\"\nl = log README x.py\n", "work/tools/clean.py": "", "work/README": "", "work/x.py": "", "work/y.sh": ""},
			[]string{"tools/monitor", "tools/clean.py", "tools/y", "y.sh"}, "README"},
		"git-flow":  {map[string]string{"work/.git/config": "[gitflow \"path\"] hooks = tools/flow\n[secrets] providers = tools/secrets list\n"}, []string{"tools/flow/x", "tools/secrets"}, "tools/x"},
		"templates": {map[string]string{".gitconfig": "[init] templateDir = ~/work/template\n"}, []string{"template/hooks/x"}, "x"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.c.Environ = append(w.c.Environ, "GIT_CONFIG_GLOBAL="+w.at("home/global"), "GIT_CONFIG_SYSTEM=/dev/null")
			w.file("home/work/.git/HEAD", "ref: refs/heads/main\n")
			w.file("home/work/sub/.git/HEAD", "ref: refs/heads/main\n")
			for name, text := range c.files {
				w.file("home/"+name, text)
			}
			want := map[string]string{"home/work/" + c.open: "rw", "home/work/.git/config": "r-", "home/work/.git/index": "rw"}
			for _, name := range c.guards {
				want["home/work/"+name] = "r-"
			}
			w.expect(w.make(Workspace), want)
			w.c.Open = []string{"git"}
			w.expect(w.make(Workspace), map[string]string{"home/work/" + c.guards[0]: "rw"})
		})
	}
}

// Where the repository is elsewhere, its settings hold here nevertheless.
func TestHooksOfALinkedWorktree(t *testing.T) {
	w := newWorld(t)
	w.bareRepository("repo", "[core] hooksPath = hk\n")
	w.file("repo/worktrees/x/HEAD", "")
	w.file("repo/worktrees/x/commondir", "../..\n")
	w.file("repo/worktrees/x/config.worktree", "[core] hooksPath = hk2\n")
	w.file("home/work/.git", "gitdir: "+w.at("repo/worktrees/x")+"\n")
	w.expect(w.make(Workspace), map[string]string{"home/work/.git": "r-", "home/work/hk/x": "r-", "home/work/hk2/x": "r-", "home/work/x": "rw"})
}

// The work dir is a part of a repository, which has its hooks there.
func TestHooksOfTheRepositoryAround(t *testing.T) {
	w := newWorld(t)
	w.bareRepository("home/.git", "[core] hooksPath = work/tools/hooks\n")
	w.expect(w.make(Workspace), map[string]string{"home/work/tools/hooks/pre-commit": "r-", "home/work/tools/x": "rw", "home/.git/config": "r-"})
	w.file("home/work/.git/HEAD", "") // one of its own does not make the other go away
	w.expect(w.make(Workspace), map[string]string{"home/work/tools/hooks/pre-commit": "r-"})

	// Nor does what is none between them, such as a reservation.
	w = newWorld(t)
	w.bareRepository("home/.git", "[core] hooksPath = work/sub/hooks\n")
	w.dir("home/work/.git")
	w.c.WorkDir = w.dir("home/work/sub")
	w.expect(w.make(Workspace), map[string]string{"home/work/sub/hooks/pre-commit": "r-", "home/work/sub/x": "rw"})
}

// Where a program is named and a directory stands, perhaps a reservation, a
// program may stand later.
func TestDirectoriesInPlaceOfPrograms(t *testing.T) {
	w := newWorld(t)
	w.bareRepository("home/work/.git", "[core] fsmonitor = ./tools/mon\n[alias] x = !sh tools/run.sh && cd src && make\n[include] path = ../inc\n[core] sshCommand = tools/full\n")
	for _, name := range []string{"tools/mon", "tools/run.sh", "inc", ".git/hooks"} {
		w.dir("home/work/" + name)
	}
	w.file("home/work/tools/full/x", "")
	w.file("home/work/src/x", "")
	w.link("home/work/.git/hooks/pre-commit", "../../tools/hook")
	w.dir("home/work/tools/hook")
	w.expect(w.make(Workspace), map[string]string{"home/work/tools/mon": "r-", "home/work/tools/run.sh": "r-", "home/work/inc": "r-", "home/work/tools/full": "r-",
		"home/work/tools/hook": "r-", "home/work/src": "rw", "home/work/tools/x": "rw"})
}

// A hook that is a link is what it leads to.
func TestLinkedHooks(t *testing.T) {
	w := newWorld(t)
	w.bareRepository("home/work/.git", "")
	w.file("home/work/scripts/lint.sh", "")
	w.link("home/work/.git/hooks/pre-commit", "../../scripts/lint.sh")
	w.expect(w.make(Workspace), map[string]string{"home/work/scripts/lint.sh": "r-", "home/work/scripts/x": "rw"})
}

// A dotfiles repository: the user's settings are in the work dir.
func TestUsersConfigurationInTheWorkDir(t *testing.T) {
	w := newWorld(t)
	w.file("home/work/gitconfig", "[core]\nhooksPath = hk\n")
	w.link("home/.gitconfig", "work/gitconfig")
	w.expect(w.make(Workspace), map[string]string{"home/work/gitconfig": "r-", "home/work/hk/x": "r-"})

	// Git goes on from where the link is.
	w = newWorld(t)
	w.file("shared/gitconfig", "[include]\npath = work/more\n")
	w.link("home/.gitconfig", "../shared/gitconfig")
	w.file("home/work/more", "[core]\nhooksPath = hk\n")
	w.expect(w.make(Workspace), map[string]string{"home/work/more": "r-", "home/work/hk/x": "r-"})
}

// What a script could put something of its own in place of is no guard.
func TestReplaceableLinksAreRefused(t *testing.T) {
	for what, config := range map[string]string{
		"hooks": "[core]\nhooksPath = tools/hooks\n", "an include": "[include]\npath = ../tools/inc\n",
		"a program": "[core]\nfsmonitor = ./tools/watch\n", "itself": "[core]\nhooksPath = tools\n", "all": "[core]\nhooksPath = .\n",
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.dir("home/work/real/hooks")
			w.link("home/work/tools", "real")
			w.bareRepository("home/work/.git", config)
			because := w.at("home/work/tools")
			if what == "all" {
				because = "all of a tree"
			}
			w.refused(Workspace, because, "open_guards: [git]", w.at("home/work/.git/config"))
			w.c.Open = []string{"git"}
			w.make(Workspace)
		})
	}
	w := newWorld(t)
	w.bareRepository("home/work/real/repo", "")
	w.link("home/work/link", "real")
	w.file("home/work/sub/.git", "gitdir: ../link/repo\n")
	w.refused(Workspace, w.at("home/work/sub/.git"), w.at("home/work/link"))
	w.c.WorkDir = w.at("home/work/sub") // the link is out of reach
	w.make(Workspace)
}

// However much is named, a session begins, or is refused, soon.
func TestEndlessSettingsAreRefused(t *testing.T) {
	defer func(looks, denied int) { maxLooks, maxDenied = looks, denied }(maxLooks, maxDenied)
	maxLooks, maxDenied = 5000, 1500
	many := func(n int, line func(i int) string) (text string) {
		for i := range n {
			text += line(i)
		}
		return text
	}
	for because, text := range map[string]string{
		"too many working trees": "[core]\n" + many(maxTrees+1, func(i int) string { return fmt.Sprintf("worktree = w%d\n", i) }),
		"too much is named":      "[alias]\n" + strings.Repeat("a = !b\n", maxLooks),
		"through the directory": "[filter \"x\"]\n" + many(1000, func(i int) string { // each holds only where the one after it does
			return fmt.Sprintf("clean = d%d/../d%d/x\n", 1000-i, 1001-i)
		}) + "clean = d1/x\n",
	} {
		w := newWorld(t)
		for i := range 1001 {
			w.dir(fmt.Sprintf("home/work/d%d", i))
		}
		w.bareRepository("home/work/sub/repo", "")
		w.bareRepository("home/work/.git", text)
		w.refused(Workspace, because, "open_guards: [git]")
	}
	w := newWorld(t)
	w.bareRepository("home/work/.git", "[filter \"x\"]\n"+many(maxDenied, func(i int) string { return fmt.Sprintf("clean = ./%d\n", i) }))
	w.refused(Workspace, "too much is named", "open_guards: [git]")
	w = newWorld(t)
	for i := range 100 {
		w.link(fmt.Sprintf("home/work/hk/%d", i), "../x")
	}
	w.bareRepository("home/work/.git", "[core]\n"+strings.Repeat("hooksPath = hk\n", 100)) // the same again
	w.expect(w.make(Workspace), map[string]string{"home/work/hk/x": "r-", "home/work/x": "r-", "home/work/y": "rw"})
}

// What cannot be read could say anything.
func TestUnreadableRepositoriesAreRefused(t *testing.T) {
	for what, name := range map[string]string{"settings": ".git/config", "more settings": ".git/config.worktree", "the way to the repository": ".git/commondir", "a pointer": "sub/.git", "what is included": "inc"} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.file("home/work/.git/HEAD", "")
			w.file("home/work/.git/config", "[include]\npath = ../inc\n")
			w.dir("home/work/sub")
			name = "home/work/" + name
			_ = os.Remove(w.at(name))
			w.file(name, strings.Repeat("#", maxConfig+1))
			w.refused(Workspace, w.at(name), "open_guards: [git]")
			w.c.Open = []string{"git"}
			w.make(Workspace)
		})
	}
	w := newWorld(t)
	w.file("home/work/.git/HEAD", "")
	text := ""
	for i := range maxIncludes + 1 {
		text += fmt.Sprintf("[include] path = i%d\n", i)
	}
	w.file("home/work/.git/config", text)
	w.refused(Workspace, "too many files")
	w.file("home/work/.git/config", "[include]\npath = config\n") // round and round
	w.expect(w.make(Workspace), map[string]string{"home/work/.git/config": "r-"})
}
