package filestest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// stage: a new directory with files, of any size, in one step or none; nothing is
// made beside it, and nothing replaced.
func stages(t *testing.T, f sandbox.Files) {
	s, ok := f.(sandbox.Stager)
	if !ok {
		t.Skip("files are made with Create")
	}
	dir := TempTree(t)
	MustMkdir(t, dir+"/here")
	MustWrite(t, dir+"/here/old", "old")
	MustLink(t, dir+"/here", dir+"/link")
	MustLink(t, dir+"/nowhere", dir+"/dangling")
	long := strings.Repeat("0123456789abcdef", 64<<10)
	for name, files := range map[string][]sandbox.StagedFile{
		"/one":  {{Name: "a", Content: "A"}},
		"/two":  {{Name: "a"}, {Name: "ü b", Content: "a\x00\xff"}},
		"/long": {{Name: "a", Content: "A"}, {Name: "b", Content: long}, {Name: "c", Content: "C"}},
	} {
		if _, err := s.Stage(t.Context(), dir+name, files, nil); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if info, err := os.Lstat(dir + name); err != nil || info.Mode() != fs.ModeDir|0o700 {
			t.Errorf("%s is %v, %v", name, info.Mode(), err)
		}
		if got := len(Names(t, dir+name)); got != len(files) {
			t.Errorf("%s has %d files", name, got)
		}
		for _, f := range files {
			at := dir + name + "/" + f.Name
			if info, err := os.Lstat(at); err != nil || info.Mode() != 0o600 || Content(t, at) != f.Content {
				t.Errorf("%s is %v, %v", at, info, err)
			}
		}
	}
	before := fmt.Sprint(Names(t, dir))
	for _, c := range []struct {
		dir, name string
		want      error
	}{
		{"/here", "file", fs.ErrExist},
		{"/here/old", "file", fs.ErrExist},
		{"/link", "file", fs.ErrExist},
		{"/dangling", "file", fs.ErrExist},
		{"/link/sub", "file", sandbox.ErrSymlink},
		{"/missing/sub", "file", fs.ErrNotExist},
		{"/../other", "file", fs.ErrInvalid},
		{"/" + strings.Repeat("long", 64), "file", unix.ENAMETOOLONG},
		{"/new", "sub/file", fs.ErrInvalid},
		{"/new", "..", fs.ErrInvalid},
		{"/new", "", fs.ErrInvalid},
		{"/new", "a\x00b", fs.ErrInvalid},
	} {
		for _, content := range []string{"x", long} {
			files := []sandbox.StagedFile{{Name: "first", Content: content}, {Name: c.name, Content: content}}
			if _, err := s.Stage(t.Context(), dir+c.dir, files, nil); !errors.Is(err, c.want) {
				t.Errorf("%s, %q: %v, want %v", c.dir, c.name, err, c.want)
			}
		}
	}
	twice := []sandbox.StagedFile{{Name: "a", Content: "1"}, {Name: "a", Content: "2"}}
	if _, err := s.Stage(t.Context(), dir+"/twice", twice, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("one name twice: %v", err)
	}
	if _, err := s.Stage(t.Context(), "/", twice[:1], nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("in the first directory: %v", err)
	}
	if _, err := s.Stage(t.Context(), dir+"/none", nil, nil); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("no files: %v", err)
	}
	if got := fmt.Sprint(Names(t, dir)); got != before {
		t.Errorf("there are %s, before %s", got, before)
	}
	if got := fmt.Sprint(Names(t, dir+"/here")); got != "[old]" {
		t.Errorf("there are %s", got)
	}
}

// stage and find: what is looked for by the way, also among what was just made.
func stagesAndFinds(t *testing.T, f sandbox.Files) {
	s, ok := f.(sandbox.Stager)
	if !ok {
		t.Skip("files are made with Create")
	}
	dir := TempTree(t)
	MustMkdir(t, dir+"/here")
	MustWrite(t, dir+"/here/old", "old")
	MustLink(t, dir+"/here", dir+"/link")
	for i, look := range [][]string{
		{dir + "/here/old"}, {dir + "/none", dir + "/link/old"}, {dir + "/none"}, {dir + "/looked-3/a"}, {dir + "/here/old/x", dir + "/here/old"},
		append(slices.Repeat([]string{dir + "/none"}, 90), dir+"/here/old"), {"relative", dir + "/here/old"},
	} {
		for _, content := range []string{"A", strings.Repeat("long", 256<<10)} {
			name := fmt.Sprintf("%s/looked-%d", dir, i)
			found, err := s.Stage(t.Context(), name, []sandbox.StagedFile{{Name: "a", Content: content}}, look)
			want := sandbox.Found{}
			want.Index, want.Real, want.Info, want.Err = sandbox.Find(t.Context(), f, look)
			if err != nil || found.Index != want.Index || found.Real != want.Real || fmt.Sprint(found.Err) != fmt.Sprint(want.Err) ||
				want.Err == nil && found.Info.Size() != want.Info.Size() {
				t.Errorf("%.200q: %+v, %v, want %+v", look, found, err, want)
			}
			if err := f.RemoveAll(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	}
}

// find: at once what name by name would tell.
func finds(t *testing.T, f sandbox.Files) {
	type oneByOne struct{ sandbox.Files }
	ctx, dir := context.Background(), TempTree(t)
	MustWrite(t, dir+"/file", "content")
	MustLink(t, "file", dir+"/link")
	MustLink(t, "none", dir+"/dangling")
	MustLink(t, "loop", dir+"/loop")
	missing := slices.Repeat([]string{dir + "/none", dir + "/none/none", dir + "/dangling"}, 30)
	for _, names := range [][]string{
		{}, {dir + "/file"}, {dir + "/none"}, {dir + "/none", dir + "/link", dir + "/file"}, {dir + "/loop", dir + "/file"},
		{dir + "/none", dir + "/file/x", dir + "/file"}, missing, append(missing, dir+"/file"), {"relative", dir + "/file"},
		{dir + "/none", dir + "/a\x00b"}, append(missing[:20:20], dir+"/link"), {dir + "/none", dir + strings.Repeat("/long", 2000)},
	} {
		i, real, info, err := sandbox.Find(ctx, f, names)
		wantI, wantReal, wantInfo, wantErr := sandbox.Find(ctx, oneByOne{f}, names)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) || errors.Is(err, fs.ErrNotExist) != errors.Is(wantErr, fs.ErrNotExist) {
			t.Errorf("%.200q: %v, want %v", names, err, wantErr)
			continue
		}
		if i != wantI || err == nil && (real != wantReal || info.Name() != wantInfo.Name() || info.Size() != wantInfo.Size() || info.Mode() != wantInfo.Mode()) {
			t.Errorf("%.200q: %d %s %v, want %d %s %v", names, i, real, info, wantI, wantReal, wantInfo)
		}
	}
}
