//go:build unix

package guards

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// Names are reserved by files where git could not bear directories, and only
// there: a directory is what git does not list and does not commit.
func TestWhatReservesAName(t *testing.T) {
	s, root := workspace(t)
	for name, text := range map[string]string{
		"bare.git/HEAD": "", "plain/file": "", ".git/modules/libs/one/HEAD": "", "gone/.git/HEAD": "",
		"sub/.git":                      "gitdir: ../.git/modules/sub\n",
		".git/modules/sub/HEAD":         "",
		".git/modules/sub/config":       "[core]\n\tworktree = ../../../sub\n",
		".git/modules/elsewhere/HEAD":   "",
		".git/modules/elsewhere/config": "[core]\n\tWorkTree = \"../../../plain\" \n",
		"inline/.git/HEAD":              "",
		"inline/.git/config":            "# worktree = /\n[core] worktree = " + root,
		"usual/.git/HEAD":               "",
		"usual/.git/config":             "[core]\n\tbare = false\n\tworktree = ..\n",
		"gone/.git/config":              "[core]\n\tworktree = ../../nowhere\n",
	} {
		put(t, root, name, text)
	}
	before := listing(t, root)
	const dir = "a directory"
	want := map[string]string{
		".git/commondir": ".\n", ".git/config": "", ".git/config.worktree": "", ".git/config.local": "",
		"bare.git/commondir": ".\n", "bare.git/config": "", ".git/modules/libs/one/commondir": ".\n",
		"bare.git/hooks": dir, ".git/modules/libs/one/hooks": dir, ".git/info/hooks": dir,
		"plain/commondir": dir, "plain/config": dir, "plain/.git": dir, "new/.git/commondir": dir,
		".gitconfig": "", "plain/shared.gitconfig": "", ".envrc": dir, ".mcp.json": dir, ".vscode": dir, "configure": dir,
		// Beside a commondir git overlooks core.worktree.
		".git/modules/sub/commondir": ".\n", "usual/.git/commondir": ".\n", "gone/.git/commondir": ".\n",
		".git/modules/elsewhere/commondir": dir, "inline/.git/commondir": dir,
	}
	var names []string
	for name := range want {
		names = append(names, name)
	}
	for _, s := range []Store{s, {Dir: s.Dir, named: true}} {
		h := hold(t, s, root, names...)
		if len(h.Paths()) != len(want) {
			t.Errorf("reserved %d of %d", len(h.Paths()), len(want))
		}
		for name, text := range want {
			got, err := os.ReadFile(filepath.Join(root, name))
			if errors.Is(err, unix.EISDIR) {
				got, err = []byte(dir), nil
			}
			if string(got) != text || err != nil {
				t.Errorf("%s: %q, %v; want %q", name, got, err, text)
			}
		}
		release(t, h)
		clean(t, s, root, before)
	}
}

// The umask does not keep others from reading what their git needs.
func TestReservedFilesAreReadableAndNotWritable(t *testing.T) {
	defer unix.Umask(unix.Umask(0o077))
	s, root := workspace(t)
	for _, s.named = range []bool{false, true} {
		h := hold(t, s, root, ".git/commondir")
		if st, err := os.Lstat(root + "/.git/commondir"); err != nil || st.Mode() != 0o444 {
			t.Errorf("%v %v", st.Mode(), err)
		}
		release(t, h)
	}
}

func TestChangedFilesAreKept(t *testing.T) {
	replace := func(p, text string) error {
		return errors.Join(os.WriteFile(p+".lock", []byte(text), 0o644), os.Rename(p+".lock", p))
	}
	for what, change := range map[string]func(p string) error{
		"written":        func(p string) error { return errors.Join(os.Chmod(p, 0o644), os.WriteFile(p, []byte("..\n"), 0)) },
		"longer":         func(p string) error { return errors.Join(os.Chmod(p, 0o644), os.WriteFile(p, []byte(".\n\n"), 0)) },
		"cut":            func(p string) error { return os.Truncate(p, 0) },
		"linked":         func(p string) error { return os.Link(p, p+".copy") },
		"replaced":       func(p string) error { return replace(p, "..\n") },
		"replaced alike": func(p string) error { return replace(p, ".\n") },
		"by a link":      func(p string) error { return errors.Join(os.Remove(p), os.Symlink("x", p)) },
		"by a pipe":      func(p string) error { return errors.Join(os.Remove(p), unix.Mkfifo(p, 0o600)) },
		"by a directory": func(p string) error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o755)) },
	} {
		for _, crash := range []bool{false, true} {
			s, root := workspace(t)
			p := filepath.Join(root, ".git/commondir")
			h := hold(t, s, root, ".git/commondir", ".git/config.worktree")
			os.Chmod(p, 0o644) // for what an ordinary user may truncate
			if err := change(p); err != nil {
				t.Fatal(what, err)
			}
			later := hold(t, s, root, ".git/commondir") // guards what is there
			if f := later.Existing(); len(f) != 1 || f[0].Path != p || len(later.Paths()) != 0 {
				t.Errorf("%s: existing %v, reserved %v", what, f, later.Paths())
			}
			release(t, later)
			if crash {
				h.close()
				if got := relative(root, s.Sweep()); !slices.Equal(got, []string{".git/config.worktree"}) {
					t.Errorf("%s: swept %q", what, got)
				}
			} else if kept := release(t, h); !slices.Equal(kept, []string{p}) {
				t.Errorf("%s: kept %q", what, kept)
			}
			if _, err := os.Lstat(p); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if state := listing(t, s.Dir); len(state) > 0 {
				t.Errorf("%s: left in the store: %q", what, state)
			}
		}
	}
}

