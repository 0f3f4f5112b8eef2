package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// shared are directories that belong to everybody or to the system: what is in
// them can be worked on, they themselves cannot.
const shared = `/ /bin /boot /dev /dev/shm /etc /home /lib /lib32 /lib64 /libx32 /media /mnt /nix /nix/store /opt /private
 /private/tmp /private/var /proc /root /run /run/user /sbin /snap /srv /sys /tmp /usr /usr/bin /usr/lib /usr/local
 /usr/local/bin /usr/local/lib /usr/sbin /usr/share /var /var/cache /var/lib /var/log /var/run /var/tmp
 /Applications /Library /System /Users /Volumes`

// checkTree refuses a directory that must not be given to a script as a whole.
func (b *builder) checkTree(place string) error {
	if _, err := os.Stat(b.links.real(place)); err != nil {
		return err
	}
	return b.checkPlace(place)
}

// checkPlace is belongs with what to do.
func (b *builder) checkPlace(place string) error {
	if err := b.belongs(place); err != nil {
		return fmt.Errorf("%w; use a directory of the project's own", err)
	}
	return nil
}

// checkWrite is checkTree for an entry of a policy file.
func (b *builder) checkWrite(place string) error {
	real := b.links.real(place)
	info, err := os.Stat(real)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: no such file or directory; make the directory first", place)
	}
	if err == nil {
		err = b.checkPlace(place)
	}
	if err != nil || info.IsDir() {
		return err
	}
	if refused := b.belongs(filepath.Dir(real)); refused != nil {
		return fmt.Errorf("%s is not a directory, and its own cannot be given either: %w", place, refused)
	}
	return fmt.Errorf("%s is not a directory; name the one it is in: write: [%s]", place, filepath.Dir(real))
}

// ownTree refuses what of the host's never comes into a box: each directory that
// the box has its own of, as a whole, and all of /proc.
func ownTree(real string) error {
	for _, own := range sandbox.Own() {
		if real == own || own == "/proc" && sandbox.Covers(own, real) {
			return fmt.Errorf("%s: the box has its own %s; of the host's only what is named below /dev, /run, /tmp and /var/tmp comes in", real, own)
		}
	}
	return nil
}

// belongs tells whose a directory is that is not the project's.
func (b *builder) belongs(place string) error {
	real := b.links.real(place)
	where := place
	if real != filepath.Clean(place) {
		where += " (" + real + ")"
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if sandbox.Covers(kernel, real) && (real == "/dev/shm" || !sandbox.Covers("/dev/shm", real)) {
			return fmt.Errorf("%s is the kernel's", where)
		}
	}
	if slices.Contains(strings.Fields(shared), real) {
		return fmt.Errorf("%s belongs to the whole system", where)
	}
	for _, home := range b.homes {
		if real == home {
			return fmt.Errorf("%s is a home directory", where)
		}
		if sandbox.Covers(real, home) {
			return fmt.Errorf("%s contains the home directory %s", where, home)
		}
	}
	for _, state := range slices.Concat([]string{b.c.HermesHome, b.caches}, b.c.StateDirs) {
		if state == "" {
			continue
		}
		if state = b.links.real(state); sandbox.Covers(real, state) {
			return fmt.Errorf("%s contains the engine's own state (%s)", where, state)
		}
	}
	return nil
}
