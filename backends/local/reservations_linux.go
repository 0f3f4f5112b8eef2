package local

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox/guards"
)

// linger is how long a work directory's reservations stand after its last
// session, for the next one: an agent opens session after session in one place,
// and to make and remove a dozen directories takes longer than the session.
const linger = 3 * time.Second

// reservations are shared by the sessions of this engine that guard the same
// names.
type reservations struct {
	mu     sync.Mutex
	closed bool
	shared map[string]*reservation
}

// reservation is a guards.Hold with those who rely on it.
type reservation struct {
	*guards.Hold
	of     *reservations
	log    *slog.Logger
	key    string
	places map[string]os.FileInfo // what is to be read-only, as it was found or made
	users  int
	timer  *time.Timer
}

// hold returns the reservation of names below root. The caller releases it.
func (r *reservations) hold(ctx context.Context, log *slog.Logger, root string, names []string) (*reservation, error) {
	key := root + "\x00" + strings.Join(names, "\x00")
	r.mu.Lock()
	if one := r.shared[key]; one != nil {
		if one.stands() {
			one.users++
			if one.timer != nil {
				one.timer.Stop()
			}
			r.mu.Unlock()
			return one, nil
		}
		delete(r.shared, key) // its users release it
		if one.users == 0 {
			one.drop()
		}
	}
	r.mu.Unlock()
	hold, err := guards.Store{}.Hold(ctx, root, names)
	if err != nil {
		return nil, err
	}
	one := &reservation{Hold: hold, of: r, log: log, key: key, users: 1}
	paths := hold.Paths()
	for _, found := range hold.Existing() {
		paths = append(paths, found.Path)
	}
	one.places = identify(paths)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.shared[key] == nil && !r.closed {
		if r.shared == nil {
			r.shared = map[string]*reservation{}
		}
		r.shared[key] = one
	}
	return one, nil
}

// stands reports whether every place is what it was.
func (one *reservation) stands() bool {
	for name, was := range one.places {
		if is, err := os.Lstat(name); err != nil || !os.SameFile(was, is) {
			return false
		}
	}
	return true
}

// release is called by each user once.
func (one *reservation) release() {
	r := one.of
	r.mu.Lock()
	defer r.mu.Unlock()
	if one.users--; one.users > 0 {
		return
	}
	if r.closed || r.shared[one.key] != one {
		one.drop()
		return
	}
	one.timer = time.AfterFunc(linger, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if one.users == 0 && r.shared[one.key] == one {
			delete(r.shared, one.key)
			one.drop()
		}
	})
}

// drop removes what was made, if nobody else's session relies on it.
func (one *reservation) drop() {
	kept, err := one.Hold.Release()
	if err != nil || len(kept) > 0 {
		one.log.Warn("reserved places were changed and stay", "places", kept, "err", err)
	}
}

// close ends the waiting of those nobody uses.
func (r *reservations) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for key, one := range r.shared {
		if one.timer != nil {
			one.timer.Stop()
		}
		if one.users == 0 {
			delete(r.shared, key)
			one.drop()
		}
	}
}

// isLink reports whether the error says that a link stands where a directory
// has to.
func isLink(err error) bool { return errors.Is(err, guards.ErrSymlink) }
