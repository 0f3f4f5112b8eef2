package walk

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func run(t testing.TB, o Order) io.Reader {
	t.Helper()
	order, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Run(t.Context(), Disk{}, bytes.NewReader(order), &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// An order finds what a walk and a search here find, on a real tree.
func TestOrderAgrees(t *testing.T) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("no Go tree here:", err)
	}
	root := filepath.ToSlash(strings.TrimSpace(string(goroot))) + "/src/encoding"
	for _, globs := range [][]string{nil, {"*_test.go"}, {"!*_test.go", "json/**"}, {"nothing.*"}} {
		opt := Options{Skip: func(name string, dir bool) bool { return dir && strings.HasSuffix(name, "/xml") }}
		for _, text := range globs {
			g, err := ParseGlob(text)
			if err != nil {
				t.Fatal(err)
			}
			opt.Globs = append(opt.Globs, g)
		}
		pattern := `func \w+\(`
		p, err := Compile(pattern)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []Hit
		wantStats, err := Search(t.Context(), Disk{}, root, opt, p, func(h Hit) { want = append(want, h) })
		if err != nil {
			t.Fatal(err)
		}
		gotStats, err := Results(run(t, Order{Root: root, Pattern: &pattern, Globs: globs}), root, opt, func(f Found) { got = append(got, f.Hit) })
		byPath := func(a, b Hit) int { return cmp.Compare(a.Path, b.Path) }
		slices.SortFunc(want, byPath)
		slices.SortFunc(got, byPath)
		if err != nil || !slices.Equal(got, want) || gotStats.Unreadable != wantStats.Unreadable {
			t.Errorf("%q: %d hits, %d here: %v", globs, len(got), len(want), err)
		}

		var mu sync.Mutex
		files, found := map[string]bool{}, map[string]bool{}
		if _, err := Walk(t.Context(), Disk{}, root, opt, func(e Entry) error {
			info, err := e.Info()
			mu.Lock()
			defer mu.Unlock()
			files[e.Path+info.ModTime().UTC().String()] = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := Results(run(t, Order{Root: root, Globs: globs}), root, opt, func(f Found) { found[f.Path+f.ModTime.UTC().String()] = true }); err != nil {
			t.Error(err)
		}
		if len(files) != len(found) {
			t.Errorf("%q: %d files, %d here", globs, len(found), len(files))
		}
		for name := range files {
			if !found[name] {
				t.Errorf("%q: not found: %s", globs, name)
			}
		}
	}
}

// Names that are not UTF-8 come through as they are.
func TestOrderNames(t *testing.T) {
	root := place(t)
	name := "a\xff \n\"b"
	if err := os.WriteFile(root+"/"+name, []byte("needle\n"), 0o600); err != nil {
		t.Skip("no such names here:", err)
	}
	pattern := "needle"
	var got []string
	if _, err := Results(run(t, Order{Root: root, Pattern: &pattern}), root, Options{}, func(f Found) { got = append(got, f.Path) }); err != nil || !slices.Equal(got, []string{name}) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOrderErrors(t *testing.T) {
	bad := "("
	for _, o := range []Order{{Root: place(t) + "/none"}, {Root: place(t), Pattern: &bad}, {Root: place(t), Globs: []string{"{"}}} {
		if _, err := Results(run(t, o), o.Root, Options{}, func(Found) {}); !errors.Is(err, ErrOrder) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	for _, in := range []string{"", "x", `{"root":"/","unknown":1}`, `{"root":"` + strings.Repeat("x", maxOrder) + `"}`} {
		if err := Run(t.Context(), Disk{}, strings.NewReader(in), io.Discard); err == nil {
			t.Errorf("%.40q was carried out", in)
		}
	}
}

// Output that is not Run's is refused; what came before it counts.
func TestResultsHostile(t *testing.T) {
	good := `{"path":"YQ==","count":1}` + "\n"
	for _, out := range []string{
		"", "\n", "x\n", "{}\n", `{"end":{}`, `{"path":"YQ==","count":-1}` + "\n", `{"path":"YQ=="}` + "\n", `{"path":"Li4vYQ==","count":1}` + "\n",
		`{"path":"L2V0Yw==","count":1}` + "\n", `{"path":"Lg==","count":1}` + "\n", `{"path":"","count":1}` + "\n", strings.Repeat("x", 2*maxResult), `{"path":1}` + "\n",
	} {
		n := 0
		if _, err := Results(strings.NewReader(good+out), "/r", Options{}, func(Found) { n++ }); err == nil || n != 1 {
			t.Errorf("%.60q: %d hits, %v", out, n, err)
		}
	}
}
