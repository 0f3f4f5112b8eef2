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
// what these lead to. What the system's trees hold is not listed.
func (b *builder) interpreters() []string {
	f := pythonFinder{b: b}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if dir := getenv(b.c.Environ, name); filepath.IsAbs(dir) {
			f.python(filepath.Join(dir, "bin/python"), 0)
			f.python(filepath.Join(dir, "bin/python3"), 0)
		}
	}
	named := b.c.Python
	switch {
	case named == "":
	case filepath.IsAbs(named):
		f.python(named, 0)
	case strings.HasPrefix(named, "~/"):
		f.python(filepath.Join(b.c.Home, named[2:]), 0)
	case strings.Contains(named, "/"):
		f.python(filepath.Join(b.workdir, named), 0)
	}
	for _, dir := range filepath.SplitList(getenv(b.c.Environ, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		f.python(filepath.Join(dir, "python3"), 0)
		if named != "" && !strings.Contains(named, "/") {
			f.python(filepath.Join(dir, named), 0)
		}
	}
	return f.trees
}

type pythonFinder struct {
	b     *builder
	trees []string
	seen  []string
}

func (f *pythonFinder) add(place string) {
	for _, name := range f.b.links.both(place) {
		f.trees = appendNew(f.trees, name)
	}
}

// python adds what one interpreter needs.
func (f *pythonFinder) python(name string, depth int) {
	name = filepath.Clean(name)
	if depth > 4 || slices.Contains(f.seen, name) || !f.b.links.exists(name) {
		return
	}
	f.seen = append(f.seen, name)
	real := f.b.links.real(name)
	ours := sandbox.Covers(f.b.workdir, name) || sandbox.Covers(f.b.private, name)
	if ours && !sandbox.Covers(f.b.workdir, real) && !isPython(real) {
		return // a script may have put the link there
	}
	if isScript(real) {
		f.manager(real)
		return
	}
	// bin/python of a venv is a link to the interpreter it was made from; both
	// prefixes are needed, and every link on the way.
	f.prefix(name)
	for link, n := name, 0; n < maxLinks; n++ {
		target, err := os.Readlink(link)
		if err != nil {
			break
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(link), target)
		}
		link = target
		if ours && !sandbox.Covers(f.b.workdir, link) {
			f.add(link)
		} else {
			f.prefix(link)
		}
	}
	f.prefix(real)
	if base := venvBase(filepath.Join(filepath.Dir(filepath.Dir(name)), "pyvenv.cfg")); base != "" {
		f.python(filepath.Join(base, filepath.Base(real)), depth+1)
		f.python(filepath.Join(base, "python3"), depth+1)
	}
}

// isPython tells whether a file is an interpreter by its name, place and kind.
func isPython(name string) bool {
	dir, base := filepath.Split(name)
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && filepath.Base(dir) == "bin" &&
		strings.HasPrefix(base, "python") && !isScript(name)
}

// prefix adds the tree that bin/python stands in. One that holds more than an
// interpreter, such as ~ or ~/.local, is named by its parts.
func (f *pythonFinder) prefix(python string) {
	python = filepath.Clean(python)
	dir := filepath.Dir(filepath.Dir(python))
	if systemTree(python) {
		return
	}
	if filepath.Base(filepath.Dir(python)) == "bin" && !f.wide(dir) {
		f.add(dir)
		return
	}
	f.add(python)
	for _, lib := range []string{"lib", "lib64"} {
		entries, _ := os.ReadDir(filepath.Join(dir, lib))
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "python3") || strings.HasPrefix(e.Name(), "libpython3") {
				f.add(filepath.Join(dir, lib, e.Name()))
			}
		}
	}
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
			f.add(root)
		}
	}
	for _, name := range []string{".tool-versions", ".asdfrc", ".config/mise"} {
		if name = filepath.Join(home, name); f.b.links.exists(name) {
			f.add(name)
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
