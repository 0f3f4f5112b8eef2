package landlock

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRules bounds what Enumerate returns.
const maxRules = 8192

// ErrTooMany says that a directory beside a denied entry holds more than can be
// made rules of.
var ErrTooMany = errors.New("landlock: too many entries beside denied ones")

// Rule is one tree or file that Enumerate found, for Ruleset.Add.
type Rule struct {
	Path     string
	dev, ino uint64
}

// Add is Allow for a rule, if it is still the same file that Enumerate saw:
// what was replaced or removed since is left out, and allowed to nobody.
func (r *Ruleset) Add(rule Rule, access Access) error {
	_, err := r.allow(rule.Path, access, &rule)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

// Enumerate turns "these trees but not what is in those" into a list of trees
// that together are all of allow, as it is now, and nothing of deny: a
// directory that holds a denied path is taken apart into its entries.
//
// Both are absolute paths. Symlinks in them are resolved first, and a denied
// path is denied under its own name too; those met on the way get no rule, as
// the kernel asks for a rule on what they lead to. Allowed paths that do not
// exist are left out. Denied ones need not exist: their place is taken apart
// all the same, so that they stay unreadable when they are made later. More
// than 8192 rules are ErrTooMany.
//
// The price is told in the package comment: in a directory that was taken apart
// nothing can be made, nothing new is readable, and List alone lists it.
func Enumerate(allow, deny []string) ([]Rule, error) {
	var walk enumeration
	for _, name := range deny {
		if !filepath.IsAbs(name) {
			return nil, fmt.Errorf("landlock: enumerate: denied path %q is not absolute", name)
		}
		real, err := resolve(name)
		if err != nil {
			return nil, fmt.Errorf("landlock: enumerate: %w", err)
		}
		walk.deny = append(walk.deny, filepath.Clean(name), real)
	}
	slices.Sort(walk.deny)
	walk.deny = slices.Compact(walk.deny)
	for _, name := range allow {
		if !filepath.IsAbs(name) {
			return nil, fmt.Errorf("landlock: enumerate: allowed path %q is not absolute", name)
		}
		real, err := resolve(name)
		if err == nil {
			err = walk.add(real)
		}
		if err != nil {
			return nil, fmt.Errorf("landlock: enumerate: %w", err)
		}
	}
	return walk.rules, nil
}

// resolve follows the symlinks in a path, as far as there is something.
func resolve(name string) (string, error) {
	real, todo, links := "/", strings.Split(name, "/"), 0
	for len(todo) > 0 {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, part)
		target, err := os.Readlink(next)
		if err != nil { // no symlink, or nothing there
			real = next
			continue
		}
		if links++; links > 40 {
			return "", &fs.PathError{Op: "resolve", Path: name, Err: unix.ELOOP}
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return real, nil
}

type enumeration struct {
	deny  []string
	rules []Rule
}

// add adds the rules for the tree at name, which leads through no symlink.
func (e *enumeration) add(name string) error {
	apart := false
	for _, d := range e.deny {
		if within(name, d) {
			return nil
		}
		apart = apart || within(d, name)
	}
	info, err := os.Lstat(name)
	if err != nil {
		return vanished(err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil
	}
	if !apart || !info.IsDir() {
		if len(e.rules) == maxRules {
			return fmt.Errorf("%w (more than %d)", ErrTooMany, maxRules)
		}
		st := info.Sys().(*syscall.Stat_t)
		e.rules = append(e.rules, Rule{name, uint64(st.Dev), st.Ino})
		return nil
	}
	dir, err := os.Open(name)
	if err != nil {
		return vanished(err)
	}
	defer dir.Close()
	// One more than can be made rules of is enough to know.
	names, err := dir.Readdirnames(maxRules + len(e.deny) + 1)
	if err != nil && len(names) == 0 && err != io.EOF {
		return vanished(err)
	}
	if len(names) > maxRules+len(e.deny) {
		return fmt.Errorf("%w (more than %d in %q)", ErrTooMany, maxRules, name)
	}
	slices.Sort(names)
	for _, entry := range names {
		if err := e.add(filepath.Join(name, entry)); err != nil {
			return err
		}
	}
	return nil
}

// within says whether name is dir or below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// vanished drops the errors of entries that are gone, or closed to this user and
// so to who runs as him: they need no rule.
func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
