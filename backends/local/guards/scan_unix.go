//go:build unix

package guards

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// ScanOptions bounds a scan. Its zero value is the usual one.
type ScanOptions struct {
	Budget  time.Duration // after which it ends where it is; default 50 ms
	Entries int           // names looked at; default 1,000,000
	Depth   int           // directories below the root; default 64
	List    int           // results; default 100
	// Guarded are paths, absolute, that the run could not change: they and what
	// is below them are left out.
	Guarded []string
	// Deep enters node_modules and site-packages as well. Without it only their
	// .bin and start-up files are seen.
	Deep bool
}

func (o ScanOptions) orDefaults() ScanOptions {
	if o.Budget <= 0 {
		o.Budget = 50 * time.Millisecond
	}
	if o.Entries <= 0 {
		o.Entries = 1_000_000
	}
	if o.Depth <= 0 {
		o.Depth = 64
	}
	if o.List <= 0 {
		o.List = 100
	}
	return o
}

// clockGrain is how far a file system's clock can be behind the system's: a
// tick of the slowest kernel.
const clockGrain = 10 * time.Millisecond

// manyInOne is how many files of one directory, all with the same reason, are
// listed one by one.
const manyInOne = 8

// Scan lists what was made or changed in root, a real path, at or after since
// and will be run or trusted later, sorted by path. It goes by the change time,
// which a script cannot set. Shallow directories come first, so that a budget
// which is too small costs the deep ones; complete is false when something was
// not seen. When there is more than the list may hold, its entry for root says
// how much. Nothing is opened but directories, and no link is followed.
func Scan(ctx context.Context, root string, since time.Time, o ScanOptions) (list []sandbox.FutureInput, complete bool, err error) {
	fd, _, err := openRoot(root)
	if err != nil {
		return nil, false, fmt.Errorf("guards: scan: %w", err)
	}
	defer unix.Close(fd)
	o = o.orDefaults()
	s := &scan{
		ScanOptions: o, ctx: ctx, root: fd, path: root, names: newNames(), complete: true,
		since: since.Add(-clockGrain).UnixNano(), deadline: time.Now().Add(o.Budget),
		queue: []place{{name: "."}}, guarded: map[string]bool{}, buf: make([]byte, 32<<10),
	}
	for _, p := range o.Guarded {
		if rel, err := filepath.Rel(root, p); err == nil {
			s.guarded[rel] = true
		}
	}
	for len(s.queue) > 0 && s.goOn() {
		p := s.queue[0]
		s.queue = s.queue[1:]
		s.visit(p)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, false, fmt.Errorf("guards: scan %s: %w", root, err)
	}
	return s.result(), s.complete, nil
}

// placeKind is what a directory is to the scan.
type placeKind int

const (
	plain   placeKind = iota
	whole             // every file in it counts
	gitDir            // a repository's own directory
	gitHook           // its hooks
	nodeMod           // node_modules
	pySite            // site-packages
)

// place is a directory that is still to be visited.
type place struct {
	name  string // relative to the root
	kind  placeKind
	why   string // of whole
	depth int
	above bool // its parent's list of names changed
	moved bool // it, or what it counts with, may have been put here as it is
}

type scan struct {
	ScanOptions
	ctx      context.Context
	root     int
	path     string
	names    *names
	guarded  map[string]bool
	since    int64
	deadline time.Time
	queue    []place
	buf      []byte
	seen     int
	list     []sandbox.FutureInput
	more     int
	complete bool
}

// goOn reports whether there is time left.
func (s *scan) goOn() bool {
	if s.seen <= s.Entries && time.Now().Before(s.deadline) && s.ctx.Err() == nil {
		return true
	}
	s.complete = false
	return false
}

// entryKind is the type of a directory's entry.
type entryKind uint8

const (
	entryUnknown entryKind = iota
	entryOther
	entryFile
	entryDir
	entryLink
)

func kindOf(mode uint32) entryKind {
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return entryDir
	case unix.S_IFREG:
		return entryFile
	case unix.S_IFLNK:
		return entryLink
	}
	return entryOther
}

