package filestest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// law is one promise.
type law struct {
	name  string
	check func(t *testing.T, f sandbox.Files)
}

// Run tests f against every law, each a subtest. f must reach the files of this
// machine with the rights of this process. skip names laws that f does not
// keep, each with the reason.
func Run(t *testing.T, f sandbox.Files, skip map[string]string) {
	if _, err := f.Stat(t.Context(), "/"); err != nil { // what is started once is started now
		t.Fatal(err)
	}
	for _, l := range append(laws(), systemLaws()...) {
		t.Run(l.name, func(t *testing.T) {
			if why := skip[l.name]; why != "" {
				t.Skip(why)
			}
			l.check(t, f)
		})
	}
}

func laws() []law {
	return []law{
		{"a link in any component is refused", refuseLinks},
		{"names that mean nothing are refused", badNames},
		{"a file appears whole or not at all", create},
		{"modes are kept and given", modes},
		{"a directory is listed", readDir},
	}
}

func refuseLinks(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)
	MustMkdir(t, dir+"/real/sub")
	MustWrite(t, dir+"/real/file", "x")
	MustWrite(t, dir+"/plain", "y")
	MustLink(t, "real", dir+"/link")
	MustLink(t, "real/file", dir+"/flink")
	MustLink(t, "nowhere", dir+"/dangling")
	before := Names(t, dir+"/real")
	create := func(name string) error { return Put(f, name, "evil", sandbox.CreateOptions{}) }
	for what, call := range map[string]func() error{
		"Open below":       func() error { _, err := f.Open(ctx, dir+"/link/file"); return err },
		"Open":             func() error { _, err := f.Open(ctx, dir+"/flink"); return err },
		"Open dangling":    func() error { _, err := f.Open(ctx, dir+"/dangling"); return err },
		"Create below":     func() error { return create(dir + "/link/new") },
		"Create":           func() error { return create(dir + "/flink") },
		"Create dangling":  func() error { return create(dir + "/dangling") },
		"Create new":       func() error { return Put(f, dir+"/flink", "", sandbox.CreateOptions{New: true}) },
		"ReadDir":          func() error { _, err := f.ReadDir(ctx, dir+"/link"); return err },
		"ReadDir below":    func() error { _, err := f.ReadDir(ctx, dir+"/link/sub"); return err },
		"Stat below":       func() error { _, err := f.Stat(ctx, dir+"/link/file"); return err },
		"Mkdir below":      func() error { return f.Mkdir(ctx, dir+"/link/new", 0o755) },
		"MkdirAll":         func() error { return f.MkdirAll(ctx, dir+"/link", 0o755) },
		"MkdirAll below":   func() error { return f.MkdirAll(ctx, dir+"/link/a/b", 0o755) },
		"Rename from":      func() error { return f.Rename(ctx, dir+"/link/file", dir+"/here") },
		"Rename a link":    func() error { return f.Rename(ctx, dir+"/flink", dir+"/here") },
		"Rename into":      func() error { return f.Rename(ctx, dir+"/plain", dir+"/link/file") },
		"Rename to a link": func() error { return f.Rename(ctx, dir+"/plain", dir+"/flink") },
		"Remove below":     func() error { return f.Remove(ctx, dir+"/link/file") },
		"RemoveAll below":  func() error { return f.RemoveAll(ctx, dir+"/link/sub") },
	} {
		if err := call(); !errors.Is(err, sandbox.ErrSymlink) {
			t.Errorf("%s: %v, want ErrSymlink", what, err)
		} else if !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: the error does not name the file: %v", what, err)
		}
	}
	if got := Names(t, dir+"/real"); !slices.Equal(got, before) || Content(t, dir+"/real/file") != "x" {
		t.Errorf("something landed behind a link: %q", got)
	}
	if info, err := f.Stat(ctx, dir+"/flink"); err != nil || info.Mode()&fs.ModeSymlink == 0 || info.Name() != "flink" {
		t.Errorf("Stat of a link: %v, %v", info, err)
	}
	if err := f.Remove(ctx, dir+"/flink"); err != nil {
		t.Errorf("Remove of a link: %v", err)
	}
	if err := f.RemoveAll(ctx, dir+"/link"); err != nil {
		t.Errorf("RemoveAll of a link: %v", err)
	}
	if got := Names(t, dir+"/real"); !slices.Equal(got, before) {
		t.Errorf("removing a link removed what it pointed to: %q", got)
	}
}

