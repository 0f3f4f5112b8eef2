package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/mount"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// prefix begins the names of everything that is made at the daemon.
const prefix = "hermes-exec-"

// order decides all about a spec's container, and refuses what cannot be kept.
func (b *Backend) order(ctx context.Context, d *daemon, spec sandbox.Spec) (*order, error) {
	c := &b.config
	if err := refuseArgs(c.ExtraArgs); err != nil {
		return nil, err
	}
	if err := refuseRuntime(c.Runtime, d.facts); err != nil {
		return nil, err
	}
	if err := checkEnv("docker_env", c.Env); err != nil {
		return nil, err
	}
	p, err := b.posture(spec)
	if err == nil {
		p.Network, err = b.network(p.Network)
	}
	if err != nil {
		return nil, err
	}
	if spec.Image == "" {
		spec.Image = c.Image
	}
	o := &order{Posture: p, Runtime: c.Runtime, Res: b.resources(spec)}
	if o.Volumes, err = b.volumes(spec); err != nil {
		return nil, err
	}
	if o.Image, err = b.image(ctx, d, spec.Image); err != nil {
		return nil, err
	}
	if err := b.limits(o, spec.Resources, d.facts); err != nil {
		return nil, err
	}
	if err := d.probe(ctx, b, o.Image); err != nil {
		return nil, err
	}
	if err := o.needFiles(d, c.Persistent); err != nil {
		return nil, err
	}
	owner, err := b.ownerOf(p)
	if err != nil {
		return nil, err
	}
	if owner != nil && owner.ID == 0 && os.Geteuid() == 0 && !d.rootless {
		u, why := b.ordinary(d, p.WorkDir)
		if owner, o.asRoot = &u, why; why == "" {
			o.Shown = []string{p.WorkDir}
		}
	}
	o.User = userOf(o.Image, p, d.facts, owner, engineUser(), c.RunAsHostUser || c.Persistent && os.Getuid() > 0) // who can keep files as himself alone
	b.show(d, o)
	for i, v := range o.Volumes {
		if v.Named || v.ReadOnly || slices.Contains(o.Shown, v.Source) || writableBy(v.Source, o.User) {
			continue
		}
		err := fmt.Errorf("%s cannot be written by the box's user %d: mount it read-only, or change its owner or mode: %w", v.Source, o.User.ID, sandbox.ErrPolicy)
		if i >= len(c.Volumes) {
			return nil, err // what a spec asks for is kept or refused
		}
		b.log.Warn("a volume is as good as read-only", "err", err)
	}
	o.Home = o.User.Text != "" && o.User != o.Image.own || p.Sealed // the image has none for him, or he cannot write it
	// Only runc is known to let a socket of this machine through.
	o.Far = !d.shared.sockets || c.Runtime != "" && c.Runtime != "runc"
	if o.Guest, err = b.guest(ctx, d, o.Image); err != nil {
		return nil, err
	}
	if c.Persistent && p.WorkDir == "" {
		if err := b.keep(o, spec.ID); err != nil {
			return nil, err
		}
	}
	return o, nil
}

func (b *Backend) ownerOf(p posture) (*user, error) {
	if p.WorkDir == "" {
		return nil, nil
	}
	return workUser(p.WorkDir)
}

// resources fills in what the spec leaves to the configuration.
func (b *Backend) resources(spec sandbox.Spec) sandbox.Resources {
	r := spec.Resources
	if r.CPU == 0 {
		r.CPU = b.config.CPU
	}
	if r.Memory == 0 {
		r.Memory = b.config.Memory
	}
	if r.Disk == 0 {
		r.Disk = b.config.Disk
	}
	if r.PIDs == 0 {
		r.PIDs = b.config.PIDs
	}
	return r
}

