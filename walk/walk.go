package walk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"sync"
	"sync/atomic"
)

// Options say which files of a tree a walk sees. The zero value sees what
// ripgrep does by default.
type Options struct {
	Hidden   bool    // also names that start with a dot; what is in .git stays out
	NoIgnore bool    // heed no ignore file
	Globs    []*Glob // only files that fit all of these
	// Skip leaves out a file or, with all below it, a directory. name is
	// absolute. It is called from several goroutines at once.
	Skip     func(name string, dir bool) bool
	MaxDepth int // 1 means the entries of the root alone; 0 is no bound
	Workers  int // goroutines; 0 means one for each processor
}

// Entry is a file that a walk found.
type Entry struct {
	fs.DirEntry
	Path string // relative to the root
	Full string // absolute
}

// Stats tells how a walk went.
type Stats struct {
	Files      int // that were seen
	Unreadable int // files and directories that could not be read
}

// Walk calls fn for each regular file under root that opt lets through, from
// several goroutines at once and in no order. root is an absolute path without
// links; it is walked even when it is hidden or ignored itself. Links are never
// followed. The first error of fn ends the walk and is returned; so does the
// cause of a done ctx. What cannot be read is counted, not an error, but for
// root itself.
func Walk(ctx context.Context, fsys FS, root string, opt Options, fn func(Entry) error) (Stats, error) {
	w := &walker{fsys: fsys, opt: opt, fn: fn}
	w.ctx, w.stop = context.WithCancelCause(ctx)
	defer w.stop(nil)
	w.wake = sync.NewCond(&w.mu)

	var f *frame
	if !opt.NoIgnore {
		f = above(w.ctx, fsys, root)
	}
	entries, err := fsys.ReadDir(w.ctx, root)
	if err != nil {
		return Stats{}, fmt.Errorf("walk: %w", err)
	}
	w.todo = []task{{full: root, frame: f, entries: entries, listed: true}}

	workers := opt.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	var group sync.WaitGroup
	for range workers {
		group.Go(w.work)
	}
	group.Wait()
	stats := Stats{Files: int(w.files.Load()), Unreadable: int(w.unreadable.Load())}
	if w.ctx.Err() != nil {
		return stats, context.Cause(w.ctx)
	}
	return stats, nil
}

// shown reports whether a walk of root under opt would come to the file at
// rel. It is for judging a single name that somebody else found.
func shown(ctx context.Context, fsys FS, root, rel string, opt Options) bool {
	found := false
	f := above(ctx, fsys, root)
	dir := root
	for len(rel) > 0 {
		entries, err := fsys.ReadDir(ctx, dir)
		if err != nil {
			return false
		}
		f = f.child(ctx, fsys, dir, bearing(entries))
		name, rest := cutComponent(rel)
		full := path.Join(dir, name)
		if !opt.shows(f, full, name, rest != "") {
			return false
		}
		dir, rel, found = full, rest, true
	}
	return found
}

func cutComponent(rel string) (first, rest string) {
	for i := range len(rel) {
		if rel[i] == '/' {
			return rel[:i], rel[i+1:]
		}
	}
	return rel, ""
}

// shows says whether the rules let a name through: what an ignore file says
// goes before what being hidden says.
func (opt *Options) shows(f *frame, full, name string, dir bool) bool {
	if opt.Hidden && name == ".git" {
		return false
	}
	v := undecided
	if f != nil {
		v = f.judge(full, name, dir)
	}
	if v == ignored || v == undecided && !opt.Hidden && name[0] == '.' {
		return false
	}
	return opt.Skip == nil || !opt.Skip(full, dir)
}

func bearing(entries []fs.DirEntry) (has ignoreNames) {
	for _, e := range entries {
		if name := e.Name(); len(name) > 0 && name[0] == '.' {
			has.see(name)
		}
	}
	return has
}

// batch is how many files of one directory are a task of their own, so that
// several workers can share a large one.
const batch = 64

// task is a directory to list, or files of one that was listed.
type task struct {
	full, rel string // of the directory
	depth     int
	frame     *frame
	entries   []fs.DirEntry // when listed
	listed    bool          // the entries are there, not yet judged
	judged    bool          // the entries are files to hand to fn
}

// walker is the state of one walk: a stack of tasks and those who work it off.
// A stack rather than a queue keeps few directories open to work at a time.
type walker struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	fsys FS
	opt  Options
	fn   func(Entry) error

	mu   sync.Mutex
	wake *sync.Cond
	todo []task
	busy int

	files, unreadable atomic.Int64
}

func (w *walker) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		for len(w.todo) == 0 && w.busy > 0 {
			w.wake.Wait()
		}
		if len(w.todo) == 0 {
			w.wake.Broadcast()
			return
		}
		t := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		w.busy++
		w.mu.Unlock()
		more := w.do(t)
		w.mu.Lock()
		w.busy--
		w.todo = append(w.todo, more...)
		if len(more) > 0 || w.busy == 0 {
			w.wake.Broadcast()
		}
	}
}

// do works off one task and returns what it leads to.
func (w *walker) do(t task) []task {
	if w.ctx.Err() != nil {
		return nil
	}
	if t.judged {
		w.hand(t)
		return nil
	}
	if !t.listed {
		entries, err := w.fsys.ReadDir(w.ctx, t.full)
		if err != nil {
			w.unreadable.Add(1)
			return nil
		}
		t.entries = entries
	}
	return w.judge(t)
}

// judge sorts the entries of a directory into those to see, those to descend
// into and those to leave out.
func (w *walker) judge(t task) (more []task) {
	if !w.opt.NoIgnore {
		t.frame = t.frame.child(w.ctx, w.fsys, t.full, bearing(t.entries))
	}
	files := t.entries[:0]
	for _, e := range t.entries {
		kind, name := e.Type(), e.Name()
		if !kind.IsDir() && !kind.IsRegular() || name == "" {
			continue
		}
		full := join(t.full, name)
		if !w.opt.shows(t.frame, full, name, kind.IsDir()) {
			continue
		}
		if !kind.IsDir() {
			files = append(files, e)
		} else if w.opt.MaxDepth == 0 || t.depth+1 < w.opt.MaxDepth {
			more = append(more, task{full: full, rel: join(t.rel, name), depth: t.depth + 1, frame: t.frame})
		}
	}
	t.judged = true
	for len(files) > batch {
		part := t
		part.entries, files = files[:batch], files[batch:]
		more = append(more, part)
	}
	// The rest is done at once: most directories are small.
	t.entries = files
	w.hand(t)
	return more
}

// hand gives files to fn.
func (w *walker) hand(t task) {
	for _, e := range t.entries {
		if w.ctx.Err() != nil {
			return
		}
		rel := join(t.rel, e.Name())
		if !w.wanted(rel) {
			continue
		}
		w.files.Add(1)
		err := w.fn(Entry{DirEntry: e, Path: rel, Full: join(t.full, e.Name())})
		switch {
		case err == nil:
		case errors.Is(err, errUnreadable):
			w.unreadable.Add(1)
		default:
			w.stop(err)
			return
		}
	}
}

func (w *walker) wanted(rel string) bool {
	for _, g := range w.opt.Globs {
		if !g.Match(rel) {
			return false
		}
	}
	return true
}

// join is path.Join for names that are clean already.
func join(dir, name string) string {
	switch dir {
	case "":
		return name
	case "/":
		return "/" + name
	}
	return dir + "/" + name
}

// errUnreadable lets a callback say that a file could not be read.
var errUnreadable = errors.New("unreadable")
