//go:build unix

package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	guest.Main()
	if part := os.Getenv("LOCAL_TEST_PART"); part != "" {
		os.Exit(play(part))
	}
	os.Exit(m.Run())
}

func TestLaws(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestConfinedLaws has them too")
	}
	sandboxtest.Run(t, sandboxtest.Options{
		New: func(t testing.TB) sandbox.Backend { return local.New(local.Config{Scratch: t.TempDir()}) },
	})
}

// open is a spec for a box without confinement.
func open() sandbox.Spec {
	return sandbox.Spec{
		Policy: sandbox.Policy{Name: "open", Unconfined: true},
		Env:    []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}
}

// backend returns a backend with a scratch directory of the test's own.
func backend(t testing.TB, config local.Config) *local.Backend {
	t.Helper()
	if config.Scratch == "" {
		config.Scratch = t.TempDir()
	}
	b := local.New(config)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func create(t testing.TB, b *local.Backend) sandbox.Sandbox {
	t.Helper()
	box, err := b.Create(context.Background(), open())
	if err != nil {
		t.Fatal(err)
	}
	return box
}

func TestRefusals(t *testing.T) {
	b := backend(t, local.Config{})
	for what, c := range map[string]struct {
		change func(*sandbox.Spec)
		want   error
		says   string
	}{
		"an unknown network": {func(s *sandbox.Spec) { s.Policy = sandbox.Policy{Name: "p", Network: "example.com"} }, sandbox.ErrPolicy, `"example.com"`},
		"watch":              {func(s *sandbox.Spec) { s.Policy = sandbox.Policy{Name: "p", Watch: []string{"/"}} }, sandbox.ErrPolicy, "watch"},
		"write what is secret": {func(s *sandbox.Spec) {
			dir := "/usr/share" // exists, as does what is in it
			s.Policy = sandbox.Policy{Name: "p", Read: []string{"/"}, Write: []string{dir + "/doc"}, DenyRead: []string{dir}}
		}, sandbox.ErrPolicy, "secret"},
		"memory":           {func(s *sandbox.Spec) { s.Resources.Memory = 1 << 30 }, sandbox.ErrPolicy, "resource"},
		"mounts":           {func(s *sandbox.Spec) { s.Mounts = []sandbox.Mount{{Source: "/", Target: "/m"}} }, sandbox.ErrUnsupported, "mount"},
		"image":            {func(s *sandbox.Spec) { s.Image = "debian" }, sandbox.ErrUnsupported, "debian"},
		"no work dir":      {func(s *sandbox.Spec) { s.WorkDir = "/nonexistent" }, fs.ErrNotExist, "/nonexistent"},
		"work dir is file": {func(s *sandbox.Spec) { s.WorkDir = "/etc/passwd" }, nil, "not a directory"},
		"relative":         {func(s *sandbox.Spec) { s.WorkDir = "." }, nil, "not absolute"},
	} {
		spec := open()
		c.change(&spec)
		_, err := b.Create(context.Background(), spec)
		if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestInfo(t *testing.T) {
	b := backend(t, local.Config{})
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	spec := open()
	spec.ID, spec.WorkDir, spec.Env = "me", link, append(spec.Env, "HOME=/my/home")
	box, err := b.Create(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	if i := box.Info(); i.ID != "me" || i.WorkDir != real || i.Home != "/my/home" || i.UID != os.Getuid() {
		t.Errorf("info %+v", i)
	}
	if wd, _ := os.Getwd(); create(t, b).Info().WorkDir != wd {
		t.Errorf("without a work dir, a box is not in %s", wd)
	}
}

// TestScratchSquatted: somebody has taken the name of the user's directory.
func TestScratchSquatted(t *testing.T) {
	name := fmt.Sprintf("hermes-exec-%d", os.Getuid())
	for what, squat := range map[string]func(t *testing.T, path string){
		"a file": func(t *testing.T, path string) {
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a link": func(t *testing.T, path string) {
			if err := os.Symlink(t.TempDir(), path); err != nil {
				t.Fatal(err)
			}
		},
		"a directory everybody can write": func(t *testing.T, path string) {
			if err := errors.Join(os.Mkdir(path, 0o777), os.Chmod(path, 0o777)); err != nil {
				t.Fatal(err)
			}
		},
		"another user's directory": func(t *testing.T, path string) {
			if os.Getuid() != 0 {
				t.Skip("needs root")
			}
			if err := errors.Join(os.Mkdir(path, 0o700), os.Chown(path, 1001, 1001)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			parent := t.TempDir()
			taken := filepath.Join(parent, name)
			squat(t, taken)
			// What a killed engine left beside it goes, and nothing else does.
			left := taken + "-abcdefgh23"
			others := []string{taken + "-abcdefgh2", taken + "-abcdefgh2_", taken + "-abcdefgh24", filepath.Join(parent, "mine")}
			for _, dir := range append(others, left+"/run-1") {
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(taken+"-abcdefgh24", 0o755); err != nil { // no box is like that
				t.Fatal(err)
			}
			b := backend(t, local.Config{Scratch: parent})
			box := create(t, b)
			dir := box.Info().ScratchDir
			if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what a killed engine left: %v", err)
			}
			for _, other := range others {
				if _, err := os.Lstat(other); err != nil {
					t.Error(err)
				}
			}
			if filepath.Dir(dir) != parent || !strings.HasPrefix(filepath.Base(dir), name+"-") {
				t.Errorf("scratch directory %s in %s", dir, parent)
			}
			if st, err := os.Lstat(dir); err != nil || st.Mode() != fs.ModeDir|0o700 {
				t.Errorf("scratch directory: %v, %v", st, err)
			}
			if entries, err := os.ReadDir(taken); err == nil && len(entries) > 0 {
				t.Errorf("the squatter got %v", entries)
			}
			if err := box.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("after Close: %v", err)
			}
		})
	}
}

func TestScratchImpossible(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shared := filepath.Join(t.TempDir(), "shared")
	if err := errors.Join(os.Mkdir(shared, 0o777), os.Chmod(shared, 0o777)); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ dir, says string }{
		"missing":                 {filepath.Join(t.TempDir(), "none"), "no such file"},
		"a file":                  {file, "not a directory"},
		"read-only":               {"/proc", "/proc/hermes-exec"},
		"everybody's, not sticky": {shared, "rename"},
	} {
		_, err := backend(t, local.Config{Scratch: c.dir}).Create(context.Background(), open())
		if err == nil || !strings.Contains(err.Error(), "TMPDIR") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestLongPath: a socket's path has room for little.
func TestLongPath(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	b := backend(t, local.Config{Scratch: deep})
	box := create(t, b)
	if !strings.HasPrefix(box.Info().ScratchDir, deep) {
		t.Errorf("scratch directory %s", box.Info().ScratchDir)
	}
	l, path, err := box.Listen(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(path)
	if st, err := os.Lstat(dir); err != nil || st.Mode() != fs.ModeDir|0o700 {
		t.Errorf("socket directory: %v, %v", st, err)
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after Close: %v", err)
	}
}