func badNames(t *testing.T, f sandbox.Files) {
	dir := TempTree(t)
	MustWrite(t, dir+"/file", "x")
	cancelled, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	for _, tt := range []struct {
		ctx  context.Context
		name string
		want error
	}{
		{context.Background(), "", fs.ErrInvalid},
		{context.Background(), "file", fs.ErrInvalid},
		{context.Background(), dir + "/fi\x00le", fs.ErrInvalid},
		{context.Background(), dir + "/sub/../file", fs.ErrInvalid},
		{context.Background(), dir + "/none", fs.ErrNotExist},
		{context.Background(), dir + "/none/none", fs.ErrNotExist},
		{cancelled, dir + "/file", why},
		{context.Background(), dir + strings.Repeat("/aa", 2000), nil},
		{context.Background(), dir + "/" + strings.Repeat("a", 300), nil},
		{context.Background(), dir + "/file/below", nil},
	} {
		calls := map[string]func() error{
			"Open":    func() error { _, err := f.Open(tt.ctx, tt.name); return err },
			"Stat":    func() error { _, err := f.Stat(tt.ctx, tt.name); return err },
			"ReadDir": func() error { _, err := f.ReadDir(tt.ctx, tt.name); return err },
			"Remove":  func() error { return f.Remove(tt.ctx, tt.name) },
			"Rename":  func() error { return f.Rename(tt.ctx, tt.name, dir+"/other") },
		}
		if !errors.Is(tt.want, fs.ErrNotExist) {
			calls["Create"] = func() error { return Put(f, tt.name, "", sandbox.CreateOptions{}) }
			calls["Mkdir"] = func() error { return f.Mkdir(tt.ctx, tt.name, 0o755) }
		}
		if tt.ctx == cancelled {
			delete(calls, "Create") // put has its own context
		}
		for what, call := range calls {
			if err := call(); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("%s(%.80q) = %v, want %v", what, tt.name, err, tt.want)
			} else if len(err.Error()) > 4500 {
				t.Errorf("%s(%.80q): an error of %d bytes", what, tt.name, len(err.Error()))
			}
		}
	}
	if got := Names(t, dir); !slices.Equal(got, []string{"file"}) {
		t.Errorf("left in the directory: %q", got)
	}
	// Names with needless parts mean the same.
	for _, name := range []string{dir + "//file", dir + "/./file", dir + "/file/"} {
		if _, err := f.Stat(context.Background(), name); err != nil {
			t.Errorf("Stat(%q): %v", name, err)
		}
	}
}

