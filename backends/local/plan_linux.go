package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/guards"
)

// scratchInside is where a confined box has its scratch directory: short, as a
// socket's path must be, and the same in every box.
const scratchInside = "/run/hermes-exec"

// privateTrees are what a confined box has of its own; what this machine has
// there is not visible unless the policy names it.
var privateTrees = [...]string{"/tmp", "/var/tmp", "/dev", "/run", "/proc"}

// plan turns a policy into what a session guest is to make of itself.
type plan struct {
	policy sandbox.Policy
	user   boxUser
	home   string
	c      guest.Confinement
	trees  []*os.File // opened here, as the box's user may not reach them
	mapped []string   // where what root owns is shown as the box user's
}

// newPlan makes the plan of what is brought in; covers is what is put over some
// of it. Write trees, and what is to be made in them, exist.
func newPlan(p sandbox.Policy, who guest.Confinement, user boxUser, home string) (*plan, error) {
	pl := &plan{policy: p, user: user, home: home, c: who}
	err := errors.Join(pl.reads(), pl.writes())
	pl.account()
	if err != nil {
		pl.close()
		return nil, err
	}
	return pl, nil
}

func (pl *plan) close() {
	for _, f := range pl.trees {
		f.Close()
	}
	pl.trees = nil
}

// reads adds what may be read and is not part of the base already.
func (pl *plan) reads() error {
	read := slices.Clone(pl.policy.Read)
	if pl.c.Base {
		pl.c.Read = append(pl.c.Read, "/")
		// What root keeps to itself of its home is readable as the rest is.
		if home, err := filepath.EvalSymlinks(pl.home); err == nil && pl.user.foreign && home != "/" {
			pl.home = home
			read = append(read, home)
		}
	} else {
		pl.c.Read = append(pl.c.Read, "/dev", "/proc")
	}
	slices.SortFunc(read, byDepth)
	var done []string
	for _, name := range slices.Compact(read) {
		if name == "/" || slices.ContainsFunc(done, func(d string) bool { return within(name, d) }) {
			continue
		}
		st, err := os.Lstat(name)
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				continue // nothing there to read
			}
			return err
		}
		closed := pl.user.foreign && (!open(name) || name == pl.home && owner(st) == 0)
		if pl.c.Base && !closed && !private(name) {
			continue // part of the base
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			if !pl.c.Base {
				pl.c.Links = append(pl.c.Links, guest.Link{Path: name, Target: target})
			}
			name, err = filepath.EvalSymlinks(name)
			covers := func(d string) bool { return within(name, d) }
			if err != nil || slices.ContainsFunc(done, covers) || slices.ContainsFunc(pl.policy.DenyRead, covers) {
				continue
			}
		}
		m := guest.Mount{Kind: guest.MountBind, Source: name, Target: name, Optional: true}
		if pl.user.foreign {
			if err := pl.tree(&m, closed && owner(st) == 0); err != nil {
				return err
			}
		}
		done = append(done, name)
		pl.reach(name)
		pl.c.Read = append(pl.c.Read, name)
		pl.c.Mounts = append(pl.c.Mounts, m)
	}
	return nil
}

// writes adds what may be written.
func (pl *plan) writes() error {
	write := slices.Concat(pl.policy.Write, pl.policy.Private)
	slices.SortFunc(write, byDepth)
	for _, name := range slices.Compact(write) {
		st, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("writable directory: %w", err)
		}
		m := guest.Mount{Kind: guest.MountBind, Source: name, Target: name, Write: true}
		if pl.user.foreign {
			err := pl.tree(&m, owner(st) == 0)
			var setup *guest.SetupError
			if errors.As(err, &setup) && !slices.Contains(pl.policy.Write, name) {
				m.Write, err = false, nil // a cache: better none than fewer walls
			}
			if err != nil {
				return err
			}
		}
		pl.reach(name)
		pl.c.Mounts = append(pl.c.Mounts, m)
		if m.Write {
			pl.c.Write = append(pl.c.Write, name)
		}
	}
	return nil
}

