package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Backend is a place to run that has a name.
type Backend struct {
	Name string
	Type string // local, docker or ssh
	Cwd  string // where to work there, "" for the backend's own choice

	Docker Docker // of type docker
	SSH    SSH    // of type ssh
}

// Docker says how a container is made. What is empty is the backend's to
// choose; a leading ~ of a path is for the backend to expand.
type Docker struct {
	Image      string
	Volumes    []string // SOURCE:TARGET[:OPTIONS]
	Env        []string // NAME=value, by name; the values may be secrets
	ForwardEnv []string // names
	Runtime    string   // as the daemon knows it
	Network    string   // off, bridge, or "" for what the policy says
	Host       string   // of the daemon, a URL

	CPU    float64 // cores, 0 for no limit
	Memory int64   // bytes, 0 for no limit
	Disk   int64   // bytes, 0 for no limit
	PIDs   int

	MountCwd      bool // the working directory at /workspace
	RunAsHostUser bool
	Persistent    bool // files outlive the container
	OrphanReaper  bool
	Pool          int // containers that wait for a first run
}

// SSH says how a host is reached. What is empty is for the ssh configuration
// file, then the backend, to say.
type SSH struct {
	Host       string // a name, an address, or a Host of the ssh configuration file
	User       string
	Port       int
	Key        string // file
	Config     string // file
	KnownHosts string // file
	AcceptNew  bool   // keys of hosts never seen before
	Keepalive  time.Duration
}

// laterTypes are places to run that are known by name and not built yet.
const laterTypes = "singularity modal daytona kubernetes"

// defaultDocker is the reference's container.
func defaultDocker() Docker {
	return Docker{
		Image: "nikolaik/python-nodejs:python3.11-nodejs20",
		CPU:   1, Memory: 5120 << 20, Disk: 51200 << 20,
		Persistent: true, OrphanReaper: true,
	}
}

// places are the backends there are: those that are always there, made of the
// terminal section, and the named ones, which take nothing from it. The one
// that terminal.backend names works in terminal.cwd unless it has its own.
func (c *Config) places() map[string]Backend {
	term := &c.Terminal
	all := map[string]Backend{
		"local":  {Name: "local", Type: "local"},
		"docker": {Name: "docker", Type: "docker", Docker: term.Docker},
		"ssh":    {Name: "ssh", Type: "ssh", SSH: term.SSH},
	}
	for _, b := range c.named {
		all[b.Name] = *b
	}
	if b, ok := all[term.Backend]; ok && b.Cwd == "" && term.Cwd != "." {
		b.Cwd = term.Cwd
		all[b.Name] = b
	}
	return all
}

// checkBackend is the mistake of naming a backend that does not exist.
func (c *Config) checkBackend() error {
	const key = "terminal.backend"
	name := c.Terminal.Backend
	if c.Backends[name].Name != "" || slices.Contains(strings.Fields(laterTypes), name) {
		return nil
	}
	known := make([]string, 0, len(c.Backends))
	for name := range c.Backends {
		known = append(known, name)
	}
	slices.Sort(known)
	err := fmt.Errorf("unknown backend %q; have %s", clip(name), strings.Join(known[:min(len(known), 20)], ", "))
	if near := Nearest(name, append(known, strings.Fields(laterTypes)...)); near != "" {
		err = fmt.Errorf("unknown backend %q; did you mean %q?", clip(name), near)
	}
	origin := c.Origin(key)
	if strings.HasPrefix(origin, c.Path+":") {
		return fmt.Errorf("config: %s: %s: %w", origin, key, err)
	}
	return fmt.Errorf("config: %s (%s): %w", origin, key, err)
}