// visit lists what counts in a directory and queues the ones in it.
func (s *scan) visit(p place) {
	if s.guarded[p.name] {
		return
	}
	fd, err := openBeneath(s.root, p.name)
	if err != nil {
		s.unopened(p, err)
		return
	}
	defer unix.Close(fd)
	_, ctime, err := statEntry(fd, []byte(".\x00"))
	if err != nil {
		s.complete = false
		return
	}
	d := &dir{scan: s, place: p, fd: fd, fresh: ctime >= s.since}
	d.moved = p.moved || d.fresh && p.above
	if err := d.read(); err != nil {
		s.complete = false
	}
	if p.kind == plain && d.isRepository() {
		d.kind = gitDir // a bare one
		if _, err := unix.Seek(fd, 0, 0); err != nil || d.read() != nil {
			s.complete = false
		}
	}
	d.finish()
}

// unopened decides whether a directory that could not be opened is a gap.
func (s *scan) unopened(p place, err error) {
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return // it is gone, or it is no directory any more
	case errors.Is(err, unix.EACCES):
		// Another user's closed directory is closed to the box as well.
		t := newTree(s.root)
		defer t.close()
		if n, err := t.stat(p.name); err == nil && int(n.uid) != unix.Geteuid() {
			return
		}
	}
	s.complete = false
}

func (s *scan) add(name, why string) {
	if s.guarded[name] {
		return
	}
	if len(s.list) >= s.List {
		s.more++
		return
	}
	s.list = append(s.list, sandbox.FutureInput{Path: filepath.Join(s.path, name), Why: why})
}

func (s *scan) result() []sandbox.FutureInput {
	slices.SortFunc(s.list, func(a, b sandbox.FutureInput) int { return strings.Compare(a.Path, b.Path) })
	if s.more > 0 {
		more := sandbox.FutureInput{Path: s.path, Why: fmt.Sprintf("%d more such files are below it than are listed", s.more)}
		s.list = slices.Insert(s.list, 0, more)
	}
	return s.list
}

// dir is a directory that is being visited.
type dir struct {
	*scan
	place
	fd    int
	fresh bool
	subs  []string
	found []sandbox.FutureInput // Path is the name
	have  gitParts
	venv  bool
}

// gitParts are the entries by which git knows a repository.
type gitParts struct{ head, config, common, objects, refs, headFresh bool }

// isRepository reports whether git takes the directory itself for one.
func (d *dir) isRepository() bool {
	return d.have.head && (d.have.common || d.have.objects && d.have.refs)
}

func (d *dir) read() error {
	d.subs = d.subs[:0]
	return entries(d.fd, d.buf, func(name []byte, kind entryKind) bool {
		d.seen++
		d.entry(name, kind)
		return d.seen%256 != 0 || d.goOn()
	})
}

func (d *dir) entry(name []byte, kind entryKind) {
	var mode uint32
	var ctime int64
	if kind != entryDir {
		var err error
		if mode, ctime, err = statEntry(d.fd, name); err != nil {
			if err != unix.ENOENT {
				d.complete = false
			}
			return
		}
		kind = kindOf(mode)
	}
	d.know(name, kind, ctime >= d.since)
	if kind == entryDir {
		d.subs = append(d.subs, string(name))
		return
	}
	changed := ctime >= d.since
	counts := changed || d.moved && d.kind != plain
	if !counts {
		return
	}
	why := d.why1(name)
	switch {
	case kind == entryFile && changed && (mode&unix.S_ISUID != 0 || mode&(unix.S_ISGID|0o010) == unix.S_ISGID|0o010):
		why = whySetuid
	case kind == entryLink && why == "":
		why = d.names.dir(string(name))
		if why == "" && changed {
			why = d.outside(string(name))
		}
	case kind == entryOther:
		why = "" // a pipe or a socket is not run
	}
	if why != "" {
		d.note(string(name), why)
	}
}

// note notes a name once, the first reason counts.
func (d *dir) note(name, why string) {
	if d.kind == gitDir && slices.ContainsFunc(d.found, func(f sandbox.FutureInput) bool { return f.Path == name }) {
		return // of the second reading
	}
	d.found = append(d.found, sandbox.FutureInput{Path: name, Why: why})
}

