package main

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// place is something secret that a host may have.
type place struct {
	ID     string   `json:"id"`
	What   string   `json:"what"`
	Path   string   `json:"path"`
	Exists bool     `json:"exists"`
	Opened bool     `json:"opened"` // by the policy, on purpose
	Dir    bool     `json:"dir"`
	Size   int64    `json:"size"`  // of a file
	Names  []string `json:"names"` // some of what is in a directory
}

// secretPlaces are where credentials are, as this user sees them from outside.
func secretPlaces(home, hermesHome string) []place {
	places := []place{}
	if home != "" {
		for _, p := range [][2]string{
			{"ssh", ".ssh"}, {"aws", ".aws"}, {"gnupg", ".gnupg"}, {"kube", ".kube"}, {"docker", ".docker"}, {"azure", ".azure"},
			{"gh", ".config/gh"}, {"gcloud", ".config/gcloud"}, {"firefox", ".mozilla"}, {"chrome", ".config/google-chrome"},
			{"chromium", ".config/chromium"}, {"keyring", ".local/share/keyrings"}, {"pass", ".password-store"}, {"1password", ".config/op"},
		} {
			places = append(places, look(p[0], "~/"+p[1], filepath.Join(home, p[1])))
		}
	}
	if hermesHome != "" {
		places = append(places, look("hermes-env", "the engine's .env", filepath.Join(hermesHome, ".env")))
	}
	return places
}

// look sees what is at path. What is empty holds no secret, and counts as
// missing.
func look(id, what, path string) place {
	p := place{ID: id, What: what, Path: path, Names: []string{}}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return p
	case info.IsDir():
		p.Dir = true
		entries, _ := os.ReadDir(path)
		for _, e := range entries[:min(len(entries), 20)] {
			p.Names = append(p.Names, e.Name())
		}
		p.Exists = len(p.Names) > 0
	case info.Mode().IsRegular():
		p.Size = info.Size()
		p.Exists = p.Size > 0
	}
	return p
}

// otherHomes are the key directories of other users that this one can see.
func otherHomes(home string) []place {
	homes, _ := filepath.Glob("/home/*")
	places := []place{}
	for _, dir := range append(homes, "/root") {
		if dir == home || len(places) >= 20 {
			continue
		}
		for _, name := range []string{".ssh", ".aws", ".gnupg"} {
			if p := look("other", dir+"/"+name, dir+"/"+name); p.Exists {
				places = append(places, p)
			}
		}
	}
	return places
}

// services sorts the sockets that are bound on this host by what they are for.
// Sockets below dirs are a workspace's own; those of other boxes ask for their
// run's token, which other probes look at.
func services(dirs ...string) (paths map[string][]string, abstract []string) {
	paths, abstract = map[string][]string{}, []string{}
	var found []string
	data, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) < 8 || fields[3] != "00010000" { // flags: it listens
			continue
		}
		if name, ok := strings.CutPrefix(fields[7], "@"); ok {
			if len(abstract) < 10 {
				abstract = append(abstract, name)
			}
		} else if filepath.IsAbs(fields[7]) {
			found = append(found, fields[7])
		}
	}
	runtime := os.Getenv("XDG_RUNTIME_DIR")
	for _, path := range []string{"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", runtime + "/podman/podman.sock",
		runtime + "/docker.sock", "/run/dbus/system_bus_socket", runtime + "/bus", "/run/systemd/private", "/run/systemd/journal/stdout",
		runtime + "/systemd/private", "/tmp/.X11-unix/X0", runtime + "/wayland-0", os.Getenv("SSH_AUTH_SOCK"), runtime + "/gnupg/S.gpg-agent"} {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			found = append(found, path)
		}
	}
	slices.Sort(found)
	kinds := [][2]string{{"docker", "containers"}, {"containerd", "containers"}, {"podman", "containers"}, {"crio", "containers"},
		{"dbus", "dbus"}, {"/bus", "dbus"}, {"systemd", "systemd"}, {"X11", "display"}, {"wayland", "display"}, {"ssh", "agents"}, {"gpg", "agents"}}
sockets:
	for _, path := range slices.Compact(found) {
		for _, dir := range dirs {
			if dir != "" && strings.HasPrefix(path, dir+"/") {
				continue sockets
			}
		}
		if strings.Contains(path, "/hermes-exec-"+strconv.Itoa(os.Getuid())+"/") {
			continue
		}
		kind := "others"
		for _, k := range kinds {
			if strings.Contains(path, k[0]) {
				kind = k[1]
				break
			}
		}
		if len(paths[kind]) < 20 {
			paths[kind] = append(paths[kind], path)
		}
	}
	return paths, abstract
}

// present are those of paths that exist.
func present(paths ...string) []string {
	return slices.DeleteFunc(paths, func(path string) bool { _, err := os.Lstat(path); return err != nil })
}

// disks are the device files of this host's block devices.
func disks() []string {
	blocks, _ := os.ReadDir("/sys/block")
	paths := []string{}
	for _, b := range blocks {
		if !strings.HasPrefix(b.Name(), "loop") && !strings.HasPrefix(b.Name(), "ram") && !strings.HasPrefix(b.Name(), "sr") && !strings.HasPrefix(b.Name(), "fd") && len(paths) < 10 {
			paths = append(paths, "/dev/"+b.Name())
		}
	}
	return present(paths...)
}

// loadedDevices are device files whose driver is loaded: to open them loads
// nothing.
func loadedDevices() []string {
	misc, _ := os.ReadFile("/proc/misc")
	loaded := strings.Fields(string(misc))
	paths := []string{}
	for name, path := range map[string]string{"fuse": "/dev/fuse", "kvm": "/dev/kvm", "tun": "/dev/net/tun", "loop-control": "/dev/loop-control",
		"uinput": "/dev/uinput", "vhost-net": "/dev/vhost-net", "vsock": "/dev/vsock", "btrfs-control": "/dev/btrfs-control"} {
		if slices.Contains(loaded, name) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return present(paths...)
}

// addresses are this host's own, loopback aside.
func addresses() []string {
	list := []string{}
	all, _ := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(list) < 8 {
			list = append(list, n.IP.String())
		}
	}
	return list
}

// pathDirs are the directories programs are looked for in, but for those below
// a directory of the selftest's own.
func pathDirs(own string) []string {
	dirs := []string{}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) && !strings.HasPrefix(dir, own) && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return present(dirs...)
}

// netlinkFamilies are those the kernel has loaded.
func netlinkFamilies() []int {
	found := []int{}
	data, _ := os.ReadFile("/proc/net/netlink")
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			if n, err := strconv.Atoi(fields[1]); err == nil && !slices.Contains(found, n) {
				found = append(found, n)
			}
		}
	}
	return found
}

// namespaces are those of this process.
func namespaces() map[string]string {
	all := map[string]string{}
	for _, kind := range []string{"user", "pid", "mnt", "ipc", "uts", "cgroup", "net"} {
		all[kind], _ = os.Readlink("/proc/self/ns/" + kind)
	}
	return all
}
