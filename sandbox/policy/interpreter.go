package policy

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// interpreters lists the trees that the Pythons a run could choose are in: the
// one of the configuration, the active environments, each python3 on PATH, and
// what these lead to. What the system's trees hold is not listed. The trees in
// named are those the user has named, and installations.
func (b *builder) interpreters() (trees, named []string) {
	f := pythonFinder{b: b}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := getenv(b.c.Environ, name); filepath.IsAbs(dir) {
			f.start(filepath.Join(dir, "bin/python"))
			f.start(filepath.Join(dir, "bin/python3"))
		}
	}
	python := b.c.Python
	switch {
	case python == "":
	case filepath.IsAbs(python):
		f.start(python)
	case strings.HasPrefix(python, "~/"):
		f.start(filepath.Join(b.c.Home, python[2:]))
	case strings.Contains(python, "/"):
		f.start(filepath.Join(b.workdir, python))
	}
	for _, dir := range filepath.SplitList(getenv(b.c.Environ, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		f.start(filepath.Join(dir, "python3"))
		if python != "" && !strings.Contains(python, "/") {
			f.start(filepath.Join(dir, python))
		}
	}
	return f.trees, f.named
}

// pythonFinder gathers trees. A script may have put links and settings where
// somebody has named an interpreter: in the work dir, or in another one that was
// his before. So what is only led to has to be an installation of Python, by its
// own files, to be added as a whole.
type pythonFinder struct {
	b     *builder
	trees []string
	named []string
	seen  []string
}

// start adds what an interpreter needs that the user has named. The name of an
// environment that is a link, or whose bin is one, is not the user's word.
func (f *pythonFinder) start(name string) {
	bin := filepath.Dir(name)
	led := f.ours(filepath.Clean(name)) || f.ours(f.b.links.at(name))
	for _, dir := range []string{bin, filepath.Dir(bin)} {
		led = led || f.b.links.at(dir) != f.b.links.real(dir)
	}
	f.python(name, led, 0)
}

func (f *pythonFinder) add(place string) { f.trees = appendNew(f.trees, place) }

func (f *pythonFinder) both(place string) {
	for _, name := range f.b.links.both(place) {
		f.add(name)
	}
}

// ours tells whether a script may have made what has that name.
func (f *pythonFinder) ours(name string) bool {
	return sandbox.Covers(f.b.workdir, name) || sandbox.Covers(f.b.private, name)
}

// python adds what one interpreter needs; led tells that nobody has named it.
func (f *pythonFinder) python(name string, led bool, depth int) {
	at := f.b.links.at(name)
	if depth > 4 || slices.Contains(f.seen, at) || !f.b.links.exists(name) {
		return
	}
	f.seen = append(f.seen, at)
	real := f.b.links.real(name)
	if isScript(real) {
		if !led && real == at { // else it is any script
			f.manager(real)
		}
		return
	}
	if !isPython(real) && (led || real != at || !isProgram(real)) {
		return // it is anything
	}
	// bin/python of a venv is a link to the interpreter it was made from; both
	// prefixes are needed, and every link on the way.
	f.prefix(at, !led)
	for link, n := at, 0; n < maxLinks; n++ {
		target, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Dir(link) + "/" + target // not cleaned: what .. means depends on links
		}
		if link = f.b.links.at(target); !f.ours(at) || f.ours(link) {
			f.prefix(link, false)
		} else {
			f.add(link)
		}
	}
	f.prefix(real, false)
	if base := venvBase(filepath.Join(filepath.Dir(filepath.Dir(at)), "pyvenv.cfg")); base != "" {
		for _, name := range []string{filepath.Join(base, filepath.Base(real)), filepath.Join(base, "python3")} {
			f.python(name, true, depth+1)
		}
	}
}

