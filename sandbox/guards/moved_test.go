//go:build unix

package guards

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A first run hides a tree where nobody looks, a second one moves it. The files
// in it are as old as the first.
func TestScanFindsMovedTrees(t *testing.T) {
	tree := []string{"Makefile", "x/.envrc", ".vscode/tasks.json", "x/.claude/settings.json", "x/.git/HEAD", "x/.git/config", "x/.git/hooks/post-checkout", "x/y/z.txt"}
	counts := []string{"Makefile", "x/.envrc", ".vscode/tasks.json", "x/.claude/settings.json", "x/.git/config", "x/.git/hooks/post-checkout"}
	for name, after := range map[string]func(t *testing.T, to string) error{
		"alone":   func(*testing.T, string) error { return nil },
		"touched": func(_ *testing.T, to string) error { return os.Mkdir(to+"/new", 0o755) }, // its two times are the same again
		"dated": func(_ *testing.T, to string) error {
			st, err := os.Stat(to)
			if err != nil {
				return err
			}
			return os.Chtimes(to, st.ModTime(), st.ModTime())
		},
	} {
		for _, at := range [][2]string{
			{"node_modules/p/proj", "proj"},
			{"node_modules/p/proj", "src/a/proj"},
			{"lib/site-packages/p", "proj"},
			{"old.git/refs/x", "made/by/it"}, // its parents are new
		} {
			t.Run(name+" "+at[0]+" to "+at[1], func(t *testing.T) {
				root := scanRoot(t)
				for _, file := range tree {
					put(t, root, at[0]+"/"+file, "hidden")
				}
				for _, file := range []string{"src/a/main.py", "src/Makefile", "old.git/HEAD", "old.git/objects/x", "old.git/config"} {
					put(t, root, file, "")
				}
				since := settle(t, root)
				to := filepath.Join(root, at[1])
				if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Rename(filepath.Join(root, at[0]), to), after(t, to)); err != nil {
					t.Fatal(err)
				}
				var want []string
				for _, file := range counts {
					want = append(want, at[1]+"/"+file)
				}
				got, whys := scanned(t, root, since, ScanOptions{})
				same(t, "scan", got, want...)
				if why := whys[at[1]+"/Makefile"]; why != "make runs it; "+whyMoved {
					t.Errorf("why: %q", why)
				}
			})
		}
	}
}

// Many in one tree are one result; what lies beside it is none.
func TestScanOfABigMovedTree(t *testing.T) {
	root := scanRoot(t)
	for i := range 20 {
		put(t, root, fmt.Sprintf("node_modules/p/d%02d/Makefile", i), "")
		put(t, root, fmt.Sprintf("node_modules/p/d%02d/.envrc", i), "")
		put(t, root, fmt.Sprintf("beside/d%02d/Makefile", i), "")
		put(t, root, fmt.Sprintf("node_modules/q/d%02d/Makefile", i), "")
	}
	since := settle(t, root)
	if err := errors.Join(os.Rename(root+"/node_modules/p", root+"/p"), os.Rename(root+"/node_modules/q", root+"/q")); err != nil {
		t.Fatal(err)
	}
	put(t, root, "p/d03/Makefile", "changed as well")
	got, whys := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "p", "p/d03/Makefile", "q")
	if !strings.HasPrefix(whys["p"], "39 files that are run or trusted later, such as \"d") || whys["q"] != "20 files: make runs it; "+whyMoved {
		t.Errorf("whys: %q", whys)
	}
}

// Work inside a directory says nothing about what is below its other ones.
func TestScanDoesNotTakeWorkForMoves(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "Makefile", "src/Makefile", "src/a/Makefile", "src/a/b/conftest.py", "other/Makefile", "src/c/Makefile")
	put(t, root, "src/a/new.txt", "")
	put(t, root, "src/a/b/main.py", "")
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "src/a/b/conftest.py") // b changed in a changed directory
	put(t, root, "out.txt", "")
	got, _ = scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "src/a/b/conftest.py")
}

