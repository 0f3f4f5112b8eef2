package policy

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// binary writes what passes for a program.
func (w *world) binary(name string) string { return w.file(name, "\x7fELF") }

func TestInterpreters(t *testing.T) {
	w := newWorld(t)
	// A venv of a Python that pyenv built, a uv-managed one on PATH through
	// ~/.local/bin, an asdf shim, conda.
	w.binary("home/.pyenv/versions/3.12.1/bin/python3.12")
	w.file("home/.pyenv/shims/python3", "#!/bin/sh\n")
	w.link("venv/bin/python", w.at("home/.pyenv/versions/3.12.1/bin/python3.12"))
	w.file("venv/pyvenv.cfg", "home = "+w.at("base/bin")+"\nversion = 3.12.1\n")
	w.binary("base/bin/python3")
	w.file("base/lib/python3.12/os.py", "")
	w.binary("home/.local/share/uv/python/cpython-3.13/bin/python3.13")
	w.file("home/.local/share/uv/python/cpython-3.13/lib/python3.13/os.py", "")
	w.link("home/.local/bin/python3", "../share/uv/python/cpython-3.13/bin/python3.13")
	w.file("home/.local/lib/python3.13/site-packages/x.py", "")
	w.file("home/.local/share/keyrings/x", "")
	w.binary("conda/bin/python")
	w.file("conda/conda-meta/history", "")
	w.binary("home/bin/python3")
	w.binary("named/bin/python3.9")
	w.file("named/lib/python3.9/os.py", "")
	w.c.Python = w.at("named/bin/python3.9")
	w.c.Environ = []string{
		"VIRTUAL_ENV=" + w.at("venv"), "CONDA_PREFIX=" + w.at("conda"),
		"PATH=relative:" + w.at("home/.pyenv/shims") + ":" + w.at("home/.local/bin") + ":" + w.at("home/bin") + ":/usr/bin",
	}
	want := map[string]string{
		"venv/bin/python": "r-", "base/lib/x": "r-", "home/.pyenv/versions/3.12.1/lib/x": "r-", "home/.pyenv/shims/python3": "r-", "home/.pyenv/libexec/pyenv": "r-",
		"conda/lib/x": "r-", "named/lib/x": "r-", "home/.local/share/uv/python/cpython-3.13/lib/x": "r-", "home/.local/bin/python3": "r-",
		"home/.local/lib/python3.13/site-packages/x.py": "r-", "home/bin/python3": "r-",
		"home/bin/other": "--", "home/.local/share/keyrings/x": "--", "home/.local/bin/other": "--", "home/x": "--", "home/.ssh": "--", "home/work": "--",
	}
	w.expect(w.make(Sealed), want)
	for _, tree := range w.make(Sealed).Policy.Read {
		if strings.HasPrefix(w.at("home"), tree) || tree == w.at("home/.local") {
			t.Errorf("%s is too much for an interpreter", tree)
		}
	}
}

// Environments are trusted to name Pythons, not to open what is hidden.
func TestInterpretersOpenNothing(t *testing.T) {
	w := newWorld(t)
	w.binary("home/.ssh/bin/python3")
	w.binary("home/bin/python")
	w.binary("home/work/bin/python")
	w.binary("home/.hermes/bin/python3")
	w.file("home/.hermes/state.db", "")
	w.c.Environ = []string{"VIRTUAL_ENV=" + w.at("home"), "CONDA_PREFIX=" + w.at("home/work"), "PATH=" + w.at("home/.ssh/bin") + ":" + w.at("home/.hermes/bin")}
	for _, name := range []string{Sealed, Workspace} {
		w.expect(w.make(name), map[string]string{"home/.ssh/id": "--", "home/.ssh/bin/python3": "--", "home/.hermes/.env": "--", "home/.hermes/state.db": "--"})
	}
	w.expect(w.make(Sealed), map[string]string{"home/x": "--", "home/work/x": "--", "home/bin/x": "--"})

	// Nor what the user denies by a name above it.
	w.file("home/tools/v/pyvenv.cfg", "")
	w.binary("home/tools/v/bin/python3")
	w.c.Environ, w.c.DenyRead = []string{"VIRTUAL_ENV=" + w.at("home/tools/v")}, []string{w.at("home/tools")}
	if p := w.make(Sealed); slices.Contains(p.Policy.Read, w.at("home/tools/v")) {
		t.Errorf("reads %q", p.Policy.Read)
	}
}

