package walk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func place(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return filepath.ToSlash(dir)
}

// names walks and returns what was seen, sorted.
func names(t *testing.T, root string, opt Options) []string {
	t.Helper()
	var mu sync.Mutex
	var seen []string
	stats, err := Walk(t.Context(), Disk{}, root, opt, func(e Entry) error {
		mu.Lock()
		defer mu.Unlock()
		if e.Full != join(root, e.Path) {
			t.Errorf("entry %q is at %q", e.Path, e.Full)
		}
		seen = append(seen, e.Path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if stats.Files != len(seen) {
		t.Errorf("counted %d files, saw %d", stats.Files, len(seen))
	}
	slices.Sort(seen)
	return seen
}

func TestWalkOptions(t *testing.T) {
	dir := place(t)
	write(t, dir, map[string]string{
		".git/config": "", ".gitignore": "*.log\n", "a.go": "", "b.log": "", ".h": "", "d/c.go": "", "d/.i/x": "", "d/e/f/g.go": "",
		"d/.git/HEAD": "", "d/h.log": "", "l": "-> a.go", "m": "-> d",
	})
	for name, c := range map[string]struct {
		opt  Options
		want string
	}{
		"default":  {Options{}, "a.go d/c.go d/e/f/g.go d/h.log"},
		"hidden":   {Options{Hidden: true}, ".gitignore .h a.go d/.i/x d/c.go d/e/f/g.go d/h.log"},
		"noignore": {Options{NoIgnore: true}, "a.go b.log d/c.go d/e/f/g.go d/h.log"},
		"depth":    {Options{MaxDepth: 1}, "a.go"},
		"depth 2":  {Options{MaxDepth: 2}, "a.go d/c.go d/h.log"},
		"skip": {Options{Skip: func(name string, dir bool) bool {
			return dir && strings.HasSuffix(name, "/e") || strings.HasSuffix(name, "/a.go")
		}}, "d/c.go d/h.log"},
		"one":  {Options{Workers: 1}, "a.go d/c.go d/e/f/g.go d/h.log"},
		"many": {Options{Workers: 50}, "a.go d/c.go d/e/f/g.go d/h.log"},
	} {
		if got := strings.Join(names(t, dir, c.opt), " "); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// One large directory is shared between workers, each file seen once.
func TestWalkLargeDirectory(t *testing.T) {
	dir := place(t)
	var want []string
	for i := range 1000 {
		name := strings.Repeat("x", i%7) + "-" + strings.Repeat("y", i/7)[:min(i/7, 200)] + "-" + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		want = append(want, name)
		write(t, dir, map[string]string{name: ""})
	}
	slices.Sort(want)
	if got := names(t, dir, Options{}); !slices.Equal(got, want) {
		t.Errorf("saw %d files, want %d", len(got), len(want))
	}
}

func TestWalkEnds(t *testing.T) {
	dir := place(t)
	sources(t, dir, 50)
	bang := errors.New("bang")
	if _, err := Walk(t.Context(), Disk{}, dir, Options{}, func(Entry) error { return bang }); !errors.Is(err, bang) {
		t.Errorf("error %v, want the callback's", err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	_, err := Walk(ctx, Disk{}, dir, Options{}, func(Entry) error { stop(bang); return nil })
	if !errors.Is(err, bang) {
		t.Errorf("error %v, want the context's cause", err)
	}
	if _, err := Walk(t.Context(), Disk{}, dir+"/nowhere", Options{}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v for a missing root", err)
	}
	p, _ := Compile("x")
	if _, err := Search(ctx, Disk{}, dir, Options{}, p, func(Hit) {}); !errors.Is(err, bang) {
		t.Errorf("error %v, want the context's cause", err)
	}
}

func TestUnreadableIsCounted(t *testing.T) {
	if os.Getuid() == 0 {
		// root reads everything; a file system that fails shows the same.
		p, _ := Compile("x")
		dir := place(t)
		write(t, dir, map[string]string{"a": "x", "bad/b": "x", "c": "x"})
		hits := 0
		stats, err := Search(t.Context(), failing{}, dir, Options{}, p, func(Hit) { hits++ })
		if err != nil || stats.Unreadable != 2 || hits != 1 {
			t.Errorf("%d hits, %+v, %v", hits, stats, err)
		}
		return
	}
	dir := place(t)
	write(t, dir, map[string]string{"a": "x", "b": "x", "c/d": "x"})
	for _, name := range []string{"b", "c"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "c"), 0o700) })
	p, _ := Compile("x")
	stats, err := Search(t.Context(), Disk{}, dir, Options{}, p, func(Hit) {})
	if err != nil || stats.Unreadable != 2 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// failing cannot read what is called bad or c.
type failing struct{ Disk }

func (f failing) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if strings.HasSuffix(name, "/bad") {
		return nil, fs.ErrPermission
	}
	return f.Disk.ReadDir(ctx, name)
}

func (f failing) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := f.Disk.Open(ctx, name)
	if err == nil && strings.HasSuffix(name, "/c") {
		return struct {
			io.Reader
			io.Closer
		}{io.MultiReader(strings.NewReader("x\n"), broken{}), r}, nil
	}
	return r, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is broken") }

func TestDiskRefusesWhatIsNoFile(t *testing.T) {
	dir := place(t)
	write(t, dir, map[string]string{"f": "x", "d/g": "y", "link": "-> f", "dirlink": "-> d"})
	for _, name := range []string{"link", "d", "nowhere", "dirlink"} {
		if f, err := (Disk{}).Open(t.Context(), dir+"/"+name); err == nil {
			f.Close()
			t.Errorf("%s was opened", name)
		}
	}
	if _, err := (Disk{}).ReadDir(t.Context(), dir+"/dirlink"); err == nil {
		t.Error("a directory was listed through a link")
	}
	f, err := (Disk{}).Open(t.Context(), dir+"/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "x" {
		t.Errorf("read %q, %v", text, err)
	}
}

// TestLines checks excerpts against the whole, for all ways to cut it.
func TestLines(t *testing.T) {
	p, err := Compile("foo")
	if err != nil {
		t.Fatal(err)
	}
	m := newMatcher(p)
	for _, text := range append(texts, "foo\na\nb\nfoo\nc\nfoo\nfoo\nd\ne\nf\ng\nfoo\r\nh", strings.Repeat("foo\nx\ny\n", 8_000), strings.Repeat("x", 200_000)+"foo\nfoo\n\nfoo") {
		total, err := p.Count(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		all := lines(text)
		for _, around := range []int{0, 1, 2, 5} {
			excerpt := func(skip, limit int) []Line {
				got, err := p.Lines(t.Context(), strings.NewReader(text), Excerpt{Skip: skip, Limit: limit, Context: around})
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			whole, matching := excerpt(0, total+1), 0
			for i, l := range whole {
				if i > 0 && l.Number <= whole[i-1].Number {
					t.Fatalf("line %d after line %d", l.Number, whole[i-1].Number)
				}
				if want := strings.TrimSuffix(all[l.Number-1], "\r"); string(l.Text) != want {
					t.Fatalf("line %d is %.50q, want %.50q", l.Number, l.Text, want)
				}
				if l.Context == m.line([]byte(all[l.Number-1])) {
					t.Fatalf("line %d: context %t", l.Number, l.Context)
				}
				if !l.Context {
					matching++
				}
			}
			if matching != total {
				t.Fatalf("%d matching lines, counted %d", matching, total)
			}
			if total > 1000 {
				continue
			}
			for _, step := range []int{1, 2, 3, total + 1} {
				var parts []Line
				for skip := 0; skip < total; skip += step {
					parts = append(parts, excerpt(skip, step)...)
				}
				if !slices.EqualFunc(parts, whole, func(a, b Line) bool {
					return a.Number == b.Number && a.Context == b.Context && bytes.Equal(a.Text, b.Text)
				}) {
					t.Errorf("%.60q around %d by %d: %v\nwant %v", text, around, step, parts, whole)
				}
			}
		}
	}
}

func TestCountRefusesBinary(t *testing.T) {
	p, err := Compile("foo")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]io.Reader{
		"NUL":       strings.NewReader("foo\n\x00"),
		"late NUL":  strings.NewReader(strings.Repeat("foo\n", 100_000) + "\x00"),
		"long line": io.LimitReader(endless{}, maxBuffer+10),
		"endless":   endless{},
		"UTF-32":    strings.NewReader("\xff\xfe\x00\x00f\x00\x00\x00"),
	} {
		if n, err := p.Count(t.Context(), text); n != 0 || !errors.Is(err, ErrBinary) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if n, err := p.Count(t.Context(), io.MultiReader(strings.NewReader("foo\n"), broken{})); n != 0 || err == nil {
		t.Errorf("a file that breaks off: %d, %v", n, err)
	}
}

// endless is a line without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func ExampleSearch() {
	p, err := Compile(`func Example\w+`)
	if err != nil {
		panic(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		panic(err)
	}
	_, err = Search(context.Background(), Disk{}, filepath.ToSlash(here), Options{}, p, func(h Hit) {
		if h.Path == "walk_test.go" {
			os.Stdout.WriteString(h.Path + "\n")
		}
	})
	if err != nil {
		panic(err)
	}
	// Output: walk_test.go
}
