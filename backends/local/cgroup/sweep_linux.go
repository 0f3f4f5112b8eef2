package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// maxDepth bounds how deep SweepElsewhere looks; groups are nested some ten deep.
const maxDepth = 64

// Sweep kills and removes what groups killed engines of this user have left
// where this host's are made. It returns the directories removed.
func (h Host) Sweep() (removed []string) {
	for _, place := range h.places() {
		entries, err := os.ReadDir(place)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if h.left(e) && sweep(filepath.Join(place, e.Name())) {
				removed = append(removed, filepath.Join(place, e.Name()))
			}
		}
	}
	return removed
}

// SweepElsewhere does what Sweep does in all other groups of the machine: an
// engine that was killed can have been in another one, as each login and each
// service is. It reads only directories that have others in them, and ends early
// when ctx does.
func (h Host) SweepElsewhere(ctx context.Context) (removed []string) {
	places := h.places()
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return
		}
		for _, e := range entries {
			name := filepath.Join(dir, e.Name())
			switch {
			case ctx.Err() != nil:
				return
			case !e.IsDir():
			case strings.HasPrefix(e.Name(), h.prefix):
				if !slices.Contains(places, dir) && h.left(e) && sweep(name) {
					removed = append(removed, name)
				}
			case depth < maxDepth && nests(name):
				walk(name, depth+1)
			}
		}
	}
	for _, top := range h.tops {
		walk(top, 0)
	}
	return removed
}

// nests tells whether a group has others in it: a directory has a link more for
// each, and most have none.
func nests(dir string) bool {
	var st syscall.Stat_t
	return syscall.Lstat(dir, &st) == nil && st.Nlink > 2
}

// left tells of a directory's entry whether it can be a group of this user.
func (h Host) left(e os.DirEntry) bool {
	if !e.IsDir() || !strings.HasPrefix(e.Name(), h.prefix) {
		return false
	}
	info, err := e.Info()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// sweep removes a group if its maker is gone.
func sweep(dir string) bool {
	m := &member{dir: dir, version: 1}
	if m.has("cgroup.controllers") {
		m.version = 2
	}
	free, err := m.hold()
	return err == nil && free && remove([]*member{m}) == nil
}