// volumes are the mounts of the configuration and of the spec.
func (b *Backend) volumes(spec sandbox.Spec) (list []volume, err error) {
	p := b.places()
	for _, text := range b.config.Volumes {
		v, err := parseVolume(text, p)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	for _, m := range spec.Mounts {
		if !filepath.IsAbs(m.Source) {
			return nil, fmt.Errorf("mount %.80q: want an absolute path of this machine: %w", m.Source, sandbox.ErrPolicy)
		}
		if err := p.checkSource(m.Source); err != nil {
			return nil, fmt.Errorf("mount %.80q: %w: %w", m.Source, err, sandbox.ErrPolicy)
		}
		if err := checkTarget(m.Target); err != nil {
			return nil, fmt.Errorf("mount %.80q: %w: %w", m.Source, err, sandbox.ErrPolicy)
		}
		list = append(list, volume{Source: realPath(m.Source), Target: m.Target, ReadOnly: !m.Writable})
	}
	seen := map[string]bool{}
	for _, v := range list {
		if seen[v.Target] {
			return nil, fmt.Errorf("two mounts at %s: %w", v.Target, sandbox.ErrPolicy)
		}
		if spec.WorkDir != "" && sandbox.Covers(workInside, v.Target) {
			return nil, fmt.Errorf("a mount at %s, where the work directory is: %w", v.Target, sandbox.ErrPolicy)
		}
		seen[v.Target] = true
	}
	return list, nil
}

// limits refuses resource limits that a spec asks for and the engine cannot
// keep, unless they may be missing. Those of the configuration are kept as far
// as they can be.
func (b *Backend) limits(o *order, asked sandbox.Resources, f facts) error {
	lacks := lacking(asked, f)
	o.Quota = o.Res.Disk > 0 && f.quota && !o.Posture.Sealed
	if asked.Disk > 0 && !o.Posture.Sealed && !f.quota {
		lacks = append(lacks, "disk: the storage driver does not bound a container's own layer")
	}
	if len(lacks) > 0 && !slices.Contains(o.Posture.Best, sandbox.ClauseResources) {
		return fmt.Errorf("the docker engine cannot limit %s: %w", strings.Join(lacks, "; "), sandbox.ErrPolicy)
	}
	o.lacks = lacking(o.Res, f)
	if !f.memory {
		o.Res.Memory = 0
	}
	if !f.cpu {
		o.Res.CPU = 0
	}
	if o.tmp = o.Res.Disk; o.tmp == 0 {
		o.tmp = usualTmp
	}
	o.small = smallTmp
	// Who fills one is told that it is full, and does not end the guest, which has
	// the same memory.
	for _, memory := range [...]int64{f.total, o.Res.Memory} {
		if memory > 0 {
			o.tmp, o.small = min(o.tmp, memory/2), min(o.small, memory/8)
		}
	}
	return nil
}

// lacking are limits that are asked and that the engine does not have.
func lacking(r sandbox.Resources, f facts) (lacks []string) {
	if r.Memory > 0 && !f.memory {
		lacks = append(lacks, "memory: the kernel there has no such limit")
	}
	if r.CPU > 0 && !f.cpu {
		lacks = append(lacks, "cpu: the kernel there has no such limit")
	}
	if r.PIDs > 0 && !f.pids {
		lacks = append(lacks, "pids: the kernel there has no such limit")
	}
	return lacks
}

// needFiles refuses what takes files of this machine where the engine has none.
func (o *order) needFiles(d *daemon, persistent bool) error {
	if d.shared.files {
		return nil
	}
	cannot := func(what string) error {
		return fmt.Errorf("%s: the docker engine at %s does not see this machine's files (%s): %w", what, d.endpoint.display(), d.shared.why, sandbox.ErrUnsupported)
	}
	if o.Posture.WorkDir != "" {
		return cannot("the work directory " + o.Posture.WorkDir + " cannot be mounted; without one (strict mode) boxes have an empty /workspace")
	}
	for _, v := range o.Volumes {
		if !v.Named {
			return cannot("volume " + v.Source)
		}
	}
	if persistent {
		return cannot("container_persistent")
	}
	return nil
}

// keep gives a box without a work directory what it kept the last time.
func (b *Backend) keep(o *order, id string) error {
	if id == "" {
		id = "default"
	}
	if _, err := openState(b.config.StateDir); err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(id))
	for i, name := range []string{"workspace", "home"} {
		dir := filepath.Join(b.config.StateDir, keepDir, hex.EncodeToString(sum[:8]), name)
		if err := makeOwn(dir, o.User); err != nil {
			return fmt.Errorf("container_persistent: %w", err)
		}
		o.Keep[i] = dir
	}
	o.Home = true
	return nil
}

// guest is the mount that brings the guest program.
func (b *Backend) guest(ctx context.Context, d *daemon, i image) (mount.Mount, error) {
	file, err := b.config.Guest("linux", i.Arch)
	if err != nil {
		return mount.Mount{}, fmt.Errorf("guest program for linux/%s: %w", i.Arch, err)
	}
	if !d.shared.files {
		name, err := b.upload(ctx, d, i, file)
		return mount.Mount{Type: mount.TypeVolume, Source: name, Target: guestDir, ReadOnly: true,
			VolumeOptions: &mount.VolumeOptions{NoCopy: true}}, err
	}
	if file, err = b.readable(realPath(file)); err != nil {
		return mount.Mount{}, fmt.Errorf("guest program: %w", err)
	}
	return mount.Mount{Type: mount.TypeBind, Source: file, Target: guestInside, ReadOnly: true}, nil
}

// readable is a guest program that every user may run: a copy when the file is
// closed to others.
func (b *Backend) readable(file string) (string, error) {
	st, err := os.Stat(file)
	if err != nil || st.Mode().Perm()&0o005 == 0o005 {
		return file, err
	}
	seen := fmt.Sprintf("copy %s %d %d", file, st.Size(), st.ModTime().UnixNano())
	b.mu.Lock()
	known := b.guests[seen]
	b.mu.Unlock()
	if known != "" {
		return known, nil
	}
	l, err := b.leased()
	if err != nil {
		return "", err
	}
	from, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer from.Close()
	name := filepath.Join(l.dir(), "guest-"+newName())
	to, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Chmod(0o755), to.Close()); err != nil {
		return "", err
	}
	b.mu.Lock()
	b.guests[seen] = name
	b.mu.Unlock()
	return name, nil
}

// network is whether a container gets one: what the policy gives, unless the
// configuration takes it away. It cannot give what the policy does not.
func (b *Backend) network(given bool) (bool, error) {
	switch b.config.Network {
	case "":
		return given, nil
	case "off":
		return false, nil
	case "bridge":
		if !given {
			return false, fmt.Errorf("network bridge: the policy gives no network: %w", sandbox.ErrPolicy)
		}
		return true, nil
	}
	return false, fmt.Errorf("network %q: want off or bridge: %w", b.config.Network, sandbox.ErrPolicy)
}
