//go:build unix

package guards

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// link is a symbolic link in a directory that is being visited.
type link struct {
	name, why string // why it counts as a file
	changed   bool
}

// led is what a link leads to.
type led struct {
	name    string // relative to the root and without links; absolute if it is outside
	mode    uint32 // 0 if there is nothing
	ctime   int64
	outside bool
	moved   bool // something on the way may be another one than before
}

// maxHops is how many links the kernel follows in one name.
const maxHops = 40

// link decides on a link. One that was made or changed counts if what it stands
// for does. Of one that was there before, what it leads to is looked through.
func (d *dir) link(l link) {
	p := d.below(l.name)
	p.moved = nil
	visit := d.enter(&p, l.name)
	way := d.names.way(p.as)
	if !l.changed && d.moved == nil {
		if l.why != "" || visit && p.kind != plain || way {
			d.lookThrough(l, p)
		}
		return
	}
	if l.why == "" {
		l.why = d.whyLink(&p, l.name)
	}
	if l.why == "" {
		to := d.follow(l.name)
		switch {
		case to.outside:
			l.why = d.names.link(to.name)
		case !visit || d.Deep || to.mode&unix.S_IFMT != unix.S_IFDIR:
		case unseen(to.name):
			l.why = whyUnseen
		}
		if l.why == "" && way {
			p.moved = d.newMoved(p.name)
			d.lookThrough(l, p)
		}
	}
	switch {
	case l.why == "":
	case l.changed:
		d.found = d.note(d.found, l.name, l.why)
	default:
		d.old = d.note(d.old, l.name, l.why)
	}
}

// whyLink says why a link counts by what a directory in its place is.
func (d *dir) whyLink(p *place, name string) string {
	switch p.kind {
	case whole:
		return p.why
	case gitDir, gitModules:
		return whyGitPlace
	case cmdDir:
		return whyCommand
	case pySite:
		return whySitePath
	}
	if slices.Contains(d.ways, p.name) {
		return whyClosed
	}
	return d.names.dir(name)
}

// lookThrough has what a link leads to looked at as what the link stands for.
// What is outside is not the run's.
func (d *dir) lookThrough(l link, p place) {
	if p.hops++; p.hops > 8 {
		d.complete = false
		return
	}
	to := d.follow(l.name)
	if to.outside || to.mode == 0 || d.guardedAt(to.name) {
		return
	}
	above, moved := d.arrived(path.Dir(to.name))
	moved = moved || to.moved
	switch {
	case to.mode&unix.S_IFMT == unix.S_IFREG && l.why != "" && (d.kind != cmdDir || executable(to.mode)):
		if to.ctime >= d.since {
			d.late = append(d.late, sandbox.FutureInput{Path: to.name, Why: l.why})
		} else if moved {
			d.newMoved(to.name).note(to.name, l.why)
		}
	case to.mode&unix.S_IFMT == unix.S_IFDIR && (p.kind != plain || d.names.way(p.as)):
		key := through{to.name, p.why, "", p.kind}
		if p.kind == plain || p.kind == nodeMod {
			key.as = path.Base(p.as)
		}
		if d.through[key] {
			return
		}
		d.through[key] = true
		// A tree that the link itself is in would be looked through as a whole.
		p.flat = to.name == "." || d.place.name == to.name || strings.HasPrefix(d.place.name, to.name+"/")
		p.name, p.above = to.name, above
		if p.depth = strings.Count(to.name, "/") + 1; to.name == "." {
			p.depth = 0
		}
		if moved && p.moved == nil {
			p.moved = d.newMoved(to.name)
		}
		d.after = append(d.after, p)
	}
}

// through is what was looked through by way of a link, and as what.
type through struct {
	name, why, as string
	kind          placeKind
}

// follow finds where a link leads, without leaving the root.
func (d *dir) follow(name string) (to led) {
	at, rest := filepath.Join(d.path, d.place.name), name
	for hops := 0; rest != ""; {
		var step string
		step, rest, _ = strings.Cut(rest, "/")
		switch step {
		case "", ".":
			continue
		case "..":
			at, to.mode = filepath.Dir(at), unix.S_IFDIR
			continue
		}
		next := filepath.Join(at, step)
		if beneath(next, d.path) { // on the way to the root, which is a real path
			at, to.mode = next, unix.S_IFDIR
			continue
		}
		if !beneath(d.path, next) {
			return led{name: next + "/" + rest, outside: true}
		}
		rel := strings.TrimPrefix(next[len(d.path):], "/")
		mode, ctime, err := d.stat(rel)
		if err != nil { // it may be made later
			next = filepath.Join(next, rest)
			return led{name: next, outside: !beneath(d.path, next)}
		}
		if mode&unix.S_IFMT != unix.S_IFLNK {
			at, to.mode, to.ctime = next, mode, ctime
			continue
		}
		var buf [4096]byte
		n, err := unix.Readlinkat(d.root, rel, buf[:])
		if hops++; err != nil || hops > maxHops {
			return led{}
		}
		if hops > 1 { // another link than the one that is asked for
			_, moved := d.arrived(path.Dir(rel))
			to.moved = to.moved || moved || ctime >= d.since
		}
		if rest = string(buf[:n]) + "/" + rest; rest[0] == '/' {
			at = "/"
		}
		to.mode = unix.S_IFDIR
	}
	if to.outside = !beneath(d.path, at); to.outside {
		to.name = at
		return to
	}
	if to.name = strings.TrimPrefix(at[len(d.path):], "/"); to.name == "" {
		to.name = "."
	}
	return to
}

// beneath reports whether a clean path is dir or below it.
func beneath(dir, name string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// arrived reports whether a directory's list of names changed, and whether it, or
// one above it, may have been moved there.
func (s *scan) arrived(name string) (fresh, moved bool) {
	_, ctime, err := s.stat(".")
	above := err == nil && ctime >= s.since
	if name == "." {
		return above, false
	}
	for end := 0; end < len(name); end++ {
		if next := strings.IndexByte(name[end:], '/'); next >= 0 {
			end += next
		} else {
			end = len(name)
		}
		_, ctime, err = s.stat(name[:end])
		fresh = err == nil && ctime >= s.since
		moved = moved || fresh && above && !(!strings.Contains(name[:end], "/") && s.wasThere(name[:end]))
		above = fresh
	}
	return fresh, moved
}

// stat returns mode and ctime of a name below the root, until the time is over:
// one directory can have many links, and one link a long way.
func (s *scan) stat(name string) (mode uint32, ctime int64, err error) {
	if s.stats++; s.over || s.stats%64 == 0 && !s.goOn() {
		s.over = true
		return 0, 0, unix.ETIME
	}
	return statEntry(s.root, append([]byte(name), 0)[:len(name)])
}

// wasThere is Before.has for a directory of the root by its name.
func (s *scan) wasThere(name string) bool {
	fd, err := openBeneath(s.root, name)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return s.Before.has(name, fd)
}

// guardedAt reports whether the run could not change a place.
func (s *scan) guardedAt(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if s.guarded[name] {
			return true
		}
	}
	return s.guarded["."]
}

// unseen reports whether the scan does not enter a directory by itself.
func unseen(name string) bool {
	for step := range strings.SplitSeq(path.Dir(name), "/") {
		if step == "node_modules" || step == "site-packages" || step == "dist-packages" {
			return true
		}
	}
	return false
}
