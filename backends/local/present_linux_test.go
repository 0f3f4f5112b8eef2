package local

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestPresent(t *testing.T) {
	dir := t.TempDir()
	want := []string{}
	var names []string
	for i := range 3 * manyNames {
		name := filepath.Join(dir, fmt.Sprintf(".secret %d\n", i))
		names = append(names, name, filepath.Join(dir, fmt.Sprint("missing", i), "x"),
			filepath.Join(name, "x"), filepath.Join(dir, "directory", fmt.Sprint(i)), filepath.Join(dir, "directory/none", fmt.Sprint(i), "x"))
		if i%3 > 0 {
			continue
		}
		want = append(want, name)
		if i%2 == 1 {
			if os.Getuid() != 0 { // it is closed: who knows
				want = append(want, filepath.Join(name, "x"))
			}
			below := filepath.Join(dir, "directory", fmt.Sprint(i))
			if err := os.MkdirAll(below, 0o700); err != nil {
				t.Fatal(err)
			}
			want = append(want, below)
		}
		var err error
		if i%2 == 0 {
			err = os.Symlink("nowhere", name)
		} else {
			err = os.Mkdir(name, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := present(names); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for i := range 3000 { // too many to read at once
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("one of many ", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := shortList(dir); ok {
		t.Error("it is read whole")
	}
	if got := present(names); !slices.Equal(got, want) {
		t.Errorf("in a large directory %q, want %q", got, want)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o111); err != nil {
			t.Fatal(err)
		}
		if got := present(names); !slices.Equal(got, want) {
			t.Errorf("in one that cannot be read %q, want %q", got, want)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
}
