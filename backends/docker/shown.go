package docker

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
)

// What root owns is of no use to a container whose user is not root, and no
// container is to be root's. So its work directory and its volumes are mounted
// once more, privately and only until the container has started, through a map
// of ids that shows root's files as the box user's; the daemon binds those.

// shownDir is where a lease's engine mounts them: one directory for each
// container. Nothing in it may ever be removed with what is below.
const shownDir = "shown"

func (l *lease) shown() string { return filepath.Join(l.state, shownDir, l.id) }

// hideAll ends all that a lease's engine shows.
func (l *lease) hideAll() error {
	list, _ := os.ReadDir(l.shown())
	for _, e := range list {
		if err := hide(filepath.Join(l.shown(), e.Name())); err != nil {
			return err
		}
	}
	return hide(l.shown())
}

// ordinary is who works in a directory of root's: a user of the boxes' own where
// root's files can be shown as his, else root, and why.
func (b *Backend) ordinary(d *daemon, dir string) (u user, why string) {
	u = numbered(boxID, boxID)
	if why = b.cannotShow(d, dir, u); why != "" {
		return numbered(0, 0), why
	}
	return u, ""
}

// cannotShow tells why a place cannot be shown as a user's; "" when it can.
func (b *Backend) cannotShow(d *daemon, name string, u user) string {
	if !d.shared.maps {
		return cmp.Or(d.shared.mapsNot, d.shared.why, "not tried")
	}
	tree, err := b.maps.tree(name, u)
	if err != nil {
		return err.Error()
	}
	tree.Close()
	return ""
}

// show decides which volumes the box's user needs to be shown as his.
func (b *Backend) show(d *daemon, o *order) {
	for _, v := range o.Volumes {
		if v.Named || o.User.ID == 0 || slices.Contains(o.Shown, v.Source) || !ownedByRoot(v.Source) {
			continue
		}
		if (v.ReadOnly || !writableBy(v.Source, o.User)) && b.cannotShow(d, v.Source, o.User) == "" {
			o.Shown = append(o.Shown, v.Source)
		}
	}
}

// sourceOf is where the daemon finds a place of this machine.
func (o *order) sourceOf(name string) string {
	if at := o.at[name]; at != "" {
		return at
	}
	return name
}

// guardSource is where the daemon finds something in the work directory.
func (o *order) guardSource(name string) string {
	if at := o.at[o.Posture.WorkDir]; at != "" {
		return filepath.Join(at, o.relative(name))
	}
	return name
}
