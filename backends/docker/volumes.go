package docker

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Where things are in a box.
const (
	inside       = "/.hermes-exec" // what is ours
	guestDir     = inside + "/bin"
	guestInside  = guestDir + "/hermes-exec"
	probeInside  = inside + "/probe"
	mappedInside = inside + "/mapped"
	linkInside   = inside + "/link"
	workInside   = "/workspace"
	homeInside   = "/home/sandbox"
	socketInside = linkInside + "/s"
)

// volume is one mount a user asked for.
type volume struct {
	Source   string // an absolute path of the daemon's machine, or a volume's name
	Named    bool
	Target   string
	ReadOnly bool
}

// places tell what of this machine may not be mounted.
type places struct {
	home  string
	state []string // the engine's own
	real  func(string) string
}

// errVolume marks what is wrong with a volume.
func errVolume(text, format string, args ...any) error {
	return fmt.Errorf("docker_volumes: %.200q: %s: %w", text, fmt.Sprintf(format, args...), sandbox.ErrPolicy)
}

// parseVolume reads SOURCE:TARGET[:OPTIONS].
func parseVolume(text string, p places) (volume, error) {
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return volume{}, errVolume(text, "want /host/dir:/dir or name:/dir, with :ro for read-only")
	}
	v := volume{Source: parts[0], Target: parts[1]}
	if len(parts) == 3 {
		for option := range strings.SplitSeq(parts[2], ",") {
			switch option {
			case "ro", "readonly":
				v.ReadOnly = true
			case "rw", "cached", "delegated", "consistent", "z", "Z":
				// z and Z would relabel the source, which then is lost to others.
				if strings.EqualFold(option, "z") {
					return volume{}, errVolume(text, "option %s changes labels of files on this machine, and is not supported", option)
				}
			default:
				return volume{}, errVolume(text, "there is no option %.40q; there are ro and rw", option)
			}
		}
	}
	if rest, ok := strings.CutPrefix(v.Source, "~"); ok && (rest == "" || rest[0] == '/') && p.home != "" {
		v.Source = filepath.Join(p.home, rest)
	}
	if err := checkTarget(v.Target); err != nil {
		return volume{}, errVolume(text, "%v", err)
	}
	switch {
	case filepath.IsAbs(v.Source):
		if err := p.checkSource(v.Source); err != nil {
			return volume{}, errVolume(text, "%v", err)
		}
		v.Source = p.real(filepath.Clean(v.Source))
	case isVolumeName(v.Source):
		v.Named = true
	default:
		return volume{}, errVolume(text, "%.80q is neither an absolute path nor a volume's name", v.Source)
	}
	return v, nil
}

// isVolumeName is what the engine takes for a name, less those that are ours.
func isVolumeName(s string) bool {
	if len(s) < 2 || len(s) > 128 || strings.HasPrefix(s, prefix) {
		return false
	}
	for i, c := range []byte(s) {
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || !strings.ContainsRune("_.-", rune(c))) {
			return false
		}
	}
	return true
}

// checkTarget refuses places in a box that are the box's own.
func checkTarget(target string) error {
	switch {
	case !path.IsAbs(target) || path.Clean(target) != target || strings.ContainsAny(target, "\x00\n"):
		return fmt.Errorf("the place inside, %.80q, is not a clean absolute path", target)
	case target == "/":
		return errors.New("it would take the place of the container's root")
	}
	for _, own := range []string{"/proc", "/sys", "/dev", "/run", "/etc", inside, "/tmp", "/var/tmp"} {
		if target == own || own != "/etc" && own != "/tmp" && own != "/run" && own != "/var/tmp" && sandbox.Covers(own, target) {
			return fmt.Errorf("%s is the container's own", own)
		}
	}
	return nil
}

// Places of a machine that would open it.
var (
	closedTrees   = []string{"/proc", "/sys", "/dev", "/boot", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet"}
	closedExactly = []string{"/", "/etc", "/run", "/var", "/var/run", "/var/lib", "/root", "/home", "/usr", "/lib", "/bin", "/sbin"}
	engineSockets = []string{"docker.sock", "containerd.sock", "containerd.sock.ttrpc", "podman.sock", "crio.sock", "buildkitd.sock", "dockershim.sock"}
)

// checkSource refuses what of this machine must not be seen in a box.
func (p places) checkSource(source string) error {
	clean := filepath.Clean(source)
	for _, name := range []string{clean, p.real(clean)} {
		slash := filepath.ToSlash(name)
		if slices.Contains(engineSockets, path.Base(slash)) {
			return errors.New("the socket of a container engine gives its holder the whole machine")
		}
		if slices.Contains(closedExactly, slash) {
			return fmt.Errorf("%s holds too much of this machine: mount the directory that is needed", slash)
		}
		for _, tree := range closedTrees {
			if sandbox.Covers(tree, slash) {
				return fmt.Errorf("%s is the machine's own", tree)
			}
		}
		for _, run := range []string{"/run", "/var/run"} {
			for _, engine := range []string{"docker", "containerd", "podman", "crio", "buildkit", "systemd", "dbus"} {
				if sandbox.Covers(run+"/"+engine, slash) {
					return fmt.Errorf("%s belongs to a service that acts with more rights", run+"/"+engine)
				}
			}
		}
		if p.home != "" && sandbox.Covers(slash, filepath.ToSlash(p.home)) {
			return fmt.Errorf("%s contains the home directory with its keys: mount the directory that is needed", slash)
		}
		for _, state := range p.state {
			if state = filepath.ToSlash(state); state != "" && (sandbox.Covers(slash, state) || sandbox.Covers(state, slash)) {
				return fmt.Errorf("%s is the engine's own state", state)
			}
		}
	}
	return nil
}

// realPath follows links as far as a name exists.
func realPath(name string) string {
	rest := ""
	for dir := filepath.Clean(name); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Clean(name)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