// What was there before, under the same name, was not moved there, whatever was
// made in it and beside it; what took its place was.
func TestScanKnowsWhatWasThere(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, "src/Makefile", "bin/tool/Makefile", "node_modules/p/Makefile", "docs/Makefile")
	was := ReadDirectories(root)
	for _, name := range []string{"out.txt", "src/new.txt", "docs/new.txt"} {
		put(t, root, name, "")
	}
	if err := errors.Join(os.RemoveAll(root+"/bin"), os.Rename(root+"/node_modules/p", root+"/bin")); err != nil {
		t.Fatal(err)
	}
	got, _ := scanned(t, root, since, ScanOptions{Before: was})
	same(t, "scan", got, "bin/Makefile")
	got, _ = scanned(t, root, since, ScanOptions{})
	same(t, "without", got, "bin/Makefile", "docs/Makefile", "src/Makefile")
}

// A directory that a first run filled becomes a repository, or an environment, by
// what a second one adds to it.
func TestScanOfWhatADirectoryBecomes(t *testing.T) {
	for _, below := range []string{"", "src/deep/"} {
		root := scanRoot(t)
		since := before(t, root, below+"a/HEAD", below+"a/config", below+"a/hooks/post-checkout", below+"b/bin/python", below+"b/lib/x", "other/config", "other/bin/x")
		was := ReadDirectories(root)
		put(t, root, below+"a/objects/x", "")
		put(t, root, below+"a/refs/x", "")
		put(t, root, below+"b/pyvenv.cfg", "")
		got, _ := scanned(t, root, since, ScanOptions{Before: was})
		same(t, "scan", got, below+"a/config", below+"a/hooks/post-checkout", below+"b/bin/python", below+"b/pyvenv.cfg")
	}
}

// What git runs or trusts of its own state, left behind.
func TestScanOfGitState(t *testing.T) {
	root := scanRoot(t)
	since := before(t, root, ".git/HEAD", ".git/config", ".git/objects/x", ".git/refs/x", "bare.git/HEAD", "bare.git/objects/x", "bare.git/refs/x", "bare.git/info/exclude")
	counts := []string{
		".git/rebase-merge/git-rebase-todo", ".git/rebase-apply/0001", ".git/sequencer/opts", ".git/remotes/origin", ".git/branches/x",
		".git/info/attributes", "bare.git/info/attributes", "bare.git/rebase-merge/git-rebase-todo", ".git/worktrees/w/rebase-merge/git-rebase-todo",
	}
	for _, name := range counts {
		put(t, root, name, "exec evil\n")
	}
	for _, name := range []string{".git/info/exclude", ".git/ORIG_HEAD", ".git/logs/HEAD", ".git/COMMIT_EDITMSG", ".git/worktrees/w/HEAD"} {
		put(t, root, name, "")
	}
	put(t, root, ".git/worktrees/w/commondir", "../..")
	counts = append(counts, ".git/worktrees/w/commondir")
	got, whys := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, counts...)
	if why := whys[".git/rebase-merge/git-rebase-todo"]; !strings.Contains(why, "rebase --continue") {
		t.Errorf("why: %q", why)
	}
	for i := range 20 {
		put(t, root, fmt.Sprintf(".git/rebase-merge/f%d", i), "")
	}
	if got, _ = scanned(t, root, since, ScanOptions{}); !slices.Contains(got, ".git/rebase-merge") {
		t.Errorf("got %q", got)
	}
	link := filepath.Join(root, ".git/rebase-merge")
	if err := errors.Join(os.RemoveAll(link), os.Symlink("../elsewhere", link)); err != nil {
		t.Fatal(err)
	}
	if got, _ = scanned(t, root, since, ScanOptions{}); !slices.Contains(got, ".git/rebase-merge") {
		t.Errorf("got %q", got)
	}
}
