package docker

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

//go:embed seccomp.json
var seccompJSON []byte

// seccompProfile is the list of system calls, compact, as the engine takes it.
var seccompProfile = sync.OnceValue(func() string {
	var profile map[string]any
	if json.Unmarshal(seccompJSON, &profile) != nil {
		return ""
	}
	text, _ := json.Marshal(profile)
	return string(text)
})

const (
	usualPIDs = 256
	// ownPIDs is how many threads the guest and its supervisors may have besides.
	ownPIDs  = 64
	mib      = 1 << 20
	usualTmp = 4 << 30  // of /tmp and the like
	smallTmp = 64 * mib // of /run and /dev/shm
)

// order is all that makes a container what it is. Two equal orders get equal
// containers.
type order struct {
	Image   image
	Posture posture
	User    user
	Runtime string
	Res     sandbox.Resources
	Volumes []volume
	Home    bool      // a home of the box's own, in memory
	Keep    [2]string // directories of this machine for /workspace and the home; "" without
	Shown   []string  // places of this machine whose root is shown as the user
	Guest   mount.Mount
	Far     bool // the connection is the attached stream
	Quota   bool // the container's own layer is bounded

	tmp    int64             // bytes of each directory in memory
	small  int64             // of /run and /dev/shm
	guards []guard           // in the work directory, once it is reserved
	lacks  []string          // limits that cannot be kept and may be missing
	at     map[string]string // where what is shown is mounted, while the container starts
	asRoot string            // why the user is root
	cgroup string            // why the control groups are seen from this machine's root
}

// guard is a mount over something in the work directory.
type guard struct {
	Source string // of this machine
	Kind   guardKind
}

type guardKind string

const (
	guardPin      guardKind = "pin"      // stays where it is
	guardReadOnly guardKind = "readonly" //
	guardHideDir  guardKind = "hide-dir"
	guardHideFile guardKind = "hide-file"
)

// body is the request that makes the container. link is the directory with the
// socket, hidden an empty file of this machine, labels tell whose it is.
func (o *order) body(name, link, hidden string, labels map[string]string) client.ContainerCreateOptions {
	no := false
	pids := int64(o.Res.PIDs)
	if pids == 0 {
		pids = usualPIDs
	}
	pids += ownPIDs
	host := &container.HostConfig{
		AutoRemove:     true,
		CapDrop:        []string{"ALL"},
		SecurityOpt:    []string{"no-new-privileges", "seccomp=" + seccompProfile()},
		ReadonlyRootfs: o.Posture.Sealed,
		NetworkMode:    "none",
		IpcMode:        "private",
		CgroupnsMode:   container.CgroupnsModePrivate,
		Init:           &no,
		Runtime:        o.Runtime,
		ShmSize:        o.small,
		LogConfig:      container.LogConfig{Type: "none"},
		Tmpfs:          o.tmpfs(),
		Resources: container.Resources{
			Ulimits:  []*container.Ulimit{{Name: "core"}},
			NanoCPUs: int64(o.Res.CPU * 1e9), Memory: o.Res.Memory, MemorySwap: o.Res.Memory, PidsLimit: &pids,
		},
		Mounts: o.mounts(link, hidden),
	}
	if o.Posture.Network {
		host.NetworkMode = "bridge"
	}
	if o.Quota {
		host.StorageOpt = map[string]string{"size": fmt.Sprint(o.Res.Disk)}
	}
	config := &container.Config{
		Image: o.Image.ID, User: o.User.Text, WorkingDir: "/", Labels: labels,
		Entrypoint:   []string{guestInside, "guest", "serve"},
		Cmd:          []string{},
		Healthcheck:  &container.HealthConfig{Test: []string{"NONE"}}, // it would run a program beside the guest
		AttachStderr: true,
	}
	if o.Far {
		config.AttachStdin, config.AttachStdout, config.OpenStdin, config.StdinOnce = true, true, true, true
	} else {
		config.Entrypoint = append(config.Entrypoint, "--dial", socketInside)
	}
	if o.Home {
		config.Env = append(config.Env, "HOME="+homeInside)
	}
	return client.ContainerCreateOptions{Config: config, HostConfig: host, Name: name}
}

// tmpfs are the directories in memory.
func (o *order) tmpfs() map[string]string {
	own := fmt.Sprintf(",uid=%d,gid=%d", o.User.ID, o.User.GID)
	size := fmt.Sprintf("rw,exec,nosuid,nodev,size=%d", o.tmp)
	list := map[string]string{
		"/tmp":     size + ",mode=1777",
		"/var/tmp": size + ",mode=1777",
		"/run":     fmt.Sprintf("rw,noexec,nosuid,nodev,size=%d,mode=755", o.small) + own,
	}
	if o.Posture.WorkDir == "" && o.Keep[0] == "" && !slices.ContainsFunc(o.Volumes, func(v volume) bool { return v.Target == workInside }) {
		list[workInside] = size + ",mode=700" + own
	}
	if o.Home && o.Keep[1] == "" {
		list[homeInside] = size + ",mode=700" + own
	}
	for _, g := range o.guards {
		if g.Kind == guardHideDir {
			list[o.insideOf(g.Source)] = "ro,noexec,nosuid,nodev,size=4096,mode=0"
		}
	}
	return list
}

// insideOf is where something in the work directory is in the box.
func (o *order) insideOf(name string) string {
	return path.Join(workInside, o.relative(name))
}

func (o *order) relative(name string) string {
	return strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(name), filepath.ToSlash(o.Posture.WorkDir)), "/")
}

func (o *order) mounts(link, hidden string) []mount.Mount {
	bind := func(source, target string, readOnly bool) mount.Mount {
		return mount.Mount{Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate}}
	}
	list := []mount.Mount{o.Guest}
	if !o.Far {
		list = append(list, bind(link, linkInside, true))
	}
	if o.Posture.WorkDir != "" {
		list = append(list, bind(o.sourceOf(o.Posture.WorkDir), workInside, o.Posture.WorkReadOnly))
	}
	for i, target := range []string{workInside, homeInside} {
		if o.Keep[i] != "" {
			list = append(list, bind(o.Keep[i], target, false))
		}
	}
	for _, v := range o.Volumes {
		if v.Named {
			list = append(list, mount.Mount{Type: mount.TypeVolume, Source: v.Source, Target: v.Target, ReadOnly: v.ReadOnly})
			continue
		}
		list = append(list, bind(o.sourceOf(v.Source), v.Target, v.ReadOnly))
	}
	for _, g := range o.guards {
		switch g.Kind {
		case guardPin:
			list = append(list, bind(o.guardSource(g.Source), o.insideOf(g.Source), o.Posture.WorkReadOnly))
		case guardReadOnly:
			list = append(list, bind(o.guardSource(g.Source), o.insideOf(g.Source), true))
		case guardHideFile:
			list = append(list, bind(hidden, o.insideOf(g.Source), true))
		}
	}
	return list
}

// key tells orders apart.
func (o *order) key() string {
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	return string(text)
}
