//go:build unix

package guards

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// usual are the names that a workspace's policy guards, or like them.
var usual = []string{
	".git/commondir", ".git/config.worktree", ".git/hooks", ".envrc", ".vscode", ".idea", ".claude", ".cursor",
	".github/workflows", ".mcp.json", ".bashrc",
}

// inert are those of them that are reserved by files.
var inert = map[string]string{".git/commondir": ".\n", ".git/config.worktree": ""}

// workspace makes a workspace with a repository, and a store.
func workspace(t testing.TB) (Store, string) {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, ".git/HEAD", "ref: refs/heads/main\n")
	put(t, root, ".git/hooks/pre-commit.sample", "")
	return Store{Dir: filepath.Join(t.TempDir(), "state")}, root
}

func put(t testing.TB, root, name, text string) {
	t.Helper()
	name = filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// listing returns everything below root.
func listing(t testing.TB, root string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if rel, _ := filepath.Rel(root, name); rel != "." {
			all = append(all, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func hold(t testing.TB, s Store, root string, names ...string) *Hold {
	t.Helper()
	h, err := s.Hold(t.Context(), root, names)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func release(t testing.TB, h *Hold) []string {
	t.Helper()
	kept, err := h.Release()
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

// clean checks that root is as it was and that the store is empty.
func clean(t testing.TB, s Store, root string, before []string) {
	t.Helper()
	if now := listing(t, root); !slices.Equal(now, before) {
		t.Errorf("the workspace was %q, is %q", before, now)
	}
	if state := listing(t, s.Dir); len(state) > 0 {
		t.Errorf("left in the store: %q", state)
	}
}

func relative(root string, paths []string) []string {
	var all []string
	for _, p := range paths {
		all = append(all, strings.TrimPrefix(p, root+"/"))
	}
	return all
}

func TestHoldReservesWhatIsMissing(t *testing.T) {
	s, root := workspace(t)
	put(t, root, ".envrc", "")
	if err := os.Symlink("/nowhere", filepath.Join(root, ".bashrc")); err != nil {
		t.Fatal(err)
	}
	before := listing(t, root)
	h := hold(t, s, root, usual...)
	want := []string{".claude", ".cursor", ".git/commondir", ".git/config.worktree", ".github/workflows", ".idea", ".mcp.json", ".vscode"}
	if got := relative(root, h.Paths()); !slices.Equal(got, want) {
		t.Errorf("reserved %q, want %q", got, want)
	}
	for _, p := range h.Paths() {
		st, err := os.Lstat(p)
		if err != nil {
			t.Fatal(err)
		}
		if text, isFile := inert[strings.TrimPrefix(p, root+"/")]; isFile {
			if got, err := os.ReadFile(p); err != nil || string(got) != text || st.Mode() != 0o444 {
				t.Errorf("%s: %v, %q, %v", p, st.Mode(), got, err)
			}
			continue
		}
		if e, err := os.ReadDir(p); err != nil || len(e) > 0 {
			t.Errorf("%s is no empty directory: %v %v", p, e, err)
		}
		if st.Mode()&fs.ModeSticky != 0 {
			t.Errorf("%s still bears the mark", p)
		}
	}
	types := map[string]fs.FileMode{}
	for _, f := range h.Existing() {
		types[strings.TrimPrefix(f.Path, root+"/")] = f.Type
	}
	if len(types) != 3 || types[".envrc"] != 0 || types[".git/hooks"] != fs.ModeDir || types[".bashrc"] != fs.ModeSymlink {
		t.Errorf("existing: %v", types)
	}
	if kept := release(t, h); kept != nil {
		t.Errorf("kept %q", kept)
	}
	clean(t, s, root, before)
	if kept, err := h.Release(); kept != nil || err != nil {
		t.Errorf("the second release: %v %v", kept, err)
	}
}

func TestTheLastOneOutCleans(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	a, b := hold(t, s, root, usual...), hold(t, s, root, usual...)
	if !slices.Equal(a.Paths(), b.Paths()) {
		t.Errorf("one reserves %q, the other %q", a.Paths(), b.Paths())
	}
	release(t, a)
	for _, p := range b.Paths() {
		if _, err := os.Lstat(p); err != nil {
			t.Errorf("gone while it is held: %v", err)
		}
	}
	if got := s.Sweep(); got != nil {
		t.Errorf("a sweep took %q from a living session", got)
	}
	release(t, b)
	clean(t, s, root, before)
}

func TestOnlyWhatIsOursAndEmptyIsRemoved(t *testing.T) {
	s, root := workspace(t)
	if err := os.Mkdir(filepath.Join(root, ".cursor"), 0o755); err != nil {
		t.Fatal(err)
	}
	h := hold(t, s, root, ".vscode", ".idea", ".cursor", ".claude", ".github/workflows")
	put(t, root, ".vscode/settings.json", "{}") // by an editor on the host
	put(t, root, ".github/dependabot.yml", "")
	for _, name := range []string{".idea", ".claude"} { // by git clean and somebody after it
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, ".idea"), 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, root, ".claude", "a file")
	kept := relative(root, release(t, h))
	slices.Sort(kept)
	if want := []string{".github", ".vscode"}; !slices.Equal(kept, want) {
		t.Errorf("kept %q, want %q", kept, want)
	}
	for _, name := range []string{".cursor", ".idea", ".claude", ".vscode/settings.json", ".github/dependabot.yml"} {
		if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(filepath.Join(root, ".github/workflows")); err == nil {
		t.Error(".github/workflows is still there")
	}
	if state := listing(t, s.Dir); len(state) > 0 {
		t.Errorf("left in the store: %q", state)
	}
}

func TestALinkInTheWayRefuses(t *testing.T) {
	s, root := workspace(t)
	other := t.TempDir()
	if err := os.Symlink(other, filepath.Join(root, ".github")); err != nil {
		t.Fatal(err)
	}
	before := listing(t, root)
	_, err := s.Hold(t.Context(), root, usual)
	if !errors.Is(err, ErrSymlink) || !strings.Contains(err.Error(), ".github") {
		t.Fatalf("got %v", err)
	}
	clean(t, s, root, before)
	if got := listing(t, other); len(got) > 0 {
		t.Errorf("made behind the link: %q", got)
	}
}

func TestARootBehindALinkIsRefused(t *testing.T) {
	s, root := workspace(t)
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{link, "relative", root + "/../x", root + "/.git/HEAD", root + "/none"} {
		if h, err := s.Hold(t.Context(), bad, usual); err == nil {
			h.Release()
			t.Errorf("held %s", bad)
		}
	}
	for _, bad := range []string{"", ".", "..", "../x", "/x", "a/../b", "a//b", "a/", "a\x00b"} {
		if h, err := s.Hold(t.Context(), root, []string{bad}); err == nil {
			h.Release()
			t.Errorf("held %q", bad)
		}
	}
}

func TestAFileInTheWayIsExisting(t *testing.T) {
	s, root := workspace(t)
	put(t, root, "sub/.git", "gitdir: ../x\n")
	before := listing(t, root)
	h := hold(t, s, root, "sub/.git/hooks", "sub/.git/commondir")
	if f := h.Existing(); len(f) != 1 || f[0].Path != root+"/sub/.git" || f[0].Type != 0 || len(h.Paths()) != 0 {
		t.Errorf("existing %v, reserved %v", f, h.Paths())
	}
	release(t, h)
	clean(t, s, root, before)
}

func TestANameCoversThoseBelowIt(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	names := []string{"new/.git", "new/.git/hooks", "new/.git/config"}
	var all []*Hold
	for range 2 { // the second finds them reserved
		h := hold(t, s, root, names...)
		all = append(all, h)
		if got := relative(root, h.Paths()); !slices.Equal(got, names[:1]) {
			t.Errorf("reserved %q", got)
		}
	}
	for _, h := range all {
		release(t, h)
	}
	clean(t, s, root, before)
}

func TestWhereNothingCanBeMade(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	s, root := workspace(t)
	closed := filepath.Join(root, ".github")
	if err := os.Mkdir(closed, 0o555); err != nil {
		t.Fatal(err)
	}
	h := hold(t, s, root, ".github/workflows", ".vscode")
	defer release(t, h)
	if f := h.Existing(); len(f) != 1 || f[0].Path != closed {
		t.Errorf("a directory that its owner can open again is to be guarded itself: %v", f)
	}
	h2, err := s.Hold(t.Context(), "/", []string{"hermes-exec-test/x"})
	if err != nil {
		t.Fatal(err)
	}
	defer release(t, h2)
	if sk := h2.Skipped(); len(sk) != 1 || !errors.Is(sk[0].Err, fs.ErrPermission) || len(h2.Paths()) != 0 {
		t.Errorf("skipped %v, reserved %v", sk, h2.Paths())
	}
}

func TestTheStoreMustBeOurs(t *testing.T) {
	s, root := workspace(t)
	if err := errors.Join(os.Mkdir(s.Dir, 0o700), os.Chmod(s.Dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Hold(t.Context(), root, usual); err == nil {
		h.Release()
		t.Error("a store that everybody can write was used")
	}
	s.Dir += "-link"
	if err := os.Symlink(t.TempDir(), s.Dir); err != nil {
		t.Fatal(err)
	}
	if h, err := s.Hold(t.Context(), root, usual); err == nil {
		h.Release()
		t.Error("a store behind a link was used")
	}
}

// Two users have two stores: neither removes what the other relies on.
func TestAnotherStoresReservationIsLeft(t *testing.T) {
	s1, root := workspace(t)
	s2 := Store{Dir: filepath.Join(t.TempDir(), "other")}
	before := listing(t, root)
	a := hold(t, s1, root, ".vscode")
	b := hold(t, s2, root, ".vscode")
	if len(b.Paths()) != 0 || len(b.Existing()) != 1 {
		t.Errorf("reserved %v, existing %v", b.Paths(), b.Existing())
	}
	if kept := release(t, a); len(kept) != 1 {
		t.Errorf("kept %q", kept)
	}
	if _, err := os.Lstat(root + "/.vscode"); err != nil {
		t.Fatal(err)
	}
	release(t, b)
	if got := s1.Sweep(); len(got) != 1 {
		t.Errorf("swept %q", got)
	}
	clean(t, s1, root, before)
}

// A copy of the lock, as a box has one, keeps the reservations of a dead engine.
func TestTheLockOutlivesTheEngine(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	h := hold(t, s, root, ".vscode")
	fd, err := unix.FcntlInt(h.Lock().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	h.unpin() // what the kernel does to a killed engine
	h.file.Close()
	unix.Close(h.root)
	unix.Close(h.dir)
	if got := s.Sweep(); got != nil {
		t.Errorf("swept %q while the box lives", got)
	}
	unix.Close(fd)
	if got := relative(root, s.Sweep()); !slices.Equal(got, []string{".vscode"}) {
		t.Errorf("swept %q", got)
	}
	clean(t, s, root, before)
}

func TestSweepKnowsWhatWasNotYetNoted(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	release(t, hold(t, s, root))
	fd, n, err := openRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	// A crash between mkdir and the note, and a torn line.
	lines := append(appendWant(appendWant(headLine(root), ".vscode"), ".idea"), `= 12 3`...)
	put(t, s.Dir, keyOf(n)+".journal", string(lines))
	if err := unix.Mkdir(root+"/.vscode", 0o755|unix.S_ISVTX); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/.idea", 0o755); err != nil { // the user's
		t.Fatal(err)
	}
	if got := relative(root, s.Sweep()); !slices.Equal(got, []string{".vscode"}) {
		t.Errorf("swept %q", got)
	}
	if err := os.Remove(root + "/.idea"); err != nil {
		t.Error(err)
	}
	clean(t, s, root, before)

	put(t, s.Dir, keyOf(n)+".journal", "junk\n")
	h := hold(t, s, root, ".vscode") // a broken journal does not stand in the way
	release(t, h)
	put(t, s.Dir, keyOf(n)+".journal", "junk\n")
	s.Sweep()
	clean(t, s, root, before)
}

func TestManyHoldAndReleaseAtOnce(t *testing.T) {
	s, root := workspace(t)
	before := listing(t, root)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				h, err := s.Hold(context.Background(), root, usual)
				if err != nil {
					t.Error(err)
					return
				}
				for _, p := range h.Paths() {
					if _, err := os.Lstat(p); err != nil {
						t.Error(err)
					}
				}
				if kept, err := h.Release(); kept != nil || err != nil {
					t.Errorf("kept %v, %v", kept, err)
				}
				s.Sweep()
			}
		})
	}
	wg.Wait()
	clean(t, s, root, before)
}

func TestHoldEndsWithItsContext(t *testing.T) {
	s, root := workspace(t)
	h := hold(t, s, root, ".vscode")
	unlock, err := h.gate(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := s.Hold(ctx, root, usual); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v", err)
	}
	unlock()
	release(t, h)
}
