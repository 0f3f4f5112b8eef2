package engine

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakePython writes an executable that answers as a Python of that version.
func fakePython(t *testing.T, dir, name, version string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, name)
	text := "#!/bin/sh\necho '[" + version + ", \"" + file + "\"]'\n"
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// shim writes a script that runs the real python3, as pyenv's shims do.
func shim(t *testing.T, dir string) {
	t.Helper()
	os.MkdirAll(dir, 0o755)
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestInterpreterChoice(t *testing.T) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Fatal("the tests need /usr/bin/python3")
	}
	venv := func(t *testing.T, dir string) string {
		t.Helper()
		if out, err := exec.Command("/usr/bin/python3", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
			t.Fatalf("venv: %v %s", err, out)
		}
		return filepath.Join(dir, "bin/python")
	}
	const system = "/usr/bin:/bin"
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string) (environ []string, mode Mode, named string)
		want  func(dir string) string // interpreter, or "" for an error
		err   string
		warns string
	}{
		{
			name: "python3 on PATH",
			setup: func(*testing.T, string) ([]string, Mode, string) {
				return []string{"PATH=" + system}, Project, ""
			},
			want: func(string) string { return "/usr/bin/python3" },
		}, {
			name: "the active venv",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				venv(t, dir+"/venv")
				return []string{"PATH=" + dir + "/venv/bin:" + system, "VIRTUAL_ENV=" + dir + "/venv"}, Project, ""
			},
			want: func(dir string) string { return dir + "/venv/bin/python" },
		}, {
			name: "strict looks past the active venv",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				venv(t, dir+"/venv")
				return []string{"PATH=" + dir + "/venv/bin:" + system, "VIRTUAL_ENV=" + dir + "/venv"}, Strict, ""
			},
			want: func(string) string { return "/usr/bin/python3" },
		}, {
			name: "a broken venv is passed over, and said",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				python := venv(t, dir+"/venv")
				os.Remove(python)
				os.Symlink("/nowhere/python3.11", python)
				os.Remove(filepath.Join(dir, "venv/bin/python3"))
				return []string{"PATH=" + system, "VIRTUAL_ENV=" + dir + "/venv"}, Project, ""
			},
			want:  func(string) string { return "/usr/bin/python3" },
			warns: "VIRTUAL_ENV=",
		}, {
			name: "an old venv gives way to CONDA_PREFIX",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				fakePython(t, dir+"/old/bin", "python", "3, 7")
				venv(t, dir+"/conda")
				return []string{"PATH=" + system, "VIRTUAL_ENV=" + dir + "/old", "CONDA_PREFIX=" + dir + "/conda"}, Project, ""
			},
			want:  func(dir string) string { return dir + "/conda/bin/python" },
			warns: "3.7, older than 3.8",
		}, {
			name: "a shim is resolved to the interpreter behind it",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				shim(t, dir+"/shims")
				return []string{"PATH=" + dir + "/shims:" + system}, Project, ""
			},
			want: func(string) string { return "/usr/bin/python3" },
		}, {
			name: "an old python3 on PATH gives way to a newer one behind it",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				fakePython(t, dir+"/old", "python3", "3, 6")
				return []string{"PATH=" + dir + "/old:" + system}, Project, ""
			},
			want:  func(string) string { return "/usr/bin/python3" },
			warns: "Python 3.6",
		}, {
			name: "none at all",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				return []string{"PATH=" + dir}, Project, ""
			},
			err: "there is no python3 on PATH; install Python 3.8",
		}, {
			name: "only an old one",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				fakePython(t, dir+"/old", "python3", "3, 6")
				return []string{"PATH=" + dir + "/old"}, Project, ""
			},
			err: "is Python 3.6, older than 3.8",
		}, {
			name: "a named one that is missing is refused, not replaced",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				return []string{"PATH=" + system}, Project, dir + "/python3"
			},
			err: "no such file",
		}, {
			name: "a named one that is no Python",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				return []string{"PATH=" + system}, Project, "/bin/echo"
			},
			err: "is not a Python",
		}, {
			name: "a named one that is not executable",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				os.WriteFile(dir+"/python3", []byte("x"), 0o644)
				return []string{"PATH=" + system}, Project, dir + "/python3"
			},
			err: "is not executable",
		}, {
			name: "a named one by name",
			setup: func(t *testing.T, dir string) ([]string, Mode, string) {
				return []string{"PATH=" + system}, Strict, "python3"
			},
			want: func(string) string { return "/usr/bin/python3" },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir, _ := filepath.EvalSymlinks(t.TempDir())
			environ, mode, named := tt.setup(t, dir)
			e := newEngine(t, func(c *Config) { c.Environ, c.Mode = append(environ, "HOME="+dir), mode })
			s := open(t, e, Task{WorkDir: dir})
			r, err := s.Run(t.Context(), Script{Code: "import sys; print(sys.executable)", Interpreter: named})
			if tt.err != "" {
				if !errors.Is(err, ErrNoInterpreter) || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := tt.want(dir); r.Interpreter != want || strings.TrimSpace(r.Output) != want {
				t.Errorf("got %s, sys.executable %s, want %s", r.Interpreter, r.Output, want)
			}
			if warnings := strings.Join(r.Warnings, "\n"); !strings.Contains(warnings, tt.warns) {
				t.Errorf("warnings %q do not say %q", warnings, tt.warns)
			}
		})
	}
}