// backends are the terminal section's settings of docker and ssh.
func (t *Terminal) backends() []setting {
	d, s := &t.Docker, &t.SSH
	return []setting{
		{"terminal.lifetime_seconds", "TERMINAL_LIFETIME_SECONDS", seconds{&t.Lifetime, 7 * 24 * time.Hour}},
		{"terminal.sandbox_dir", "TERMINAL_SANDBOX_DIR", word{&t.SandboxDir}},

		{"terminal.docker_image", "TERMINAL_DOCKER_IMAGE", checked{&d.Image, true, imageName}},
		{"terminal.docker_volumes", "TERMINAL_DOCKER_VOLUMES", list{&d.Volumes, volume}},
		{"terminal.docker_env", "TERMINAL_DOCKER_ENV", variables{&d.Env}},
		{"terminal.docker_forward_env", "TERMINAL_DOCKER_FORWARD_ENV", list{&d.ForwardEnv, forwardName}},
		{"terminal.docker_extra_args", "TERMINAL_DOCKER_EXTRA_ARGS", extraArgs{}},
		{"terminal.docker_mount_cwd_to_workspace", "TERMINAL_DOCKER_MOUNT_CWD_TO_WORKSPACE", flag{&d.MountCwd}},
		{"terminal.docker_run_as_host_user", "TERMINAL_DOCKER_RUN_AS_HOST_USER", flag{&d.RunAsHostUser}},
		{"terminal.docker_orphan_reaper", "TERMINAL_DOCKER_ORPHAN_REAPER", flag{&d.OrphanReaper}},
		{"terminal.docker_pool", "TERMINAL_DOCKER_POOL", poolOf(d)},
		{"terminal.docker_network", "TERMINAL_DOCKER_NETWORK", networkOf(d)},
		{"terminal.docker_runtime", "TERMINAL_DOCKER_RUNTIME", checked{&d.Runtime, false, runtimeName}},
		{"terminal.docker_host", "TERMINAL_DOCKER_HOST", checked{&d.Host, false, daemonURL}},
		{"terminal.container_cpu", "TERMINAL_CONTAINER_CPU", cores{&d.CPU, 0.01, 10_000}},
		{"terminal.container_memory", "TERMINAL_CONTAINER_MEMORY", megabytes{&d.Memory, 16, 1 << 30}},
		{"terminal.container_disk", "TERMINAL_CONTAINER_DISK", megabytes{&d.Disk, 1, 1 << 30}},
		{"terminal.container_persistent", "TERMINAL_CONTAINER_PERSISTENT", flag{&d.Persistent}},

		{"terminal.ssh_host", "TERMINAL_SSH_HOST", checked{&s.Host, false, hostName}},
		{"terminal.ssh_user", "TERMINAL_SSH_USER", checked{&s.User, false, userName}},
		{"terminal.ssh_port", "TERMINAL_SSH_PORT", portOf(s)},
		{"terminal.ssh_key", "TERMINAL_SSH_KEY", word{&s.Key}},
		{"terminal.ssh_config", "TERMINAL_SSH_CONFIG", word{&s.Config}},
		{"terminal.ssh_known_hosts", "TERMINAL_SSH_KNOWN_HOSTS", word{&s.KnownHosts}},
		{"terminal.ssh_accept_new", "TERMINAL_SSH_ACCEPT_NEW", flag{&s.AcceptNew}},
		{"terminal.ssh_keepalive", "TERMINAL_SSH_KEEPALIVE", keepaliveOf(s)},
	}
}

// settings are those of a named backend, the type first.
func (b *Backend) settings() []setting {
	d, s := &b.Docker, &b.SSH
	all := []setting{{"type", "", checked{&b.Type, true, backendType}}}
	switch b.Type {
	case "docker":
		all = append(all, []setting{
			{"cwd", "", checked{&b.Cwd, false, containerDir}},
			{"image", "", checked{&d.Image, true, imageName}},
			{"volumes", "", list{&d.Volumes, volume}},
			{"env", "", variables{&d.Env}},
			{"forward_env", "", list{&d.ForwardEnv, forwardName}},
			{"mount_cwd", "", flag{&d.MountCwd}},
			{"run_as_host_user", "", flag{&d.RunAsHostUser}},
			{"orphan_reaper", "", flag{&d.OrphanReaper}},
			{"pool", "", poolOf(d)},
			{"network", "", networkOf(d)},
			{"runtime", "", checked{&d.Runtime, false, runtimeName}},
			{"host", "", checked{&d.Host, false, daemonURL}},
			{"cpu", "", cores{&d.CPU, 0.01, 10_000}},
			{"memory", "", size{&d.Memory, 16 << 20, 1 << 50, "no limit"}},
			{"disk", "", size{&d.Disk, 1 << 20, 1 << 50, "no limit"}},
			{"pids", "", whole{&d.PIDs, 1, 1 << 22, "processes"}},
			{"persistent", "", flag{&d.Persistent}},
		}...)
	case "ssh":
		all = append(all, []setting{
			{"cwd", "", checked{&b.Cwd, false, remoteDir}},
			{"host", "", checked{&s.Host, true, hostName}},
			{"user", "", checked{&s.User, false, userName}},
			{"port", "", portOf(s)},
			{"key", "", word{&s.Key}},
			{"config", "", word{&s.Config}},
			{"known_hosts", "", word{&s.KnownHosts}},
			{"accept_new", "", flag{&s.AcceptNew}},
			{"keepalive", "", keepaliveOf(s)},
		}...)
	}
	for i := range all {
		all[i].key = "backends." + b.Name + "." + all[i].key
	}
	return all
}

func poolOf(d *Docker) value { return whole{&d.Pool, 0, 64, "containers"} }

// networkOf takes the reference's booleans too: true is a network, false none.
func networkOf(d *Docker) value {
	return choice{&d.Network, []string{"off", "bridge"}, map[string]string{
		"none": "off", "false": "off", "no": "off", "0": "off",
		"true": "bridge", "yes": "bridge", "on": "bridge", "1": "bridge",
	}}
}

func portOf(s *SSH) value { return whole{&s.Port, 1, 65535, ""} }

func keepaliveOf(s *SSH) value { return seconds{&s.Keepalive, time.Hour} }