// What a script can make, in the work dir or in what was one before, leads to
// interpreters and to nothing else.
func TestInterpretersLeadNowhere(t *testing.T) {
	for name, plant := range map[string]func(w *world, env string){
		"a library that is a link": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("home/work/bin/python"))
			w.link("home/work/bin/python", w.at("base/bin/python3"))
			w.link("home/work/lib/python3x", w.at("home/private"))
			w.link(env+"/lib", w.at("home/private"))
		},
		"a link that is not what it looks": func(w *world, env string) {
			w.dir("home/work/w/z")
			w.link("home/work/w/D/bin/python", w.at("base/bin/python3"))
			w.link("home/work/q", "w/z")
			w.link("home/work/D", w.at("home/private"))
			w.link(env+"/bin/python", w.at("home/work")+"/q/../D/bin/python")
		},
		"a link to a file": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("home/private/secret"))
		},
		"a link to a directory": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("home/private"))
			w.link(env+"/bin/python3", "/")
		},
		"a link to a script": func(w *world, env string) {
			w.link(env+"/bin/python", w.file("home/private/secret", "#!/bin/sh\n"))
		},
		"settings": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("base/bin/python3"))
			w.file(env+"/pyvenv.cfg", "home = "+w.at("home/private/bin")+"\n")
		},
		"a way by another environment": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("home/private/bin/python3"))
		},
		"a shim": func(w *world, env string) {
			w.link(env+"/bin/python", w.at("home/private/shims/python3"))
		},
		"the environment is a link": func(w *world, env string) {
			w.link(env, w.at("home/private"))
		},
		"its programs are": func(w *world, env string) {
			w.link(env+"/bin", w.at("home/private/bin"))
		},
	} {
		for _, env := range []string{"home/work/.venv", "home/other/.venv"} {
			t.Run(name+", "+env, func(t *testing.T) {
				w := newWorld(t)
				w.binary("base/bin/python3")
				w.file("base/lib/python3.12/os.py", "")
				w.file("home/private/secret", "")
				w.file("home/private/python3x/secret", "")
				w.file("home/private/pyvenv.cfg", "")
				w.file("home/private/shims/python3", "#!/bin/sh\n")
				w.link("home/private/bin/python3", w.at("base/bin/python3"))
				w.link("home/private/bin/python", w.at("base/bin/python3"))
				plant(w, env)
				w.c.Environ = []string{"VIRTUAL_ENV=" + w.at(env), "PATH=" + w.at(env+"/bin")}
				w.expect(w.make(Sealed), map[string]string{"home/private/secret": "--", "home/private/python3x/secret": "--", "home/x": "--"})
			})
		}
	}
}

// The python3 of this machine really starts with what sealed lets it read.
func TestPythonOfThisMachine(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	w := newWorld(t)
	home, _ := os.UserHomeDir()
	w.c.Environ, w.c.Home = os.Environ(), home
	p := w.make(Sealed)
	out, err := exec.Command(python, "-S", "-c", `
import sys, os
print(os.path.realpath(sys.executable)); print(os.path.realpath(os.__file__))
for line in open("/proc/self/maps"):
    name = line.split(None, 5)[-1].strip()
    if name.startswith("/") and os.path.isfile(name): print(name)
`).Output()
	if err != nil {
		t.Skipf("python3 does not run: %v", err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if e := p.Explain(name); !e.Read {
			t.Errorf("python3 needs %s, which cannot be read: %s", name, e.ReadRule)
		}
	}
}
