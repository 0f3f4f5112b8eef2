//go:build unix

package guards

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// links makes links in root, in pairs of name and target.
func links(t *testing.T, root string, pairs ...string) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		name := filepath.Join(root, pairs[i])
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.Symlink(pairs[i+1], name)); err != nil {
			t.Fatal(err)
		}
	}
}

// program is a file that can be started.
func program(t *testing.T, root, name string) {
	t.Helper()
	put(t, root, name, "#!/bin/sh\n")
	if err := os.Chmod(filepath.Join(root, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// A link is what a directory in its place would be, wherever it leads.
func TestScanListsLinksForDirectories(t *testing.T) {
	root := scanRoot(t)
	before(t, root, "src/evil/tool", "app/venv/pyvenv.cfg", "deps/.bin/x", "build/bazel", "share/bin/x", "repo/config.toml", ".jj/x", "node_modules/p/proj/Makefile")
	program(t, root, "share/bin/x")
	since := settle(t, root)
	links(t, root, "node_modules/.bin", "../src/evil", "scripts", "src/evil", "app/venv/bin", "../../src/evil", "lib/site-packages", "../src/evil",
		"node_modules/tools", "../build", "tools", "build", ".local", "share", ".jj/repo", "../repo", "proj", "node_modules/p/proj",
		// These are ordinary.
		"sub/loop", ".", "evil", "src/evil", "dangling", "src/none", "node_modules/pkg", "../build")
	got, whys := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "node_modules/.bin", "scripts", "app/venv/bin", "lib/site-packages", "build/bazel", "share/bin/x", "repo/config.toml", "proj")
	for name, why := range map[string]string{"scripts": whyCommand, "app/venv/bin": whyVenv, "lib/site-packages": whySitePath, "proj": whyUnseen, "node_modules/.bin": "npx and npm's scripts run it"} {
		if whys[name] != why {
			t.Errorf("%s: %q", name, whys[name])
		}
	}
	got, _ = scanned(t, root, time.Now().Add(time.Minute), ScanOptions{})
	same(t, "a later scan", got)
}

// What a link that was there before leads to is looked at as what it stands for.
func TestScanLooksThroughLinks(t *testing.T) {
	root := scanRoot(t)
	before(t, root, "src/run/old", "src/py/python", "venv/pyvenv.cfg", "hooks/old", ".git/HEAD", "js/main.js", "js/same.js", "conf/envrc", "editor/a/b", "agents.txt", "deps/x",
		"share/x", "ci/workflows/old.yml", "guarded/x")
	links(t, root, "scripts", "src/run", "venv/bin", filepath.Join(root, "src/py"), ".git/hooks", "../hooks", "node_modules/.bin/tool", "../../js/main.js",
		"node_modules/.bin/same", "../../js/same.js", ".envrc", "conf/step", "conf/step", "envrc", ".vscode", "editor", "CLAUDE.md", "agents.txt", "sub/node_modules", "../deps",
		".local", "share", ".github", "ci", ".idea/all", "../..", ".idea/round", "../.idea", ".zed/a", "b", ".zed/b", "a", "sub/.vscode", "../guarded", "bin", "../ws/src/run")
	since := settle(t, root)
	was := ReadDirectories(root)
	counts := []string{"src/run/new", "src/py/new", "hooks/pre-commit", "js/main.js", "conf/envrc", "editor/a/b", "agents.txt", "deps/.bin/x", "share/bin/x", "ci/workflows/new.yml"}
	for _, name := range append(counts, "guarded/x", "hooks/x.sample", "deps/new", "share/new") {
		program(t, root, name)
	}
	o := ScanOptions{Guarded: []string{root + "/guarded"}, Before: was}
	got, whys := scanned(t, root, since, o)
	same(t, "scan", got, counts...)
	for name, why := range map[string]string{"src/run/new": whyCommand, "src/py/new": whyVenv, "hooks/pre-commit": whyGitHook, "deps/.bin/x": "npx and npm's scripts run it"} {
		if whys[name] != why {
			t.Errorf("%s: %q", name, whys[name])
		}
	}
	got, _ = scanned(t, root, time.Now().Add(time.Minute), o)
	same(t, "a later scan", got)
}

// What an old link leads to was put there, or is another place than before.
func TestScanOfWhatCameBehindALink(t *testing.T) {
	root := scanRoot(t)
	before(t, root, "tools/run/x", "old/evil", "other/up/evil", "a/run/x", "b/run/evil")
	for _, name := range []string{"old/evil", "other/up/evil", "b/run/evil"} {
		program(t, root, name)
	}
	links(t, root, "scripts", "tools/run", "bin", "step/run", "step", "a")
	since := settle(t, root)
	was := ReadDirectories(root)
	if err := errors.Join(os.RemoveAll(root+"/tools/run"), os.Rename(root+"/old", root+"/tools/run"), os.Remove(root+"/step")); err != nil {
		t.Fatal(err)
	}
	links(t, root, "step", "b")
	got, whys := scanned(t, root, since, ScanOptions{Before: was})
	same(t, "scan", got, "tools/run/evil", "b/run/evil")
	if why := whys["b/run/evil"]; why != whyCommand+"; "+whyMoved {
		t.Errorf("why: %q", why)
	}
}

// Links lead out in ways that do not show in their names.
func TestScanOfLinksThatLeadOut(t *testing.T) {
	root := scanRoot(t)
	put(t, filepath.Dir(root), "outside/x", "")
	before(t, root, "sub/deep/x")
	links(t, root, "here", ".", "sub/deep/ext", "../../../outside")
	since := settle(t, root)
	links(t, root, "a", "here/../outside/x", "b", "sub/deep/ext/x", "c", "/proc/self/root/home/u/.bashrc", "d", "/dev/fd/../root/home/u/.bashrc",
		"e", "/usr/../home/u/.bashrc", "f", "none/../../outside", "ok", "sub/deep/../../sub", "sys", "/usr/share/x", "self", "../ws/sub", "loop", "loop")
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "scan", got, "a", "b", "c", "d", "e", "f")
}

// What makes links in ordinary work is listed as what it makes, and nothing when it
// was there before.
func TestScanOfOrdinaryLinks(t *testing.T) {
	make := func(root string) {
		put(t, root, "venv/pyvenv.cfg", "")
		put(t, root, "node_modules/ts/bin/tsc", "")
		put(t, root, "node_modules/.pnpm/a/node_modules/a/x", "")
		put(t, root, "packages/lib/index.js", "")
		links(t, root, "venv/bin/python", "python3", "venv/bin/python3", "/usr/bin/python3", "venv/lib64", "lib", "node_modules/.bin/tsc", "../ts/bin/tsc",
			"node_modules/a", ".pnpm/a/node_modules/a", "node_modules/lib", "../packages/lib", "latest", "packages/lib")
		put(t, root, "venv/lib/x", "")
	}
	root := scanRoot(t)
	since := settle(t, root)
	make(root)
	got, _ := scanned(t, root, since, ScanOptions{})
	same(t, "new", got, "venv/pyvenv.cfg", "venv/bin/python", "venv/bin/python3", "node_modules/.bin/tsc")
	since = settle(t, root)
	put(t, root, "packages/lib/index.js", "new")
	put(t, root, "venv/lib/y", "new")
	got, _ = scanned(t, root, since, ScanOptions{})
	same(t, "old", got)
}

// Links in circles, to each other and with long ways end with the budget.
func TestScanOfHostileLinks(t *testing.T) {
	root := scanRoot(t)
	before(t, root, "d/x", "a/.github/x")
	last, long := "d", strings.Repeat("d/../", 500)
	for i := range 35 {
		links(t, root, fmt.Sprintf("hop%d", i), long+last)
		last = fmt.Sprintf("hop%d", i)
	}
	for i := range 2000 {
		links(t, root, fmt.Sprintf(".vscode/l%d", i), "../"+last, fmt.Sprintf("node_modules/.bin/l%d", i), "../.."+strings.Repeat("/.vscode/..", i%3))
	}
	links(t, root, "a/.github/.github", "..", "a/.github/workflows", "..", "a/tools", ".", "a/.config", "../a", "a/project", "..", ".local", ".", "bin", ".")
	since := settle(t, root)
	for _, since := range []time.Time{since, since.Add(-time.Hour)} {
		start := time.Now()
		_, complete, err := Scan(t.Context(), root, since, ScanOptions{Budget: 20 * time.Millisecond})
		if took := time.Since(start); err != nil || complete || took > 2*time.Second {
			t.Errorf("%v after %v, complete: %v", err, took, complete)
		}
	}
}
