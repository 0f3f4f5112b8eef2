//go:build unix

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/guards"
)

// reservation is what guards a work directory while a container has it.
type reservation struct {
	log    *slog.Logger
	root   string
	hold   *guards.Hold
	guards []guard
	are    map[string]os.FileInfo // what is mounted over, as it was
	absent []string               // hidden places that did not exist
}

// reserve makes what is guarded and missing in a posture's work directory, and
// says what is to be mounted over it.
func reserve(ctx context.Context, log *slog.Logger, p posture) (r *reservation, err error) {
	r = &reservation{log: log, root: p.WorkDir, are: map[string]os.FileInfo{}}
	if p.WorkDir == "" || p.Open {
		return r, nil
	}
	defer func() {
		if err != nil {
			r.release()
		}
	}()
	var deny []string
	if !p.WorkReadOnly {
		if deny, err = r.take(ctx, p); err != nil {
			return nil, err
		}
	}
	hidden := r.hide(p.DenyRead)
	slices.SortFunc(deny, byDepth)
	pinned := map[string]bool{}
	for _, name := range slices.Compact(deny) {
		if slices.ContainsFunc(hidden, func(h string) bool { return sandbox.Covers(h, name) }) {
			continue
		}
		st, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: what must not be made there was not reserved: %w", name, sandbox.ErrPolicy)
		}
		if err != nil {
			return nil, err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is guarded and a symbolic link: replace it by what it leads to, or open its guard, which hermes-exec policy explain names (open_guards): %w", name, sandbox.ErrPolicy)
		}
		for _, dir := range between(p.WorkDir, name) {
			if !pinned[dir] {
				pinned[dir] = true
				r.guards = append(r.guards, guard{dir, guardPin})
			}
		}
		r.are[name] = st
		r.guards = append(r.guards, guard{name, guardReadOnly})
		pinned[name] = true
	}
	return r, nil
}

// take reserves what is denied to be written and returns it.
func (r *reservation) take(ctx context.Context, p posture) ([]string, error) {
	var names []string
	for _, name := range p.DenyWrite {
		if rel, ok := strings.CutPrefix(name, p.WorkDir+"/"); ok {
			names = append(names, rel)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	hold, err := guards.Store{}.Hold(ctx, p.WorkDir, names)
	if errors.Is(err, guards.ErrSymlink) {
		err = fmt.Errorf("%w: replace the link by what it leads to, or open the guard: %w", err, sandbox.ErrPolicy)
	}
	if err != nil {
		return nil, err
	}
	r.hold = hold
	deny := hold.Paths()
	for _, found := range hold.Existing() {
		deny = append(deny, found.Path)
	}
	return deny, nil
}

// hide covers what is denied to be read and exists. It returns those places.
func (r *reservation) hide(deny []string) (hidden []string) {
	for _, name := range deny {
		real, err := filepath.EvalSymlinks(name)
		if err != nil || real != name && !sandbox.Covers(r.root, real) {
			r.absent = append(r.absent, name)
			continue
		}
		st, err := os.Lstat(real)
		if err != nil || slices.ContainsFunc(hidden, func(h string) bool { return sandbox.Covers(h, real) }) {
			continue
		}
		kind := guardHideFile
		if st.IsDir() {
			kind = guardHideDir
		}
		r.are[real] = st
		r.guards = append(r.guards, guard{real, kind})
		hidden = append(hidden, real)
	}
	return hidden
}

// stands reports whether every mount still is over what it was made for.
func (r *reservation) stands() bool {
	for name, was := range r.are {
		if is, err := os.Lstat(name); err != nil || !os.SameFile(was, is) {
			return false
		}
	}
	return !slices.ContainsFunc(r.absent, exists)
}

// release gives up the reservations. The container must be dead.
func (r *reservation) release() {
	if r == nil || r.hold == nil {
		return
	}
	kept, err := r.hold.Release()
	if err != nil || len(kept) > 0 {
		r.log.Warn("reserved places were changed and stay", "places", kept, "err", err)
	}
}

// futureInputs looks through the work directory for what is run or trusted
// later. Paths are those of this machine, where that will happen.
func (r *reservation) futureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	if r.root == "" {
		return nil, true, nil
	}
	var kept []string
	for name, was := range r.are {
		if is, err := os.Lstat(name); err == nil && os.SameFile(was, is) {
			kept = append(kept, name)
		}
	}
	return guards.Scan(ctx, r.root, since, guards.ScanOptions{Guarded: kept})
}

// sweepGuards removes what killed engines left in work directories.
func sweepGuards(log *slog.Logger) {
	for _, left := range (guards.Store{}).Sweep() {
		log.Info("removed what a killed engine left behind", "dir", left)
	}
}

// between are the directories from a tree down to a name in it, both left out.
func between(root, name string) (dirs []string) {
	for dir := filepath.Dir(name); dir != root && sandbox.Covers(root, dir); dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

func byDepth(a, b string) int {
	if d := strings.Count(a, "/") - strings.Count(b, "/"); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}
