package docker

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
)

// probe finds out, once, whether the engine sees this machine's files: a file
// with a name nobody knows is looked for through a container that is never
// started.
func (d *daemon) probe(ctx context.Context, b *Backend, i image) error {
	d.probing.Lock()
	defer d.probing.Unlock()
	if d.probed {
		return nil
	}
	if b.config.probed != nil {
		d.shared, d.probed = *b.config.probed, true
		return nil
	}
	s, err := d.look(ctx, b, i)
	if err != nil {
		return err
	}
	s.sockets = s.files && !d.virtual && runtime.GOOS == "linux" && !b.config.farLink
	d.shared, d.probed = s, true
	b.log.Debug("docker engine", "host", d.endpoint.display(), "version", d.version, "files", s.files, "sockets", s.sockets, "why", s.why, "maps", s.maps, "maps_why", s.mapsNot)
	return nil
}

func (d *daemon) look(ctx context.Context, b *Backend, i image) (shared, error) {
	if b.config.far {
		return shared{why: "as configured"}, nil
	}
	if !d.endpoint.sameMachine() {
		return shared{why: "it is reached over a network"}, nil
	}
	l, err := b.leased()
	if err != nil {
		return shared{}, err
	}
	dir, nonce := filepath.Join(l.dir(), "probe"), rand.Text()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return shared{}, err
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, nonce), nil, 0o600); err != nil {
		return shared{}, err
	}
	mounts := []mount.Mount{{Type: mount.TypeBind, Source: dir, Target: probeInside, ReadOnly: true}}
	shown := filepath.Join(l.shown(), "probe")
	at, mapsNot := b.showProbe(d, shown, dir)
	defer hide(shown)
	if mapsNot == "" {
		mounts = append(mounts, mount.Mount{Type: mount.TypeBind, Source: at, Target: mappedInside, ReadOnly: true})
	}
	id, err := d.shell(ctx, i, b.labels(l, "probe"), mounts...)
	if cerrdefs.IsInvalidArgument(err) && strings.Contains(err.Error(), "bind source path") {
		return shared{why: "it has no " + dir}, nil
	}
	if err != nil {
		return shared{}, d.failed("look whether the docker engine sees this machine's files", err)
	}
	defer b.dispose(d, id)
	s := shared{mapsNot: mapsNot}
	if s.files, err = d.has(ctx, id, path.Join(probeInside, nonce)); err != nil {
		return shared{}, d.failed("look whether the docker engine sees this machine's files", err)
	}
	if !s.files {
		s.why = "its " + dir + " is another one"
	}
	if s.files && mapsNot == "" {
		if s.maps, err = d.has(ctx, id, path.Join(mappedInside, nonce)); !s.maps {
			s.mapsNot = "the docker engine does not see mounts that this process makes"
		}
		if err != nil {
			s.mapsNot += ": " + err.Error()
		}
	}
	return s, nil
}

// has tells whether a container has a file.
func (d *daemon) has(ctx context.Context, id, name string) (bool, error) {
	_, err := d.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: name})
	if cerrdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// dispose removes a container that was never started; nobody waits for that but
// Close.
func (b *Backend) dispose(d *daemon, id string) {
	remove := func() {
		ctx, cancel := context.WithTimeout(context.Background(), goAway)
		defer cancel()
		if err := d.remove(ctx, id); err != nil {
			b.log.Warn("cannot remove a container", "container", id, "err", err)
		}
	}
	if !b.background(remove) {
		remove()
	}
}

// showProbe shows root's files in a directory as a box user's, or tells why it
// cannot.
func (b *Backend) showProbe(d *daemon, at, dir string) (place, why string) {
	switch {
	case os.Geteuid() != 0:
		return "", "it takes root"
	case d.rootless || d.remapped || d.virtual:
		return "", "the docker engine has users of its own"
	}
	places, err := b.maps.show(at, numbered(boxID, boxID), []string{dir})
	if err != nil {
		return "", err.Error()
	}
	return places[dir], ""
}

// shell makes a container that is never started, to reach files through.
func (d *daemon) shell(ctx context.Context, i image, labels map[string]string, mounts ...mount.Mount) (string, error) {
	made, err := d.api.ContainerCreate(ctx, client.ContainerCreateOptions{
		Config:     &container.Config{Image: i.ID, Entrypoint: []string{"/none"}, Labels: labels, NetworkDisabled: true},
		HostConfig: &container.HostConfig{NetworkMode: "none", CapDrop: []string{"ALL"}, Mounts: mounts},
	})
	return made.ID, err
}

// readFile reads the beginning of a file in a container.
func (d *daemon) readFile(ctx context.Context, id, name string) (string, error) {
	copied, err := d.api.CopyFromContainer(ctx, id, client.CopyFromContainerOptions{SourcePath: name})
	if err != nil {
		return "", err
	}
	defer copied.Content.Close()
	t := tar.NewReader(copied.Content)
	if _, err := t.Next(); err != nil {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(t, 4<<10))
	return string(text), err
}

// remove removes a container and what is its own, whatever it does.
func (d *daemon) remove(ctx context.Context, id string) error {
	for {
		_, err := d.api.ContainerRemove(ctx, id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil, cerrdefs.IsNotFound(err), cerrdefs.IsConflict(err) && strings.Contains(err.Error(), "already in progress"):
			return nil
		case !strings.Contains(err.Error(), "is not running"): // else it ended while the engine was about to kill it
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// upload brings a guest program to where the engine is: into a volume with the
// program's hash in its name, once per version.
func (b *Backend) upload(ctx context.Context, d *daemon, i image, file string) (volume string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("guest program: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("guest program: %w", err)
	}
	// Which file it is tells what is in it, for as long as the engine runs.
	seen := fmt.Sprintf("%s %d %d", file, st.Size(), st.ModTime().UnixNano())
	b.mu.Lock()
	name := b.guests[seen]
	b.mu.Unlock()
	if name != "" {
		return name, nil
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("guest program: %w", err)
	}
	name = prefix + "guest-" + hex.EncodeToString(sum.Sum(nil)[:12])
	l, err := b.leased()
	if err != nil {
		return "", err
	}
	labels := map[string]string{labelOwner: l.owner, labelKind: "guest"}
	// The engine makes a missing volume, with these labels, on the way.
	id, err := d.shell(ctx, i, b.labels(l, "upload"), mount.Mount{Type: mount.TypeVolume, Source: name, Target: guestDir,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: labels}})
	if err != nil {
		return "", d.failed("upload of the guest program", err)
	}
	defer d.remove(context.WithoutCancel(ctx), id)
	there, err := d.api.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: guestInside})
	if err != nil && !cerrdefs.IsNotFound(err) {
		return "", d.failed("upload of the guest program", err)
	}
	// One that was cut short has another size.
	if err != nil || there.Stat.Size != st.Size() || there.Stat.Mode != 0o755 {
		if err := d.put(ctx, id, f, st.Size()); err != nil {
			return "", d.failed("upload of the guest program", err)
		}
		b.log.Info("uploaded the guest program", "host", d.endpoint.display(), "volume", name, "bytes", st.Size())
	}
	b.mu.Lock()
	b.guests[seen] = name
	b.mu.Unlock()
	return name, nil
}

// put writes the guest program into a container that is not started.
func (d *daemon) put(ctx context.Context, id string, f *os.File, size int64) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		t := tar.NewWriter(w)
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Base(guestInside), Mode: 0o755, Size: size})
		if err == nil {
			_, err = io.Copy(t, f)
		}
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	_, err := d.api.CopyToContainer(ctx, id, client.CopyToContainerOptions{DestinationPath: guestDir, Content: r})
	return err
}
