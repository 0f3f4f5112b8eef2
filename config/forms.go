package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v4"
)

// checked is text with a form of its own. Unless it is needed it may be empty.
type checked struct {
	to     *string
	needed bool
	check  func(string) error
}

func (v checked) set(n *yaml.Node) error {
	s, err := text(n)
	if err != nil {
		return err
	}
	return v.parse(s)
}

func (v checked) parse(s string) error {
	if s != "" || v.needed {
		if err := v.check(s); err != nil {
			return err
		}
	}
	return word{v.to}.parse(s)
}

func (v checked) show() string { return word{v.to}.show() }

// megabytes is a size in bytes, written as a number of MiB; 0 is for no limit.
type megabytes struct {
	to       *int64
	min, max int
}

func (v megabytes) set(n *yaml.Node) error {
	return v.from(func(w whole) error { return w.set(n) })
}

func (v megabytes) parse(s string) error {
	return v.from(func(w whole) error { return w.parse(s) })
}

func (v megabytes) from(read func(whole) error) error {
	var n int
	if err := read(whole{&n, math.MinInt, math.MaxInt, "megabytes"}); err != nil {
		return err
	}
	if n != 0 && (n < v.min || n > v.max) {
		return fmt.Errorf("want from %d to %d megabytes, or 0 for no limit, got %d", v.min, v.max, n)
	}
	*v.to = int64(n) << 20
	return nil
}

func (v megabytes) show() string { return fmt.Sprint(*v.to >> 20) }

// extraArgs takes no arguments for docker run, and says why.
type extraArgs struct{}

func (extraArgs) set(n *yaml.Node) error {
	if n.Kind != yaml.SequenceNode {
		return fmt.Errorf("want a list, got %s", kind(n))
	}
	if len(n.Content) == 0 {
		return nil
	}
	const why = "is refused: arguments for docker run could undo the container's hardening"
	arg, err := text(resolve(n.Content[0]))
	if err != nil || !strings.HasPrefix(arg, "-") {
		return fmt.Errorf("item 1 %s; use the other docker_… and container_… keys", why)
	}
	// What follows the name, a variable's value perhaps, is not repeated.
	name, _, _ := strings.Cut(arg, "=")
	if len(name) > 2 && name[1] != '-' {
		name = name[:2]
	}
	if use := insteadOf(name); use != "" {
		return fmt.Errorf("item 1, %q, %s; use %s", clip(name), why, use)
	}
	return fmt.Errorf("item 1, %q, %s; no key does the same", clip(name), why)
}

func (v extraArgs) parse(s string) error {
	n, err := jsonNode(s)
	if err != nil {
		return fmt.Errorf("want a list as JSON: %w", err)
	}
	return v.set(n)
}

func (extraArgs) show() string { return "unset" }

// insteadOf names the keys that do what an argument of docker run does.
func insteadOf(arg string) string {
	switch arg {
	case "-v", "--volume", "--mount":
		return "docker_volumes"
	case "-e", "--env", "--env-file":
		return "docker_env or docker_forward_env"
	case "--net", "--network":
		return "docker_network"
	case "--runtime":
		return "docker_runtime"
	case "-u", "--user":
		return "docker_run_as_host_user"
	case "-c", "--cpus":
		return "container_cpu"
	case "-m", "--memory":
		return "container_memory"
	case "--storage-opt":
		return "container_disk"
	}
	return ""
}

// plain tells text that is one word and cannot be taken for an option.
func plain(s string) bool {
	return s != "" && len(s) <= 1024 && s[0] != '-' &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
}

func imageName(s string) error {
	if !plain(s) {
		return fmt.Errorf("want the name of an image, got %q", clip(s))
	}
	return nil
}

// volume accepts the form; the backend knows what must not be mounted.
func volume(s string) error {
	const wanted = "want /host/dir:/dir or name:/dir, with :ro for read-only"
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] == "" {
		return fmt.Errorf("%s, got %q", wanted, clip(s))
	}
	source, target := parts[0], parts[1]
	if named := strings.Trim(source, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") == "" && plain(source); !named || source[0] == '.' {
		if !path.IsAbs(source) && source != "~" && !strings.HasPrefix(source, "~/") {
			return fmt.Errorf("%s, got the source %q", wanted, clip(source))
		}
	}
	if !path.IsAbs(target) {
		return fmt.Errorf("%s, got the place inside %q", wanted, clip(target))
	}
	return nil
}

// forwardName accepts a variable's name; what may be a value is not repeated.
func forwardName(s string) error {
	if name, _, pair := strings.Cut(s, "="); pair {
		return fmt.Errorf("want the name of a variable alone, got one with a value; %q belongs into docker_env", clip(name))
	}
	return variableName(s)
}

func runtimeName(s string) error {
	if !plain(s) || strings.ContainsAny(s, `/\=:`) {
		return fmt.Errorf("want a runtime's name as the daemon knows it, such as runsc, got %q", clip(s))
	}
	return nil
}

// daemonURL accepts where a daemon can be. A password in it is not repeated.
func daemonURL(s string) error {
	wanted := errors.New("want a URL such as unix:///run/docker.sock, tcp://host:2376 or ssh://user@host")
	u, err := url.Parse(s)
	if err != nil || !plain(s) {
		return wanted
	}
	if _, has := u.User.Password(); has {
		return errors.New("want a URL without a password in it")
	}
	switch u.Scheme {
	case "unix", "npipe":
		if u.Host != "" || !path.IsAbs(u.Path) {
			return fmt.Errorf("%w, got %q", wanted, clip(s))
		}
	case "tcp", "ssh", "http", "https":
		if u.Hostname() == "" {
			return fmt.Errorf("%w, got %q", wanted, clip(s))
		}
	default:
		return fmt.Errorf("%w, got %q", wanted, clip(s))
	}
	return nil
}

// hostName accepts a name or an address, without user and port.
func hostName(s string) error {
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	switch {
	case !plain(s) || strings.ContainsAny(s, `/\`):
		return fmt.Errorf("want a host's name or address, got %q", clip(s))
	case strings.Contains(s, "@"):
		return fmt.Errorf("want a host's name or address, got %q; the user has a key of its own", clip(s))
	case strings.ContainsAny(s, ":[]"):
		return fmt.Errorf("want a host's name or address, got %q; the port has a key of its own", clip(s))
	}
	return nil
}

func userName(s string) error {
	if !plain(s) || strings.ContainsAny(s, "@:/") {
		return fmt.Errorf("want a user's name, got %q", clip(s))
	}
	return nil
}

// containerDir accepts a directory in a container.
func containerDir(s string) error {
	if !path.IsAbs(s) {
		return fmt.Errorf("want an absolute path in the container, got %q", clip(s))
	}
	return nil
}

// remoteDir accepts a directory on a host.
func remoteDir(s string) error {
	if !path.IsAbs(s) && s != "~" && !strings.HasPrefix(s, "~/") {
		return fmt.Errorf("want an absolute path or one below ~ on the host, got %q", clip(s))
	}
	return nil
}
