package policy

import (
	"fmt"
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
	const fix = "use a directory of the project's own"
	real := b.links.real(place)
	if _, err := os.Stat(real); err != nil {
		return err
	}
	where := place
	if real != filepath.Clean(place) {
		where += " (" + real + ")"
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if sandbox.Covers(kernel, real) && (real == "/dev/shm" || !sandbox.Covers("/dev/shm", real)) {
			return fmt.Errorf("%s is the kernel's; %s", where, fix)
		}
	}
	if slices.Contains(strings.Fields(shared), real) {
		return fmt.Errorf("%s belongs to the whole system; %s", where, fix)
	}
	for _, home := range b.homes {
		if real == home {
			return fmt.Errorf("%s is a home directory; %s", where, fix)
		}
		if sandbox.Covers(real, home) {
			return fmt.Errorf("%s contains the home directory %s; %s", where, home, fix)
		}
	}
	for _, state := range slices.Concat([]string{b.c.HermesHome, b.caches}, b.c.StateDirs) {
		if state == "" {
			continue
		}
		if state = b.links.real(state); sandbox.Covers(real, state) {
			return fmt.Errorf("%s contains the engine's own state (%s); %s", where, state, fix)
		}
	}
	return nil
}