func create(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)

	w, err := f.Create(ctx, dir+"/new", sandbox.CreateOptions{Sync: true})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "hello ")
	if _, err := os.Lstat(dir + "/new"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("visible before Commit")
	}
	io.WriteString(w, "world")
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := w.Discard(); err != nil {
		t.Errorf("Discard after Commit: %v", err)
	}
	if err := w.Commit(); err == nil {
		t.Error("committed twice")
	}
	if got := Content(t, dir+"/new"); got != "hello world" {
		t.Errorf("content %q", got)
	}

	w, err = f.Create(ctx, dir+"/new", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "dropped")
	if err := w.Discard(); err != nil {
		t.Fatal(err)
	}
	if got := Content(t, dir+"/new"); got != "hello world" {
		t.Errorf("Discard changed the file to %q", got)
	}

	if err := Put(f, dir+"/new", "replaced", sandbox.CreateOptions{New: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("New over a file: %v", err)
	}
	if err := Put(f, dir+"/new2", "", sandbox.CreateOptions{New: true, Sync: true}); err != nil {
		t.Errorf("New: %v", err)
	}
	// Taken between Create and Commit.
	w, err = f.Create(ctx, dir+"/late", sandbox.CreateOptions{New: true})
	if err != nil {
		t.Fatal(err)
	}
	MustWrite(t, dir+"/late", "first")
	if err := w.Commit(); !errors.Is(err, fs.ErrExist) || Content(t, dir+"/late") != "first" {
		t.Errorf("New over a late file: %v", err)
	}

	MustMkdir(t, dir+"/d")
	if err := Put(f, dir+"/d", "", sandbox.CreateOptions{}); !errors.Is(err, sandbox.ErrNotRegular) {
		t.Errorf("over a directory: %v", err)
	}
	// A directory that appears after Create.
	w, err = f.Create(ctx, dir+"/turned", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	MustMkdir(t, dir+"/turned")
	if err := w.Commit(); !errors.Is(err, sandbox.ErrNotRegular) {
		t.Errorf("over a late directory: %v", err)
	}
	// A link that appears after Create.
	w, err = f.Create(ctx, dir+"/turned2", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	MustLink(t, "new", dir+"/turned2")
	if err := w.Commit(); !errors.Is(err, sandbox.ErrSymlink) {
		t.Errorf("over a late link: %v", err)
	}
	if got, want := Names(t, dir), []string{"d", "late", "new", "new2", "turned", "turned2"}; !slices.Equal(got, want) {
		t.Errorf("left behind: %q, want %q", got, want)
	}
	if got := Content(t, dir+"/new"); got != "hello world" {
		t.Errorf("content %q", got)
	}
}

func modes(t *testing.T, f sandbox.Files) {
	dir := TempTree(t)
	mode := func(name string) fs.FileMode {
		info, err := os.Lstat(name)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	// What the umask leaves is what it leaves for everybody else.
	for _, perm := range []fs.FileMode{0o666, 0o777, 0o640, 0o600} {
		for _, isNew := range []bool{false, true} {
			ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
			os.Remove(ours)
			os.Remove(theirs)
			if err := Put(f, ours, "", sandbox.CreateOptions{Perm: perm, New: isNew}); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(theirs, nil, perm); err != nil {
				t.Fatal(err)
			}
			if mode(ours) != mode(theirs) {
				t.Errorf("new file %v: mode %v, want %v", perm, mode(ours), mode(theirs))
			}
		}
	}
	for _, perm := range []fs.FileMode{0o600, 0o755, 0o666, 0o640} {
		name := filepath.Join(dir, "kept")
		os.Remove(name)
		MustWrite(t, name, "old")
		if err := os.Chmod(name, perm); err != nil {
			t.Fatal(err)
		}
		want := mode(name)
		if err := Put(f, name, "new", sandbox.CreateOptions{Perm: 0o644}); err != nil {
			t.Fatal(err)
		}
		if mode(name) != want || Content(t, name) != "new" {
			t.Errorf("mode became %v, want %v", mode(name), want)
		}
	}
	ctx := context.Background()
	if err := f.MkdirAll(ctx, dir+"/a/b/c", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.MkdirAll(ctx, dir+"/a/b/c", 0o700); err != nil {
		t.Errorf("MkdirAll of what is there: %v", err)
	}
	if err := f.MkdirAll(ctx, dir+"/kept/x", 0o700); err == nil {
		t.Error("MkdirAll below a file succeeded")
	}
	if err := f.MkdirAll(ctx, dir+"/kept", 0o700); err == nil {
		t.Error("MkdirAll of a file succeeded")
	}
	if err := f.Mkdir(ctx, dir+"/a", 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir of what is there: %v", err)
	}
	if err := f.Mkdir(ctx, "/", 0o700); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Mkdir(/): %v", err)
	}
	if err := f.Remove(ctx, dir+"/a/b"); err == nil {
		t.Error("Remove of a full directory succeeded")
	}
	if err := f.Remove(ctx, dir+"/a/b/c"); err != nil {
		t.Errorf("Remove of an empty directory: %v", err)
	}
	if err := f.Rename(ctx, dir+"/kept", dir+"/a/moved"); err != nil || Content(t, dir+"/a/moved") != "new" {
		t.Errorf("Rename: %v", err)
	}
	if err := f.Rename(ctx, dir+"/a/moved", dir+"/ours"); err != nil || Content(t, dir+"/ours") != "new" {
		t.Errorf("Rename over a file: %v", err)
	}
	if err := f.RemoveAll(ctx, dir+"/nothing/here"); err != nil {
		t.Errorf("RemoveAll of nothing: %v", err)
	}
	if err := f.RemoveAll(ctx, dir+"/a"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("RemoveAll left it")
	}
}

func readDir(t *testing.T, f sandbox.Files) {
	ctx, dir := context.Background(), TempTree(t)
	for _, name := range []string{"b", "a", "Z", "é", ".hidden"} {
		MustWrite(t, filepath.Join(dir, name), name)
	}
	MustMkdir(t, dir+"/sub")
	MustLink(t, "/etc/passwd", dir+"/ln")
	list, err := f.ReadDir(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
		info, err := e.Info()
		if err != nil || info.Mode().Type() != e.Type() || info.Name() != e.Name() {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
	}
	if want := []string{".hidden", "Z", "a", "b", "ln", "sub", "é"}; !slices.Equal(got, want) {
		t.Errorf("ReadDir = %q, want %q", got, want)
	}
	// A directory that becomes a link does not make Info look behind it: it
	// tells what was listed, or refuses.
	MustMkdir(t, dir+"/sub/inner")
	MustMkdir(t, dir+"/elsewhere")
	MustWrite(t, dir+"/elsewhere/inner", "another")
	list, err = f.ReadDir(ctx, dir+"/sub")
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	os.Rename(dir+"/sub", dir+"/away")
	MustLink(t, "elsewhere", dir+"/sub")
	if info, err := list[0].Info(); err == nil && !info.IsDir() || err != nil && !errors.Is(err, sandbox.ErrSymlink) {
		t.Errorf("Info behind a link: %v, %v", info, err)
	}
}