// know notes what says what the directory is.
func (d *dir) know(name []byte, kind entryKind, changed bool) {
	isDir := kind == entryDir || kind == entryLink // git follows links here
	switch string(name) {
	case "HEAD":
		d.have.head = true
		d.have.headFresh = changed && kind != entryDir
	case "config":
		d.have.config = kind != entryDir
	case "commondir":
		d.have.common = kind != entryDir
	case "objects":
		d.have.objects = isDir
	case "refs":
		d.have.refs = isDir
	case "pyvenv.cfg":
		d.venv = kind != entryDir
	}
}

// why1 says why a file of that name counts in this directory.
func (d *dir) why1(name []byte) string {
	switch d.kind {
	case whole:
		return d.why
	case gitHook:
		if !strings.HasSuffix(string(name), ".sample") {
			return whyGitHook
		}
		return ""
	case gitDir:
		switch string(name) {
		case "config", "config.worktree":
			return whyGitConfig
		case "commondir", "gitdir", "hooks", "worktrees", "modules":
			return whyGitPlace // hooks and the like: as links
		}
	case pySite:
		if strings.HasSuffix(string(name), ".pth") {
			return whySitePath
		}
	}
	if string(name) == ".git" {
		return whyGitPlace
	}
	if d.kind == nodeMod {
		return ""
	}
	return d.names.file(name)
}

// outside says why a link counts that leads out of the root, "" if it does not.
func (d *dir) outside(name string) string {
	var buf [4096]byte
	n, err := unix.Readlinkat(d.fd, name, buf[:])
	if err != nil {
		return ""
	}
	target := string(buf[:n])
	if !filepath.IsAbs(target) {
		target = filepath.Join(d.path, d.place.name, target)
	}
	target = filepath.Clean(target)
	if target == d.path || strings.HasPrefix(target, strings.TrimSuffix(d.path, "/")+"/") {
		return ""
	}
	return d.names.link(target)
}

// finish reports what was found and queues the directories.
func (d *dir) finish() {
	if d.kind == gitDir && d.have.config && (d.moved || d.have.headFresh && d.place.name != ".git") {
		d.note("config", whyGitConfig)
	}
	if len(d.found) > manyInOne && (d.kind == whole || d.kind == gitHook) {
		d.add(d.place.name, fmt.Sprintf("%d files: %s", len(d.found), d.found[0].Why))
	} else {
		for _, f := range d.found {
			d.add(path.Join(d.place.name, f.Path), f.Why)
		}
	}
	for _, name := range d.subs {
		p := place{name: path.Join(d.place.name, name), depth: d.depth + 1, above: d.fresh}
		if !d.enter(&p, name) {
			continue
		}
		if p.depth > d.Depth {
			d.complete = false
			continue
		}
		d.queue = append(d.queue, p)
	}
}

// enter says what a directory in this one is, and whether to visit it.
func (d *dir) enter(p *place, name string) bool {
	base := path.Base(d.place.name)
	for _, in := range inputsBelow {
		if in.parent == base && in.name == name {
			p.kind, p.why, p.moved = whole, in.why, d.moved
			return true
		}
	}
	switch {
	case d.kind == whole:
		p.kind, p.why, p.moved = whole, d.why, d.moved
	case d.names.dirs[name] != "":
		p.kind, p.why = whole, d.names.dirs[name]
	case name == ".git":
		p.kind = gitDir
	case d.kind == gitDir && name == "hooks":
		p.kind, p.moved = gitHook, d.moved
	case d.kind == gitDir && (name == "objects" || name == "refs" || name == "logs"):
		return false
	case d.venv && (name == "bin" || name == "Scripts"):
		p.kind, p.why = whole, whyVenv
	case name == "node_modules":
		p.kind = nodeMod
	case name == "site-packages" || name == "dist-packages":
		p.kind = pySite
	case d.kind == nodeMod || d.kind == pySite:
		return d.Deep
	}
	return true
}
