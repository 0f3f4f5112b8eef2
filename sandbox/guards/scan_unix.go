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
	// Closed are paths, absolute, that the run was not to change: where it could
	// after all, they count, and every file in them.
	Closed []string
	// Before are the root's directories as they were when the run began, nil if that
	// is not known: what is still there was not moved there. The root itself changes
	// with every reservation.
	Before Directories
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
// which a script cannot set. What was renamed together with its directory keeps
// its times: where a directory and its parent changed, everything below counts
// as changed, and is listed as moved. Shallow directories come first, so that a budget
// which is too small costs the deep ones; complete is false when something was
// not seen. When there is more than the list may hold, its entry for root says
// how much. Nothing is opened but directories, and none through a link. A link is
// judged by what it stands for; where one was there before, and leads to a place
// in root, that is looked at as what the link makes of it.
func Scan(ctx context.Context, root string, since time.Time, o ScanOptions) (list []sandbox.FutureInput, complete bool, err error) {
	fd, _, err := openRoot(root)
	if err != nil {
		return nil, false, fmt.Errorf("guards: scan: %w", err)
	}
	defer unix.Close(fd)
	o = o.orDefaults()
	s := &scan{
		ScanOptions: o, ctx: ctx, root: fd, path: root, names: usualNames(), complete: true,
		since: since.Add(-clockGrain).UnixNano(), deadline: time.Now().Add(o.Budget),
		queue: []place{{name: ".", as: "."}}, through: map[through]bool{}, guarded: map[string]bool{}, closed: map[string]bool{}, buf: make([]byte, 32<<10),
	}
	for _, p := range o.Guarded {
		if rel, err := filepath.Rel(root, p); err == nil {
			s.guarded[rel] = true
		}
	}
	for _, p := range o.Closed {
		rel, err := filepath.Rel(root, p)
		if parent := path.Dir(rel); err != nil || path.Base(parent) == "worktrees" {
			continue // git works in those
		}
		s.closed[rel] = true
		for rel != "." && rel != "/" && !strings.HasPrefix(rel, "..") {
			rel = path.Dir(rel)
			s.ways = append(s.ways, rel)
		}
	}
	for (len(s.queue) > 0 || len(s.after) > 0) && s.goOn() {
		if len(s.queue) == 0 {
			s.queue, s.after, s.again = s.after, nil, true
		}
		p := s.queue[0]
		s.queue = s.queue[1:]
		s.visit(p)
	}
	s.again = s.again || len(s.late) > 0
	for _, f := range s.late {
		s.add(f.Path, f.Why)
	}
	for _, m := range s.moves {
		s.addMoved(m)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, false, fmt.Errorf("guards: scan %s: %w", root, err)
	}
	return s.result(), s.complete, nil
}

// placeKind is what a directory is to the scan.
type placeKind int

const (
	plain      placeKind = iota
	whole                // every file in it counts
	gitDir               // a repository's own directory
	gitHook              // its hooks
	gitInfo              // its info
	gitObjects           // its objects
	gitModules           // its submodules' repositories
	cmdDir               // programs for PATH
	nodeMod              // node_modules
	pySite               // site-packages
)

// place is a directory that is still to be visited.
type place struct {
	name  string // relative to the root
	as    string // where a link puts it, else name: what its name says goes by that
	kind  placeKind
	why   string // of whole
	depth int
	hops  int    // links on the way here
	flat  bool   // of whole: not what is below it
	above bool   // its parent's list of names changed
	moved *moved // the tree that it is in may have been put here as it is
}

// byLink reports whether a place is looked at as what a link to it is.
func (p *place) byLink() bool { return p.hops > 0 && p.as != p.name }

// moved is a tree that may have been put in its place as it is: by a rename,
// which the files in it do not show. The directory's own change time and its
// parent's do, but so they do when something was made in both, and a script can
// make the two look alike. So what counts in it is listed, as one if it is much.
type moved struct {
	name  string
	found []sandbox.FutureInput // Path is below the root; at most manyInOne
	count int
	many  bool // more than one reason
}

func (m *moved) note(name, why string) {
	if m.count++; m.count <= manyInOne {
		m.found = append(m.found, sandbox.FutureInput{Path: name, Why: why})
	}
	m.many = m.many || why != m.found[0].Why
}

type scan struct {
	ScanOptions
	ctx      context.Context
	root     int
	path     string
	names    *names
	guarded  map[string]bool
	closed   map[string]bool
	ways     []string // to what is closed
	since    int64
	deadline time.Time
	queue    []place
	moves    []*moved
	after    []place // what links lead to, when the rest was seen
	late     []sandbox.FutureInput
	through  map[through]bool
	again    bool // some are seen a second time
	stats    int  // names looked at for links
	over     bool
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
	_, ctime, err := statEntry(fd, []byte(".\x00")[:1])
	if err != nil {
		s.complete = false
		return
	}
	d := &dir{scan: s, place: p, fd: fd, fresh: ctime >= s.since}
	if d.moved == nil && d.fresh && p.above && !(p.depth == 1 && s.Before.has(p.name, fd)) {
		d.moved = s.newMoved(p.name)
	}
	if path.Base(p.name)[0] == '-' && (d.fresh || d.moved != nil) {
		s.add(p.name, whyOption)
	}
	if err := d.read(); err != nil {
		s.complete = false
	}
	if d.isRepository() {
		d.kind = gitDir                // a bare one, or a submodule's
		if d.fresh && d.moved == nil { // and perhaps from now on: what was no matter in it counts
			d.moved = s.newMoved(p.name)
		}
		if _, err := unix.Seek(fd, 0, 0); err != nil || d.read() != nil {
			s.complete = false
		}
	}
	d.finish()
}

// newMoved begins a tree that is taken for moved.
func (s *scan) newMoved(name string) *moved {
	m := &moved{name: name}
	s.moves = append(s.moves, m)
	return m
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
	if s.again && slices.ContainsFunc(s.list, func(f sandbox.FutureInput) bool { return f.Path == filepath.Join(s.path, name) }) {
		return
	}
	if len(s.list) >= s.List {
		s.more++
		return
	}
	s.list = append(s.list, sandbox.FutureInput{Path: filepath.Join(s.path, name), Why: why})
}

// addMoved adds what counts in a tree that may have been put there.
func (s *scan) addMoved(m *moved) {
	switch {
	case m.count <= manyInOne:
		for _, f := range m.found {
			s.add(f.Path, f.Why+"; "+whyMoved)
		}
	case m.many:
		s.add(m.name, fmt.Sprintf("%d files that are run or trusted later, such as %q: %s; %s",
			m.count, strings.TrimPrefix(m.found[0].Path, m.name+"/"), m.found[0].Why, whyMoved))
	default:
		s.add(m.name, fmt.Sprintf("%d files: %s; %s", m.count, m.found[0].Why, whyMoved))
	}
}

func (s *scan) result() []sandbox.FutureInput {
	slices.SortFunc(s.list, func(a, b sandbox.FutureInput) int { return strings.Compare(a.Path, b.Path) })
	if s.more > 0 {
		more := sandbox.FutureInput{Path: s.path, Why: fmt.Sprintf("%d more such files are below it than are listed", s.more)}
		s.list = slices.Insert(s.list, 0, more)
	}
	return s.list
}
