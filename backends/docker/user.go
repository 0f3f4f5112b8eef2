package docker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// boxID is the user and the group of boxes that belong to nobody on this
// machine, as those of the local backend's.
const boxID = 1_900_000_000

// nobody is who stands for no user where numbers are few: in the user namespace
// of a rootless engine or of one that maps its root.
const nobody = 65534

// user is who everything in a container is.
type user struct {
	Text    string // as the engine takes it; "" is the image's own
	ID, GID int
}

func numbered(uid, gid int) user {
	return user{strconv.Itoa(uid) + ":" + strconv.Itoa(gid), uid, gid}
}

// userOf decides who a box is. It is never root but where root's own directory
// cannot be shown as somebody else's (see Backend.ordinary), or under the policy
// open without one in an image whose user is root, and then root without any
// capability.
func userOf(i image, p posture, f facts, workOwner, engine *user, runAsHost bool) user {
	switch {
	case p.WorkDir != "" && workOwner != nil:
		if f.rootless && engine != nil && workOwner.ID == engine.ID {
			return numbered(0, 0) // which is that user, outside
		}
		return *workOwner
	case runAsHost && engine != nil && engine.ID != 0:
		if f.rootless {
			return numbered(0, 0)
		}
		return *engine
	case p.Open && isRoot(i.User):
		return user{"", 0, 0}
	case !isRoot(i.User):
		return i.own
	case f.rootless || f.remapped:
		return numbered(nobody, nobody)
	}
	return numbered(boxID, boxID)
}

// isRoot tells whether an image's USER is root: empty, root or 0, with any group.
func isRoot(spec string) bool {
	name, _, _ := strings.Cut(strings.TrimSpace(spec), ":")
	if name == "" || name == "root" {
		return true
	}
	n, err := strconv.ParseInt(name, 10, 64)
	return err == nil && n == 0
}

// imageUser is the user of an image by number: its own directories in memory are
// made for a number. The names are those of the image's own accounts.
func (b *Backend) imageUser(ctx context.Context, d *daemon, i image) (user, error) {
	b.mu.Lock()
	u, known := b.users[i.ID]
	b.mu.Unlock()
	if known {
		return u, nil
	}
	name, group, hasGroup := strings.Cut(strings.TrimSpace(i.User), ":")
	var accounts, groups string
	if !isNumber(name) || hasGroup && !isNumber(group) || !hasGroup {
		l, err := b.leased()
		if err != nil {
			return user{}, err
		}
		id, err := d.shell(ctx, i, b.labels(l, "look"))
		if err != nil {
			return user{}, d.failed("look for the user "+i.User, err)
		}
		defer d.remove(context.WithoutCancel(ctx), id)
		for name, into := range map[string]*string{"/etc/passwd": &accounts, "/etc/group": &groups} {
			if *into, err = d.readFile(ctx, id, name); err != nil && !cerrdefs.IsNotFound(err) {
				return user{}, d.failed("look for the user "+i.User, err)
			}
		}
	}
	u, err := findUser(name, group, accounts, groups)
	if err != nil {
		return user{}, fmt.Errorf("image %s: %w: %w", i.Name, err, sandbox.ErrUnavailable)
	}
	b.mu.Lock()
	b.users[i.ID] = u
	b.mu.Unlock()
	return u, nil
}

// findUser looks a user and a group up in an image's databases of accounts.
func findUser(name, group, accounts, groups string) (user, error) {
	u := user{ID: -1}
	for line := range strings.Lines(accounts) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) < 4 || f[0] != name && f[2] != name {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil && uid >= 0 && gid >= 0 {
			u = numbered(uid, gid)
			break
		}
	}
	if u.ID < 0 {
		uid, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return user{}, fmt.Errorf("its user %.80q is not among its accounts", name)
		}
		u = numbered(int(uid), 0)
	}
	if group == "" {
		return u, nil
	}
	for line := range strings.Lines(groups) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) >= 3 && f[0] == group && isNumber(f[2]) {
			group = f[2]
			break
		}
	}
	gid, err := strconv.ParseUint(group, 10, 31)
	if err != nil {
		return user{}, fmt.Errorf("its group %.80q is not among its groups", group)
	}
	return numbered(u.ID, int(gid)), nil
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}
