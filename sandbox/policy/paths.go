package policy

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
)

// maxLinks is how many links one name may lead through, as for the kernel.
const maxLinks = 40

// resolver follows links, remembering what it looked at: most names share
// their directories.
type resolver struct {
	names map[string]element // in real directories
	trees map[string]place   // whole paths
}

// element is what one name in a real directory is.
type element struct {
	missing bool
	link    string // where it points, "" when it is no link
}

// place is where a path leads.
type place struct {
	real   string
	exists bool
}

// real is where a name leads: links are followed, also one that leads to
// nothing yet; from the first missing element on the name is kept.
func (r *resolver) real(name string) string { return r.find(name).real }

func (r *resolver) exists(name string) bool { return r.find(name).exists }

func (r *resolver) find(name string) place {
	if p, ok := r.trees[name]; ok {
		return p
	}
	// The directory is usually known, and the last element usually no link.
	var p place
	dir, base := path.Split(name)
	if len(dir) > 1 && base != "" && base != "." && base != ".." {
		parent := r.find(strings.TrimRight(dir, "/"))
		p = place{join(parent.real, base), false}
		if parent.exists {
			e := r.look(p.real)
			p.exists = !e.missing
			if e.link != "" {
				p = r.follow(p.real)
			}
		}
	} else {
		p = r.follow(name)
	}
	if r.trees == nil {
		r.trees = map[string]place{}
	}
	r.trees[name] = p
	return p
}

func join(dir, base string) string {
	if dir == "/" {
		return dir + base
	}
	return dir + "/" + base
}

// follow goes element by element, as the kernel does: what .. means depends on
// the links before it.
func (r *resolver) follow(name string) place { return r.walk(name, nil) }

// walk is follow that tells of every step that could lead elsewhere.
func (r *resolver) walk(name string, passed func(step)) place {
	p := place{"/", true}
	rest := strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		base := rest[0]
		rest = rest[1:]
		switch base {
		case "", ".":
			continue
		case "..":
			if passed != nil {
				passed(step{name: p.real})
			}
			p.real = path.Dir(p.real)
			continue
		}
		next := join(p.real, base)
		e := element{missing: !p.exists}
		if p.exists {
			e = r.look(next)
		}
		if e.link == "" || links == maxLinks {
			p = place{next, p.exists && !e.missing}
			continue
		}
		if links++; passed != nil {
			passed(step{next, true})
		}
		rest = append(strings.Split(e.link, "/"), rest...)
		if path.IsAbs(e.link) {
			p.real = "/"
		}
	}
	return p
}

func (r *resolver) look(name string) element {
	if e, ok := r.names[name]; ok {
		return e
	}
	var e element
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		e.missing = errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) // what cannot be looked at may exist
	case info.Mode()&fs.ModeSymlink != 0:
		e.link, _ = os.Readlink(name)
	}
	if r.names == nil {
		r.names = map[string]element{}
	}
	r.names[name] = e
	return e
}

// at is a name in its real directory: only its last element may be a link.
func (r *resolver) at(name string) string {
	name = strings.TrimRight(name, "/")
	dir, base := path.Split(name)
	if base == "" || base == "." || base == ".." {
		return r.real(name)
	}
	return join(r.real(strings.TrimRight(dir, "/")), base)
}

// both are the place itself, in its real directory, and where it leads when it
// is a link.
func (r *resolver) both(name string) []string {
	target := r.real(name)
	if at := r.at(name); at != target {
		return []string{at, target}
	}
	return []string{target}
}

// expand makes a path of a policy absolute: ~ is the home, . the work dir.
// Relative ones are refused unless they may lie below the work dir.
func (b *builder) expand(name string, relative bool) (string, error) {
	if err := literal(name); err != nil {
		return "", err
	}
	switch first, rest, _ := strings.Cut(name, "/"); {
	case first == "":
		return filepath.Clean(name), nil
	case first == "~":
		return filepath.Join(b.c.Home, rest), nil
	case first == ".":
		return filepath.Join(b.workdir, rest), nil
	case first[0] == '~':
		return "", refuse("%q: only ~ and ~/… can be resolved; write the path in full", clip(name))
	}
	if relative {
		return filepath.Join(b.workdir, name), nil
	}
	return "", refuse("%q is relative: want /…, ~/…, or ./… for the work dir", clip(name))
}

// literal refuses what could mean more than one path, or none.
func literal(name string) error {
	const maxPath = 4095 // Linux' PATH_MAX without the NUL
	switch {
	case name == "":
		return refuse("an empty path")
	case len(name) > maxPath:
		return refuse("%q is longer than %d bytes", clip(name), maxPath)
	case strings.ContainsAny(name, "\x00\n\r"):
		return refuse("%q: a path has no NUL and no line break", clip(name))
	case strings.ContainsAny(name, "*?["):
		return refuse("%q: paths are literal; * ? and [ have no meaning here", clip(name))
	}
	for i, part := range strings.Split(name, "/") {
		if part == ".." || part == "." && i > 0 {
			return refuse("%q: write it without %q", clip(name), part)
		}
	}
	return nil
}
