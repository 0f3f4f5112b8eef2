package engine

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/config"
)

// stagingRows are those of section 1.5.
func stagingRows() []row {
	return []row{
		{id: "1.5/1 staging directory", test: leavesNothing(`
import os, stat
here = os.path.dirname(__file__)
open(os.path.join(here, "left"), "w").write("x")
print(oct(stat.S_IMODE(os.stat(here).st_mode)), sorted(os.listdir(here)), open(__file__, encoding="utf-8").read().rstrip()[-1])
print(here) # é
`, "0o700 ['hermes_tools.py', 'left', 'script.py'] é\n")},

		{id: "1.5/2 socket", beaten: "in a directory that only its user can enter, from the start", test: leavesNothing(`
import os, stat
path = os.environ["HERMES_RPC_SOCKET"]
print(stat.S_ISSOCK(os.stat(path).st_mode), oct(stat.S_IMODE(os.stat(path).st_mode)), oct(stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode)), len(path) < 108)
print(os.path.dirname(path))
`, "True 0o600 0o700 True\n")},

		{id: "1.5/3 argv", test: printsWith(func(_ *Config, _ *Task, s *Script) { s.Args = []string{"a b", "--flag"} }, `
import os, sys
print(__name__, sys.argv == [__file__, "a b", "--flag"], os.path.basename(__file__), sys.path[0] == os.path.dirname(__file__))
`, "__main__ True script.py True\n")},

		{id: "1.5/4 stdio", test: prints(`
import os, stat, sys
print(repr(sys.stdin.read()), [stat.S_ISFIFO(os.fstat(n).st_mode) for n in (1, 2)], [s.isatty() for s in (sys.stdin, sys.stdout, sys.stderr)])
try: input()
except EOFError: print("EOFError")
`, "'' [True, True] [False, False, False]\nEOFError\n")},

		{id: "1.5/5 mode", beaten: "what is neither is refused with its place, not guessed", test: func(t *testing.T) {
			equals(config.Default().CodeExecution.Mode, string(Project))(t)
			for text, want := range map[string]string{"strict": "strict", "project": "project", `" Strict "`: "strict"} {
				equals(configured(t, "code_execution: {mode: "+text+"}").CodeExecution.Mode, want)(t)
			}
			equals(run(t, "pass", nil).Mode, Project)(t)
			equals(run(t, "pass", func(c *Config, _ *Task, _ *Script) { c.Mode = Strict }).Mode, Strict)(t)
			equals(run(t, "pass", func(c *Config, task *Task, _ *Script) { c.Mode, task.Mode = Strict, Project }).Mode, Project)(t)
			if _, err := New(Config{Backends: newEngine(t, nil).cfg.Backends, Mode: "banana"}); err == nil {
				t.Error("mode banana was accepted")
			}
			if _, err := newEngine(t, nil).Open(t.Context(), Task{Mode: "banana"}); !errors.Is(err, ErrRefused) {
				t.Errorf("mode banana: %v", err)
			}
		}},

		{id: "1.5/6 strict", test: func(t *testing.T) {
			work := project(t)
			python := fakeShell(t, work) // what the project has active
			printsWith(func(c *Config, task *Task, _ *Script) {
				task.WorkDir, task.Mode = work, Strict
				c.Environ = testEnviron("VIRTUAL_ENV=" + filepath.Dir(filepath.Dir(python)))
				c.Python = "/usr/bin/python3"
			}, `
import os, sys
try: import project_module
except ImportError: print(os.getcwd() == os.path.dirname(os.path.abspath(__file__)), sys.executable)
`, "True /usr/bin/python3\n")(t)
		}},

		{id: "1.5/7 project working directory", beaten: "W15: it can be imported from; one that is missing is refused", test: func(t *testing.T) {
			work := project(t)
			inWork := func(_ *Config, task *Task, _ *Script) { task.WorkDir = work }
			printsWith(inWork, "import os, project_module; print(os.getcwd(), project_module.name)", work+" mine\n")(t)
			equals(configured(t, "terminal: {cwd: /one}", "TERMINAL_CWD= /two ").Terminal.Cwd, "/two")(t)
			here, err := os.Getwd()
			if err != nil {
				t.Fatal(err)
			}
			e := newEngine(t, nil)
			s, err := e.Open(t.Context(), Task{Policy: unconfined()}) // none named: the engine's own
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Run(t.Context(), Script{Code: "import os; print(os.path.samefile(os.getcwd(), '" + here + "'))"})
			if err != nil || r.Output != "True\n" {
				t.Errorf("%s, %v", r.JSON(), err)
			}
			if s, err := e.Open(t.Context(), Task{WorkDir: work + "/missing"}); err == nil {
				r, err := s.Run(t.Context(), Script{Code: "pass"})
				if err == nil {
					t.Errorf("a missing directory: %s", r.JSON())
				}
			}
		}},

		{id: "1.5/8 project Python", beaten: "an unusable VIRTUAL_ENV gives way to CONDA_PREFIX, and is told", test: func(t *testing.T) {
			const code = "import sys; print(sys.executable)"
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			for _, link := range []string{"venv/bin/python", "conda/bin/python3"} { // conda has no bin/python
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, link)), 0o755), os.Symlink("/usr/bin/python3", filepath.Join(dir, link))); err != nil {
					t.Fatal(err)
				}
			}
			fakePython(t, dir+"/old/bin", "python", "3, 7")
			for _, c := range []struct{ venv, conda, want, warns string }{
				{"/venv", "/conda", dir + "/venv/bin/python", ""},
				{"/empty", "/conda", dir + "/conda/bin/python3", "VIRTUAL_ENV="},
				{"/old", "/conda", dir + "/conda/bin/python3", "3.7, older than 3.8"},
				{"/old", "/empty", "/usr/bin/python3", "CONDA_PREFIX="},
			} {
				r := run(t, code, func(cfg *Config, _ *Task, _ *Script) {
					cfg.Environ = testEnviron("VIRTUAL_ENV="+dir+c.venv, "CONDA_PREFIX="+dir+c.conda)
				})
				if r.Interpreter != c.want || !strings.Contains(strings.Join(r.Warnings, "\n"), c.warns) {
					t.Errorf("%v: %s, %q", c, r.Interpreter, r.Warnings)
				}
			}
		}},

		{id: "1.5/9 working directory of tools", test: func(t *testing.T) {
			work := project(t)
			printsWith(func(c *Config, task *Task, s *Script) {
				realTools(c, task, s)
				task.WorkDir, task.Mode = work, Strict
			}, `
import os, hermes_tools as h
os.chdir("/")
print(h.terminal("pwd")["output"], h.read_file("project_module.py")["content"].strip())
`, work+" name = 'mine'\n")(t)
		}},
	}
}

// project is a working directory with a module in it.
func project(t *testing.T) string {
	t.Helper()
	work, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.WriteFile(filepath.Join(work, "project_module.py"), []byte("name = 'mine'\n"), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return work
}

// fakeShell is an interpreter nobody may start.
func fakeShell(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "venv/bin/python")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("#!/bin/sh\necho started\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	return file
}

// leavesNothing runs a script that ends by printing a directory, which is gone
// with the run.
func leavesNothing(code, want string) func(*testing.T) {
	return shows(code, nil, func(t *testing.T, r Result) {
		m := regexp.MustCompile(`(?s)^(.*\n)(/[^\n]+)\n$`).FindStringSubmatch(r.Output)
		if m == nil || m[1] != want {
			t.Fatalf("got %s %s, want %q", r.JSON(), r.Stderr, want)
		}
		if _, err := os.Stat(m[2]); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", m[2])
		}
	})
}
