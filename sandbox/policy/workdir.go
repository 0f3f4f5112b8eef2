package policy

import (
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

// checkTree refuses a tree that must not be given to a script as a whole.
func (b *builder) checkTree(what, place string) error {
	const fix = "use a directory of the project's own (--workdir)"
	real := b.links.real(place)
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return refuse("policy: %s: %v", what, err)
	case what == "the work dir" && !info.IsDir():
		return refuse("policy: %s %s is not a directory", what, place)
	}
	where := place
	if real != filepath.Clean(place) {
		where += " (" + real + ")"
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if sandbox.Covers(kernel, real) && !sandbox.Covers("/dev/shm", real) {
			return refuse("policy: %s %s is the kernel's; %s", what, where, fix)
		}
	}
	if slices.Contains(strings.Fields(shared), real) {
		return refuse("policy: %s %s belongs to the whole system; %s", what, where, fix)
	}
	for _, home := range b.homes {
		if sandbox.Covers(real, home) {
			if real == home {
				return refuse("policy: %s %s is a home directory; %s", what, where, fix)
			}
			return refuse("policy: %s %s contains the home directory %s; %s", what, where, home, fix)
		}
	}
	for _, state := range slices.Concat([]string{b.c.HermesHome}, b.c.StateDirs) {
		if state == "" {
			continue
		}
		if state = b.links.real(state); sandbox.Covers(real, state) {
			return refuse("policy: %s %s contains the engine's own state (%s); %s", what, where, state, fix)
		}
	}
	return nil
}
