package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine"
)

// bwrapArgs ask bubblewrap for the view an open session of workspace has in dir:
// the same namespaces, and a bind at each place where the session has one. What
// the session covers with something empty is bound upon itself: that costs the
// same.
func bwrapArgs(ctx context.Context, bwrap, dir string, s *engine.Session) ([]string, error) {
	r, err := s.Run(ctx, engine.Script{Code: "print(open('/proc/self/mountinfo').read())\n"})
	if err := outcome(r, err); err != nil {
		return nil, err
	}
	if r.Truncated {
		return nil, errors.New("bench: a session has more mounts than its script may print")
	}
	outside, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	known := []string{"/", "/proc", "/dev", "/run", "/tmp", "/var/tmp"} // below; and what comes with the root
	for _, m := range mounts(string(outside)) {
		known = append(known, m.point)
	}
	args := []string{
		bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--die-with-parent", "--new-session",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/run", "--tmpfs", "/tmp", "--tmpfs", "/var/tmp",
	}
	for _, m := range mounts(r.Output) {
		if slices.Contains(known, m.point) || strings.HasPrefix(m.point, "/dev/") {
			continue
		}
		bind := "--ro-bind"
		if m.writable {
			bind = "--bind"
		}
		name, err := strconv.Unquote(`"` + m.point + `"`)
		if err != nil {
			return nil, fmt.Errorf("bench: mount at %s: %w", m.point, err)
		}
		args = append(args, bind, name, name)
	}
	return append(args, "--chdir", dir, "--"), nil
}

// mount is one line of /proc/self/mountinfo, proc_pid_mountinfo(5).
type mount struct {
	point    string // blanks as \040
	writable bool
}

func mounts(text string) (all []mount) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 5 {
			all = append(all, mount{f[4], slices.Contains(strings.Split(f[5], ","), "rw")})
		}
	}
	return all
}