// reach makes the way to a place that is mounted where the box's user could not
// go it: the first directory that is closed to him is an empty one inside, in
// which the rest of the way is made.
func (pl *plan) reach(name string) {
	if !pl.user.foreign || !pl.c.Base {
		return
	}
	for _, dir := range between("/", name) {
		shown := slices.ContainsFunc(pl.mapped, func(tree string) bool { return within(dir, tree) })
		made := private(dir)
		for _, m := range pl.c.Mounts {
			if within(dir, m.Target) {
				made = m.Kind == guest.MountDir
			}
		}
		if !made && !pl.user.enters(dir, shown) {
			pl.c.Mounts = append(pl.c.Mounts, guest.Mount{Kind: guest.MountDir, Target: dir})
			return
		}
	}
}

// tree opens the source of a mount here; mapped, what root owns in it is the
// box user's inside.
func (pl *plan) tree(m *guest.Mount, mapped bool) error {
	f, err := guest.OpenTree(m.Source)
	if err != nil {
		return err
	}
	pl.trees = append(pl.trees, f)
	m.Tree = len(pl.trees)
	// What is open counts, not what had the name before: in a directory of the
	// box user's, that may have been swapped.
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if !mapped || st.Uid != 0 {
		return nil
	}
	if err := pl.user.maps.Show(f, pl.user.uid, pl.user.gid); err != nil {
		if m.Write {
			var errno syscall.Errno
			errors.As(err, &errno)
			return &guest.SetupError{Stage: guest.StageIDMap, Errno: errno, Text: fmt.Sprintf(
				"%s belongs to root, and its file system cannot show it as another user's (%v): give it to an ordinary user (chown), or run as one",
				m.Source, err)}
		}
		return nil // unreadable inside, as it is for that user
	}
	pl.mapped = append(pl.mapped, m.Target)
	return nil
}

// covers are the mounts over what must not be read, and over what must not be
// written. The plan is not changed.
func (pl *plan) covers(denied, deny []string) ([]guest.Mount, error) {
	secrets, err := pl.secrets(denied)
	if err != nil {
		return nil, err
	}
	hidden := pl.hide(secrets)
	ro, err := pl.guards(deny)
	return append(hidden, ro...), err
}

// hide covers what must not be read. In a writable tree it is pinned as what must
// not be written is: under another name it would be open to the next session.
func (pl *plan) hide(names []string) (mounts []guest.Mount) {
	pinned := map[string]bool{}
	for _, name := range names {
		if root, ok := pl.writable(name); ok {
			for _, dir := range between(root, name) {
				if !pinned[dir] {
					pinned[dir] = true
					mounts = append(mounts, guest.Mount{Kind: guest.MountSelf, Target: dir, Write: true, Optional: true})
				}
			}
		}
		mounts = append(mounts, guest.Mount{Kind: guest.MountHide, Target: name, Optional: true})
	}
	return mounts
}

// guards make what must not be written, and exists, read-only, and pin every
// directory between it and the writable tree it is in: nothing of it can be
// moved away.
func (pl *plan) guards(deny []string) (mounts []guest.Mount, err error) {
	deny = slices.Clone(deny)
	slices.SortFunc(deny, byDepth)
	pinned := map[string]bool{}
	for _, name := range slices.Compact(deny) {
		root, ok := pl.writable(name)
		if !ok {
			continue
		}
		st, err := os.Lstat(name)
		if isMissing(err) {
			return nil, fmt.Errorf("%s: what must not be made there was not reserved: %w", name, sandbox.ErrPolicy)
		}
		if err != nil {
			return nil, err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s is guarded and a symbolic link: replace it by what it leads to, or open its guard, which hermes-exec policy explain names (open_guards): %w", name, sandbox.ErrPolicy)
		}
		for _, dir := range between(root, name) {
			if !pinned[dir] {
				pinned[dir] = true
				mounts = append(mounts, guest.Mount{Kind: guest.MountSelf, Target: dir, Write: true})
			}
		}
		mounts = append(mounts, guest.Mount{Kind: guest.MountSelf, Target: name})
	}
	return mounts, nil
}

// writable returns the writable tree a path is in.
func (pl *plan) writable(name string) (root string, ok bool) {
	for _, w := range pl.c.Write {
		if within(name, w) && len(w) > len(root) {
			root, ok = w, true
		}
	}
	return root, ok
}