// isPython tells whether a file is an interpreter by its name, place and kind.
func isPython(name string) bool {
	dir, base := filepath.Split(name)
	return isProgram(name) && filepath.Base(dir) == "bin" && (strings.HasPrefix(base, "python") || strings.HasPrefix(base, "pypy")) && !isScript(name)
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// prefix adds the tree that bin/python, in its real directory, stands in. One that
// holds more than an interpreter, such as ~ or ~/.local, or that nobody has named
// and that is not clearly an interpreter's, is named by its parts.
func (f *pythonFinder) prefix(python string, named bool) {
	dir := filepath.Dir(filepath.Dir(python))
	if systemTree(python) {
		return
	}
	if filepath.Base(filepath.Dir(python)) == "bin" && !f.wide(dir) {
		installed := isInstallation(dir)
		if named = named && (installed || isEnvironment(dir)); named || installed && !f.ours(dir) {
			f.named = append(f.named, dir)
		}
		if named || installed || f.ours(dir) {
			f.add(dir)
			return
		}
	}
	f.add(python)
	if filepath.Base(filepath.Dir(python)) != "bin" {
		return
	}
	if f.b.links.real(dir+"/pyvenv.cfg") == dir+"/pyvenv.cfg" && f.b.links.exists(dir+"/pyvenv.cfg") {
		f.add(dir + "/pyvenv.cfg")
	}
	for _, lib := range libs {
		lib = dir + "/" + lib
		if f.b.links.real(lib) != lib {
			continue
		}
		entries, _ := os.ReadDir(lib)
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), "python3") && !strings.HasPrefix(e.Name(), "libpython3") {
				continue
			}
			// A link may lead anywhere, but what is beside it is listed as well.
			if place := lib + "/" + e.Name(); f.b.links.real(place) == place || sandbox.Covers(lib, f.b.links.real(place)) {
				f.add(place)
			}
		}
	}
}

// libs are the directories of a prefix that libraries are in.
var libs = [...]string{"lib", "lib64"}

// isEnvironment tells whether a real directory is one that was made for Python's
// packages.
func isEnvironment(dir string) bool {
	for _, name := range []string{"pyvenv.cfg", "conda-meta/history"} {
		if info, err := os.Lstat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// isInstallation tells whether a real directory is where Python was installed, by
// what it cannot start without.
func isInstallation(dir string) bool {
	for _, lib := range libs {
		entries, _ := os.ReadDir(filepath.Join(dir, lib))
		for _, e := range entries {
			if name := e.Name(); !e.IsDir() || !strings.HasPrefix(name, "python3") && !strings.HasPrefix(name, "pypy3") {
				continue
			}
			if info, err := os.Lstat(filepath.Join(dir, lib, e.Name(), "os.py")); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
	}
	return false
}

// wide tells whether a tree holds what an interpreter has no part in.
func (f *pythonFinder) wide(dir string) bool {
	b := f.b
	real := b.links.real(dir)
	for _, place := range slices.Concat(b.homes, []string{b.workdir, b.links.real(b.c.HermesHome)}) {
		if sandbox.Covers(real, place) || real == filepath.Join(place, ".local") {
			return true
		}
	}
	return slices.Contains(strings.Fields(shared), real)
}

// manager adds the trees of the version manager whose shim this is.
func (f *pythonFinder) manager(shim string) {
	home := f.b.c.Home
	roots := []string{
		getenv(f.b.c.Environ, "PYENV_ROOT"), filepath.Join(home, ".pyenv"),
		getenv(f.b.c.Environ, "ASDF_DATA_DIR"), getenv(f.b.c.Environ, "ASDF_DIR"), filepath.Join(home, ".asdf"),
		getenv(f.b.c.Environ, "MISE_DATA_DIR"), filepath.Join(home, ".local/share/mise"),
	}
	if dir := filepath.Dir(shim); filepath.Base(dir) == "shims" {
		roots = append(roots, filepath.Dir(dir))
	}
	for _, root := range roots {
		if filepath.IsAbs(root) && f.b.links.exists(root) && !f.wide(root) {
			f.both(root)
		}
	}
	for _, name := range []string{".tool-versions", ".asdfrc", ".config/mise"} {
		if name = filepath.Join(home, name); f.b.links.exists(name) {
			f.both(name)
		}
	}
	if !systemTree(shim) {
		f.add(shim)
	}
}

// systemTree tells whether a program is in the trees every profile can read.
func systemTree(name string) bool {
	for _, tree := range strings.Fields(systemTrees) {
		if sandbox.Covers(tree, name) {
			return true
		}
	}
	return false
}

func isScript(name string) bool {
	f, err := openRegular(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && string(magic[:]) == "#!"
}

// venvBase reads from pyvenv.cfg where the interpreter is that a venv was made
// from.
func venvBase(cfg string) string {
	f, err := openRegular(cfg)
	if err != nil {
		return ""
	}
	defer f.Close()
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for lines.Scan() {
		key, value, ok := strings.Cut(lines.Text(), "=")
		if value = strings.TrimSpace(value); ok && strings.TrimSpace(key) == "home" && filepath.IsAbs(value) {
			return value
		}
	}
	return ""
}