// What is there already is guarded as it is, and nobody's to remove.
func TestExistingFilesAreLeft(t *testing.T) {
	s, root := workspace(t)
	put(t, root, ".git/commondir", ".\n")
	put(t, root, ".git/config", "[core]\n")
	if err := unix.Mkfifo(root+"/.git/config.worktree", 0o600); err != nil {
		t.Fatal(err)
	}
	before := listing(t, root)
	h := hold(t, s, root, ".git/commondir", ".git/config", ".git/config.worktree", ".git/commondir/below")
	if len(h.Paths()) != 0 || len(h.Existing()) != 3 {
		t.Errorf("reserved %v, existing %v", h.Paths(), h.Existing())
	}
	if kept := release(t, h); kept != nil {
		t.Errorf("kept %q", kept)
	}
	clean(t, s, root, before)
}

func TestAFileCoversThoseBelowIt(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	names := []string{".git/config", ".git/config/x", ".git/commondir/y/z", ".git/commondir"}
	first, second := hold(t, s, root, names...), hold(t, s, root, names...)
	for _, h := range []*Hold{first, second} {
		if got := relative(root, h.Paths()); !slices.Equal(got, []string{".git/commondir", ".git/config"}) || len(h.Existing()) != 0 {
			t.Errorf("reserved %q, existing %v", got, h.Existing())
		}
	}
	release(t, first)
	release(t, second)
	clean(t, s, root, before)
}

// Another user's engine relies on it: it stays until that one is done.
func TestAnotherStoresFileIsLeft(t *testing.T) {
	s1, root := workspace(t)
	s2 := Store{Dir: filepath.Join(t.TempDir(), "other")}
	before := listing(t, root)
	a := hold(t, s1, root, ".git/commondir")
	b := hold(t, s2, root, ".git/commondir")
	if len(b.Paths()) != 0 || len(b.Existing()) != 1 {
		t.Errorf("reserved %v, existing %v", b.Paths(), b.Existing())
	}
	if kept := release(t, a); len(kept) != 1 {
		t.Errorf("kept %q", kept)
	}
	if _, err := os.Lstat(root + "/.git/commondir"); err != nil {
		t.Fatal(err)
	}
	release(t, b)
	if got := s1.Sweep(); len(got) != 1 {
		t.Errorf("swept %q", got)
	}
	clean(t, s1, root, before)
}

// The instants at which an engine that gives a file its name can be killed.
func TestSweepKnowsUnfinishedFiles(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	const name, temp = ".git/commondir", ".git/" + tempPrefix + "abc"
	for what, c := range map[string]struct{ noted, temp, name bool }{
		"announced":        {},
		"made":             {temp: true},
		"noted":            {noted: true, temp: true},
		"noted, nameless":  {noted: true},
		"linked":           {noted: true, temp: true, name: true},
		"renamed":          {noted: true, name: true},
		"not ours by name": {temp: true, name: true},
	} {
		fd, n, err := openRoot(root)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		put(t, root, temp, ".\n")
		var st unix.Stat_t
		made, err := identify(unix.AT_FDCWD, filepath.Join(root, temp))
		if err := errors.Join(err, unix.Stat(root, &st)); err != nil {
			t.Fatal(err)
		}
		lines := appendTemp(headLine(root), temp)
		if c.noted {
			lines = appendMade(lines, name, record{made.identity, form{true, ".\n"}})
		}
		if c.name {
			err = os.Link(filepath.Join(root, temp), filepath.Join(root, name))
		}
		if !c.temp {
			err = errors.Join(err, os.Remove(filepath.Join(root, temp)))
		}
		if err != nil {
			t.Fatal(err)
		}
		release(t, hold(t, s, root))
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, s.Dir, keyOf(n)+".journal", string(lines))
		got := relative(root, s.Sweep())
		if c.noted && c.name != slices.Equal(got, []string{name}) || !c.noted && len(got) > 0 {
			t.Errorf("%s: swept %q", what, got)
		}
		if c.name && !c.noted { // the user's, by any other reckoning
			if err := os.Remove(filepath.Join(root, name)); err != nil {
				t.Error(what, err)
			}
		}
		clean(t, s, root, before)
	}
}

func TestNothingIsReplaced(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "from", "new")
	put(t, dir, "to", "old")
	fd, err := unix.Open(dir, dirFlags, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, f := range []func(int, string, string) error{rename, renameByLink} {
		if err := f(fd, "from", "to"); !errors.Is(err, fs.ErrExist) {
			t.Errorf("got %v", err)
		}
		if text, _ := os.ReadFile(dir + "/to"); string(text) != "old" {
			t.Errorf("replaced by %q", text)
		}
		if err := f(fd, "from", "free"); err != nil {
			t.Error(err)
		}
		if got := listing(t, dir); !slices.Equal(got, []string{"free", "to"}) {
			t.Errorf("left %q", got)
		}
		if err := os.Rename(dir+"/free", dir+"/from"); err != nil {
			t.Fatal(err)
		}
	}
}