// denied are the real paths of what a policy does not let be read, and that exists
// now or may; and of the engine's own: who can open a reservation's journal can
// hold up other sessions.
func denied(p sandbox.Policy) (hide []string) {
	for _, name := range append(present(p.DenyRead), guards.Store{}.Path(), filepath.Join(os.TempDir(), userDir())) {
		real, err := realPath(name)
		if err != nil && !isMissing(err) { // of what this user may not look at, the box's may
			real, err = realPrefix(name), nil
		}
		if err == nil {
			hide = append(hide, real)
		}
	}
	return hide
}

func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// realPrefix is realPath as far as that goes, and the rest as it is.
func realPrefix(name string) string {
	rest := ""
	for at := name; at != "/"; {
		at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest)
		if real, err := realPath(at); err == nil {
			return filepath.Join(real, rest)
		}
	}
	return name
}

// secrets are the places to hide that exist now, none in another: what is denied,
// and the sockets others listen on.
func (pl *plan) secrets(denied []string) ([]string, error) {
	listening, err := hostSockets(pl.visible)
	if err != nil {
		return nil, err
	}
	sockets := slices.DeleteFunc(listening, func(name string) bool {
		_, own := pl.writable(name) // a socket in the work directory is the work's
		return own || !pl.visible(name)
	})
	if sockets, err = pl.together(sockets); err != nil {
		return nil, err
	}
	hide := slices.Concat(denied, sockets)
	slices.SortFunc(hide, byDepth)
	var done []string
	for _, name := range slices.Compact(hide) {
		if slices.ContainsFunc(done, func(d string) bool { return within(name, d) }) || !pl.visible(name) {
			continue
		}
		for _, w := range pl.c.Write {
			if within(w, name) {
				return nil, fmt.Errorf("%s is writable and inside %s, which is secret: %w", w, name, sandbox.ErrPolicy)
			}
		}
		done = append(done, name)
	}
	return done, nil
}

// realPath is what filepath.EvalSymlinks finds, asked of the kernel at once.
func realPath(name string) (string, error) {
	if filepath.IsAbs(name) { // most have no link in them
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
		if fd, err := unix.Openat2(unix.AT_FDCWD, name, &how); err == nil {
			unix.Close(fd)
			return filepath.Clean(name), nil
		}
	}
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == nil {
		var real string
		real, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		unix.Close(fd)
		if err == nil && !strings.HasSuffix(real, " (deleted)") {
			return real, nil
		}
	}
	return filepath.EvalSymlinks(name)
}

// visible reports whether a path of this machine can be seen in the box: it is
// part of the base, or of a tree that is brought in.
func (pl *plan) visible(name string) bool {
	return pl.c.Base && !private(name) || slices.ContainsFunc(pl.c.Mounts, func(m guest.Mount) bool {
		return m.Kind == guest.MountBind && within(name, m.Target)
	})
}

// private reports whether a path is in one of the trees a box has of its own.
func private(name string) bool {
	return slices.ContainsFunc(privateTrees[:], func(tree string) bool { return within(name, tree) }) ||
		within(name, "/var/run") || within(name, "/var/lock")
}

// within reports whether name is dir or below it.
func within(name, dir string) bool {
	return name == dir || dir == "/" || strings.HasPrefix(name, dir+"/")
}

// between are the directories between a tree and something in it, from the
// outside in, without the two.
func between(root, name string) (dirs []string) {
	for dir := filepath.Dir(name); within(dir, root) && dir != root; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
	}
	slices.Reverse(dirs)
	return dirs
}

// byDepth sorts what contains before what is contained.
func byDepth(a, b string) int {
	if d := strings.Count(a, "/") - strings.Count(b, "/"); d != 0 {
		return d
	}
	return strings.Compare(a, b)
}

// open reports whether everybody can reach and read a path.
func open(name string) bool {
	for at := name; ; at = filepath.Dir(at) {
		st, err := os.Stat(at)
		if err != nil {
			return false
		}
		want := fs.FileMode(0o001)
		if at == name {
			want = 0o004
			if st.IsDir() {
				want = 0o005
			}
		}
		if st.Mode().Perm()&want != want {
			return false
		}
		if at == "/" {
			return true
		}
	}
}
