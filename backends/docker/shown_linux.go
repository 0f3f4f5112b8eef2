package docker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
)

// idMaps shows root's files as a user's.
type idMaps struct{ maps guest.IDMaps }

func (m *idMaps) close() { m.maps.Close() }

// tree is a copy of all mounts at and below a place, attached nowhere, in which
// what root owns is the user's, and what that user makes is root's outside.
func (m *idMaps) tree(name string, u user) (*os.File, error) {
	f, err := guest.OpenTree(name)
	if err != nil {
		return nil, err
	}
	if err := m.maps.Show(f, u.ID, u.GID); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// show attaches places of this machine, as a user sees them whose is what root
// owns, in a new directory, and says where. hide undoes it.
func (m *idMaps) show(dir string, u user, names []string) (at map[string]string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, hide(dir))
		}
	}()
	at = map[string]string{}
	for i, name := range names {
		point := filepath.Join(dir, strconv.Itoa(i))
		if err := m.attach(name, point, u); err != nil {
			return nil, fmt.Errorf("show root's files as those of user %d: %w", u.ID, err)
		}
		at[name] = point
	}
	return at, nil
}

func (m *idMaps) attach(name, point string, u user) error {
	tree, err := m.tree(name, u)
	if err != nil {
		return err
	}
	defer tree.Close()
	st, err := tree.Stat()
	if err != nil {
		return err
	}
	if st.IsDir() {
		err = os.Mkdir(point, 0)
	} else {
		err = os.WriteFile(point, nil, 0)
	}
	if err != nil {
		return err
	}
	if err := unix.MoveMount(int(tree.Fd()), "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "move_mount", Path: point, Err: err}
	}
	return nil
}

// hide ends what show did, in whichever engine. It removes names alone, and none
// that something is mounted on: below are the user's files.
func hide(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		point := filepath.Join(dir, e.Name())
		for unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
		}
		if err := os.Remove(point); err != nil {
			return err
		}
	}
	return os.Remove(dir)
}
