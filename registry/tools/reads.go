package tools

import (
	"io/fs"
	"reflect"
	"sync"
)

const (
	maxViews  = 1000 // remembered views of a session
	maxStamps = 1000 // remembered files of a session
)

// stamp tells whether a file is still the one that was seen.
type stamp struct {
	mtime int64 // nanoseconds
	size  int64
	inode uint64 // 0 where the box does not tell
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{mtime: info.ModTime().UnixNano(), size: info.Size()}
	// Sys is another struct on every system; those that have inodes agree on the name.
	if v := reflect.Indirect(reflect.ValueOf(info.Sys())); v.Kind() == reflect.Struct {
		if ino := v.FieldByName("Ino"); ino.IsValid() && ino.CanUint() {
			s.inode = ino.Uint()
		}
	}
	return s
}

// view is one way to look at a file.
type view struct {
	path          string
	offset, limit int
}

// seen is what a session knows of a file.
type seen struct {
	stamp   stamp
	partial bool
	turn    uint64 // when, in the order of reads and writes
}

// reads remembers which session saw what, for two purposes: not to send a
// model the same text twice, and to warn when somebody overwrites what he has
// not seen. The zero value is ready; safe for concurrent use.
type reads struct {
	mu       sync.Mutex
	turn     uint64
	sessions map[string]*readState
	writers  bounded[string, writer] // by path
}

type writer struct {
	session string
	turn    uint64
}

type readState struct {
	views bounded[view, viewState]
	files bounded[string, seen]

	last     view // of the read before, when no other tool was called since
	repeated int  // how often it came in a row
}

type viewState struct {
	stamp stamp
	stubs int // times the answer was "unchanged" since another tool was called
}

func (r *reads) session(id string) *readState {
	if r.sessions == nil {
		r.sessions = map[string]*readState{}
	}
	st := r.sessions[id]
	if st == nil {
		st = &readState{views: bounded[view, viewState]{max: maxViews}, files: bounded[string, seen]{max: maxStamps}}
		r.sessions[id] = st
	}
	return st
}

// unchanged says whether the session has this very view already; times counts
// how often it was told so, this time included.
func (r *reads) unchanged(session string, v view, now stamp) (times int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.session(session)
	state, ok := st.views.get(v)
	if !ok || state.stamp != now {
		return 0, false
	}
	state.stubs++
	st.views.set(v, state)
	return state.stubs, true
}

// repeat counts reads of one view in a row, changed or not.
func (r *reads) repeat(session string, v view) (times int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.session(session)
	if st.last != v {
		st.last, st.repeated = v, 0
	}
	st.repeated++
	return st.repeated
}

// saw remembers that a session has got a view of a file.
func (r *reads) saw(session string, v view, now stamp, partial, dedup bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.session(session)
	if dedup {
		st.views.set(v, viewState{stamp: now})
	}
	r.turn++
	st.files.set(v.path, seen{stamp: now, partial: partial, turn: r.turn})
}

// acted notes that a session called a tool that is no read or search: what it
// reads again now, it reads for a reason.
func (r *reads) acted(session string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	st := r.session(session)
	st.last, st.repeated = view{}, 0
	for _, v := range st.views.order {
		if state, ok := st.views.get(v); ok && state.stubs > 0 {
			state.stubs = 0
			st.views.set(v, state)
		}
	}
}

// wrote remembers that a session has written a file and so knows it.
func (r *reads) wrote(session, path string, now stamp) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn++
	if r.writers.max == 0 {
		r.writers.max = maxStamps
	}
	r.writers.set(path, writer{session, r.turn})
	r.session(session).files.set(path, seen{stamp: now, turn: r.turn})
	for _, st := range r.sessions {
		st.views.forget(func(v view) bool { return v.path == path })
	}
}

// stale is the warning for who is about to overwrite path, "" for none. now is
// the file as it is.
func (r *reads) stale(session, path string, now stamp) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, read := r.session(session).files.get(path)
	by, written := r.writers.get(path)
	sibling := written && by.session != session
	switch {
	case sibling && !read:
		return path + " was modified by sibling subagent '" + by.session + "' but this agent never read it. " +
			"Read the file before writing to avoid overwriting the sibling's changes."
	case sibling && by.turn > last.turn:
		return path + " was modified by sibling subagent '" + by.session + "' after you last read it. " +
			"Re-read the file before writing."
	case !read:
		return ""
	case last.stamp != now:
		return path + " was modified since you last read it on disk (external edit or unrecorded writer). " +
			"Re-read the file before writing."
	case last.partial:
		return path + " was last read with offset/limit pagination (partial view). " +
			"Re-read the whole file before overwriting it."
	}
	return ""
}

// bounded is a map that forgets its oldest entries.
type bounded[K comparable, V any] struct {
	max   int
	items map[K]V
	order []K // oldest first
}

func (b *bounded[K, V]) get(k K) (V, bool) { v, ok := b.items[k]; return v, ok }

func (b *bounded[K, V]) set(k K, v V) {
	if b.items == nil {
		b.items = map[K]V{}
	}
	if _, ok := b.items[k]; !ok {
		if len(b.order) >= b.max {
			delete(b.items, b.order[0])
			b.order = b.order[1:]
		}
		b.order = append(b.order, k)
	}
	b.items[k] = v
}

func (b *bounded[K, V]) forget(which func(K) bool) {
	kept := b.order[:0]
	for _, k := range b.order {
		if which(k) {
			delete(b.items, k)
		} else {
			kept = append(kept, k)
		}
	}
	b.order = kept
}
