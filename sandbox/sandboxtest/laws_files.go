package sandboxtest

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func filesLaws() []law {
	return []law{
		{"files make the round trip", filesRoundTrip},
		{"a file appears whole or not at all", filesAtomic},
		{"a file keeps its permissions", filesPermissions},
		{"what is missing is fs.ErrNotExist", filesMissing},
		{"a symbolic link is resolved once and then refused", filesLinks},
		{"what is no regular file is refused without blocking", filesIrregular},
		{"directories are listed, made, moved and removed", filesDirectories},
		{"removing a tree follows no link", filesRemoveAll},
		{"files and processes see the same", filesSame},
	}
}

// read returns a whole file.
func (b *bench) read(box sandbox.Sandbox, name string) (string, error) {
	f, err := box.Files().Open(b.Context(), name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	return string(content), err
}

func filesRoundTrip(b *bench) {
	box := b.box()
	for _, content := range []string{"", "x", "a\nb", "\x00\xff\r\n", strings.Repeat("0123456789abcdef", 200_000)} {
		name := b.put(box, "a file with 'odd' name\n", content, 0)
		if got, err := b.read(box, name); err != nil || got != content {
			b.Errorf("%d bytes were read of %d: %v", len(got), len(content), err)
		}
		f, err := box.Files().Open(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		st, err := f.Stat()
		if err != nil || st.Size() != int64(len(content)) || !st.Mode().IsRegular() {
			b.Errorf("Stat: %v, %v", st, err)
		}
		if len(content) > 10 {
			tail := make([]byte, 10)
			if n, err := f.ReadAt(tail, int64(len(content)-10)); n != 10 || (err != nil && err != io.EOF) || string(tail) != content[len(content)-10:] {
				b.Errorf("ReadAt: %q, %v", tail[:n], err)
			}
			if at, err := f.Seek(-10, io.SeekEnd); err != nil || at != int64(len(content)-10) {
				b.Errorf("Seek: %d, %v", at, err)
			}
			if got, err := io.ReadAll(f); err != nil || string(got) != content[len(content)-10:] {
				b.Errorf("after Seek: %q, %v", got, err)
			}
		}
		if err := f.Close(); err != nil {
			b.Error(err)
		}
	}
}

func filesAtomic(b *bench) {
	box := b.box()
	name := b.put(box, "dir/file", "old", 0o600)
	dir := path.Dir(name)
	f, err := box.Files().Create(b.Context(), name, sandbox.CreateOptions{Sync: true})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(f, "new"); err != nil {
		b.Fatal(err)
	}
	if got, err := b.read(box, name); got != "old" {
		b.Errorf("before Commit: %q, %v", got, err)
	}
	if err := f.Commit(); err != nil {
		b.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		b.Errorf("Discard after Commit: %v", err)
	}
	if got, err := b.read(box, name); got != "new" {
		b.Errorf("after Commit: %q, %v", got, err)
	}
	f, err = box.Files().Create(b.Context(), name, sandbox.CreateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.WriteString(f, "never"); err != nil {
		b.Fatal(err)
	}
	if err := f.Discard(); err != nil {
		b.Errorf("Discard: %v", err)
	}
	if got, err := b.read(box, name); got != "new" {
		b.Errorf("after Discard: %q, %v", got, err)
	}
	f, err = box.Files().Create(b.Context(), name, sandbox.CreateOptions{New: true})
	if err == nil {
		if err = f.Commit(); err == nil {
			b.Error("New replaced a file")
		}
		f.Discard()
	}
	if !errors.Is(err, fs.ErrExist) {
		b.Errorf("New where a file is: %v, want fs.ErrExist", err)
	}
	// Of many writers each makes a whole file, and nothing is left over.
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			f, err := box.Files().Create(b.Context(), name, sandbox.CreateOptions{})
			if err != nil {
				b.Error(err)
				return
			}
			defer f.Discard()
			if _, err := io.WriteString(f, strings.Repeat(string(rune('a'+i)), 100_000)); err != nil {
				b.Error(err)
			}
			if err := f.Commit(); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	if got, err := b.read(box, name); err != nil || len(got) != 100_000 || strings.Count(got, got[:1]) != 100_000 {
		b.Errorf("after many writers: %d bytes, %v", len(got), err)
	}
	if got := names(b, box, dir); !slices.Equal(got, []string{"file"}) {
		b.Errorf("left over: %q", got)
	}
}

func filesPermissions(b *bench) {
	box := b.box()
	for _, perm := range []fs.FileMode{0o600, 0o640, 0o644, 0o700, 0o755} {
		name := b.put(box, "f"+perm.String(), "1", perm)
		st, err := box.Files().Stat(b.Context(), name)
		if err != nil {
			b.Fatal(err)
		}
		if st.Mode().Perm()&^perm != 0 || st.Mode().Perm()&0o700 != perm&0o700 {
			b.Errorf("a new file that asked for %v has %v", perm, st.Mode())
		}
		b.output(box, "chmod", "0751", name)
		b.put(box, "f"+perm.String(), "2", perm)
		if st, err := box.Files().Stat(b.Context(), name); err != nil || st.Mode().Perm() != 0o751 {
			b.Errorf("a file of mode 0751 has %v after it was written again, %v", st.Mode(), err)
		}
	}
}

func filesMissing(b *bench) {
	box := b.box()
	ctx, f := b.Context(), box.Files()
	dir := box.Info().ScratchDir
	missing := path.Join(dir, "missing")
	for what, err := range map[string]error{
		"Open":    second(f.Open(ctx, missing)),
		"Stat":    second(f.Stat(ctx, missing)),
		"ReadDir": second(f.ReadDir(ctx, missing)),
		"Mkdir":   f.Mkdir(ctx, path.Join(missing, "sub"), 0o700),
		"Rename":  f.Rename(ctx, missing, missing+"2"),
		"Remove":  f.Remove(ctx, missing),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("%s of what is missing: %v, want fs.ErrNotExist", what, err)
		}
	}
	if err := f.RemoveAll(ctx, missing); err != nil {
		b.Errorf("RemoveAll of what is missing: %v", err)
	}
	if real, err := f.Resolve(ctx, path.Join(missing, "a", "..", "b")); err != nil || real != path.Join(missing, "b") {
		b.Errorf("Resolve of what is missing: %q, %v", real, err)
	}
	if _, err := f.Open(ctx, "relative"); err == nil {
		b.Error("a relative name was opened")
	}
	if _, err := f.Open(ctx, dir+"/a\x00b"); err == nil {
		b.Error("a name with NUL was opened")
	}
	if _, err := f.Open(ctx, dir+"/"+strings.Repeat("x", 5000)); err == nil {
		b.Error("a name of 5000 bytes was opened")
	}
}

func second[T any](_ T, err error) error { return err }

func filesLinks(b *bench) {
	box := b.box()
	ctx, f := b.Context(), box.Files()
	dir := box.Info().ScratchDir
	target := b.put(box, "real/target", "secret", 0o600)
	b.output(box, sh(`cd "$1" && ln -s target real/link && ln -s real dirlink && ln -s real/nothing dangling && ln -s loop loop`, dir)...)
	link, below, dangling := path.Join(dir, "real/link"), path.Join(dir, "dirlink/target"), path.Join(dir, "dangling")
	for name, want := range map[string]string{link: target, below: target, dangling: path.Join(dir, "real/nothing")} {
		if got, err := f.Resolve(ctx, name); err != nil || got != want {
			b.Errorf("Resolve %s: %q, %v, want %q", name, got, err, want)
		}
	}
	if _, err := f.Resolve(ctx, path.Join(dir, "loop")); err == nil {
		b.Error("a loop was resolved")
	}
	create := func(name string) error {
		a, err := f.Create(ctx, name, sandbox.CreateOptions{})
		if err != nil {
			return err
		}
		defer a.Discard()
		return a.Commit()
	}
	for what, err := range map[string]error{
		"Open a link":               second(f.Open(ctx, link)),
		"Open below a link":         second(f.Open(ctx, below)),
		"Create on a link":          create(link),
		"Create below a link":       create(path.Join(dir, "dirlink/new")),
		"Create on a dangling link": create(dangling),
		"ReadDir of a link":         second(f.ReadDir(ctx, path.Join(dir, "dirlink"))),
		"Stat below a link":         second(f.Stat(ctx, below)),
		"Mkdir below a link":        f.Mkdir(ctx, path.Join(dir, "dirlink/d"), 0o700),
		"MkdirAll below a link":     f.MkdirAll(ctx, path.Join(dir, "dirlink/d/e"), 0o700),
		"Remove below a link":       f.Remove(ctx, below),
		"RemoveAll below a link":    f.RemoveAll(ctx, below),
		"Rename from below a link":  f.Rename(ctx, below, path.Join(dir, "moved")),
		"Rename to below a link":    f.Rename(ctx, target, path.Join(dir, "dirlink/moved")),
	} {
		if !errors.Is(err, sandbox.ErrSymlink) {
			b.Errorf("%s: %v, want ErrSymlink", what, err)
		}
	}
	if got, err := b.read(box, target); err != nil || got != "secret" {
		b.Errorf("the target is now %q, %v", got, err)
	}
	if got := names(b, box, path.Join(dir, "real")); !slices.Equal(got, []string{"link", "target"}) {
		b.Errorf("beside the target there is %q", got)
	}
	if st, err := f.Stat(ctx, link); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		b.Errorf("Stat of a link: %v, %v", st, err)
	}
	if err := f.Remove(ctx, link); err != nil {
		b.Errorf("Remove of a link itself: %v", err)
	}
	if _, err := b.read(box, target); err != nil {
		b.Errorf("removing a link removed its target: %v", err)
	}
}

func filesIrregular(b *bench) {
	box := b.box()
	ctx, f := b.within(), box.Files()
	dir := box.Info().ScratchDir
	l := b.socket(box)
	fifo := path.Join(dir, "fifo")
	b.output(box, "mkfifo", fifo)
	for _, name := range []string{fifo, l.path, dir, "/dev/zero", "/dev/null"} {
		if _, err := f.Open(ctx, name); !errors.Is(err, sandbox.ErrNotRegular) {
			b.Errorf("Open %s: %v, want ErrNotRegular", name, err)
		}
	}
	for _, name := range []string{fifo, dir} {
		a, err := f.Create(ctx, name, sandbox.CreateOptions{})
		if err == nil {
			if err = a.Commit(); err == nil {
				b.Errorf("%s was replaced by a file", name)
			}
			a.Discard()
		}
	}
	if _, err := f.ReadDir(ctx, fifo); err == nil {
		b.Error("a FIFO was listed")
	}
}

// names lists a directory.
func names(b *bench, box sandbox.Sandbox, dir string) []string {
	b.Helper()
	entries, err := box.Files().ReadDir(b.Context(), dir)
	if err != nil {
		b.Errorf("ReadDir: %v", err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func filesDirectories(b *bench) {
	box := b.box()
	ctx, f := b.Context(), box.Files()
	dir := path.Join(box.Info().ScratchDir, "d")
	if err := f.Mkdir(ctx, dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := f.Mkdir(ctx, dir, 0o755); !errors.Is(err, fs.ErrExist) {
		b.Errorf("Mkdir again: %v, want fs.ErrExist", err)
	}
	deep := path.Join(dir, "x/y/z")
	for range 2 {
		if err := f.MkdirAll(ctx, deep, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	b.put(box, "d/b", "1", 0o600)
	b.put(box, "d/a", "2", 0o600)
	b.put(box, "d/é\n", "3", 0o600)
	if got := names(b, box, dir); !slices.Equal(got, []string{"a", "b", "x", "é\n"}) {
		b.Errorf("listed %q", got)
	}
	if err := f.Rename(ctx, path.Join(dir, "a"), path.Join(dir, "b")); err != nil {
		b.Errorf("Rename: %v", err)
	}
	if got, err := b.read(box, path.Join(dir, "b")); got != "2" {
		b.Errorf("after Rename: %q, %v", got, err)
	}
	if err := f.Rename(ctx, path.Join(dir, "x"), path.Join(dir, "w")); err != nil {
		b.Errorf("Rename of a directory: %v", err)
	}
	if err := f.Remove(ctx, path.Join(dir, "w")); err == nil {
		b.Error("Remove removed a directory that is not empty")
	}
	for _, name := range []string{"w/y/z", "w/y", "w", "b", "é\n"} {
		if err := f.Remove(ctx, path.Join(dir, name)); err != nil {
			b.Errorf("Remove %s: %v", name, err)
		}
	}
	if got := names(b, box, dir); len(got) != 0 {
		b.Errorf("left: %q", got)
	}
}

func filesRemoveAll(b *bench) {
	box := b.box()
	dir := box.Info().ScratchDir
	kept := b.put(box, "outside/kept", "x", 0o600)
	b.output(box, sh(`cd "$1" && mkdir -p tree/a/b && ln -s ../outside tree/link && ln -s ../../outside/kept tree/a/link && echo >tree/a/b/f`, dir)...)
	if err := box.Files().RemoveAll(b.Context(), path.Join(dir, "tree")); err != nil {
		b.Fatal(err)
	}
	if got, err := b.read(box, kept); err != nil || got != "x" {
		b.Errorf("a link was followed out of the tree: %q, %v", got, err)
	}
	if got := names(b, box, dir); slices.Contains(got, "tree") {
		b.Errorf("left: %q", got)
	}
}

func filesSame(b *bench) {
	box := b.box()
	name := b.put(box, "from-outside", "written by Files\n", 0o644)
	if got := b.output(box, "cat", name); got != "written by Files\n" {
		b.Errorf("a process reads %q", got)
	}
	inside := path.Join(box.Info().ScratchDir, "from-inside")
	b.output(box, sh(`echo written by a process >"$1"`, inside)...)
	if got, err := b.read(box, inside); err != nil || got != "written by a process\n" {
		b.Errorf("Files read %q, %v", got, err)
	}
}
