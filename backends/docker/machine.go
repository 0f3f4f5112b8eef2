package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
)

const (
	// comeUp bounds how long a container that was started may take until its
	// guest is there.
	comeUp = 60 * time.Second
	// goAway bounds how long the engine may take to remove one.
	goAway = 30 * time.Second
)

// machine is a running container with the connection to its guest. It has, or
// will have, one box.
type machine struct {
	b        *Backend
	d        *daemon
	order    *order
	id       string
	dir      string // of this machine, its own
	shown    string // where root's files are shown as its user's; "" when nothing is
	link     *sshbox.Link
	early    *early // nil without
	fate     *fate
	reserved *reservation
	stream   *attached
	stderr   tail // of the guest
	reading  sync.WaitGroup

	once   sync.Once
	endErr error
}

// make makes a container and starts its guest.
func (b *Backend) make(ctx context.Context, d *daemon, o *order) (m *machine, err error) {
	l, err := b.leased()
	if err != nil {
		return nil, err
	}
	b.tidy(d, l)
	if err := b.fates.watch(d, l.id); err != nil {
		return nil, err
	}
	m = &machine{b: b, d: d, order: o, dir: filepath.Join(l.dir(), newName())}
	defer func(made *machine) { // m is nil by then
		if err != nil {
			err = errors.Join(err, made.end())
		}
	}(m)
	linkDir, hidden := filepath.Join(m.dir, "link"), filepath.Join(m.dir, "hidden")
	if err := os.MkdirAll(linkDir, 0o711); err != nil {
		return nil, err
	}
	if err := os.Chmod(linkDir, 0o711); err != nil {
		return nil, err
	}
	if err := os.WriteFile(hidden, nil, 0o000); err != nil {
		return nil, err
	}
	if m.reserved, err = reserve(ctx, b.log, o.Posture); err != nil {
		return nil, err
	}
	o.guards = m.reserved.guards
	if len(o.Shown) > 0 {
		m.shown = filepath.Join(l.shown(), filepath.Base(m.dir))
		if o.at, err = b.maps.show(m.shown, o.User, o.Shown); err != nil {
			return nil, err
		}
	}
	var socket *socket
	if !o.Far {
		if socket, err = listen(linkDir); err != nil {
			return nil, fmt.Errorf("link: %w", err)
		}
		defer socket.close()
	}
	name := prefix + l.id + "-" + filepath.Base(m.dir)
	made, err := d.api.ContainerCreate(ctx, o.body(name, linkDir, hidden, b.labels(l, "box")))
	if err != nil {
		return nil, d.failed("container of "+o.Image.Name, storageHint(err))
	}
	m.id, m.fate = made.ID, b.fates.add(made.ID)
	for _, w := range made.Warnings {
		if strings.Contains(w, "cgroup namespace") {
			o.cgroup = w
		}
		b.log.Warn("docker engine", "warning", w)
	}
	attached, err := d.api.ContainerAttach(ctx, m.id, client.ContainerAttachOptions{
		Stream: true, Stdin: o.Far, Stdout: o.Far, Stderr: true})
	if err != nil {
		return nil, d.failed("attach to the container", err)
	}
	m.stream = attach(attached.HijackedResponse, &m.stderr)
	if socket != nil {
		m.reading.Go(m.stream.drain)
	}
	if _, err := d.api.ContainerStart(ctx, m.id, client.ContainerStartOptions{}); err != nil {
		return nil, d.failed("start the container of "+o.Image.Name, err)
	}
	if err := m.hide(); err != nil { // it has its own by now
		return nil, err
	}
	if err := m.greet(ctx, socket); err != nil {
		if strings.Contains(err.Error(), guestInside+": no such file") { // but it is there
			err = fmt.Errorf("%w (the image has not what the program is linked with: build it with CGO_ENABLED=0, as make build does)", err)
		}
		return nil, err
	}
	return m, nil
}

// hide ends what was mounted on this machine for the container.
func (m *machine) hide() error {
	if m.shown == "" {
		return nil
	}
	return hide(m.shown)
}

// storageHint says what to do about a limit the engine turned out not to have.
func storageHint(err error) error {
	if strings.Contains(err.Error(), "storage-opt") || strings.Contains(err.Error(), "--storage-opt") {
		return fmt.Errorf("%w (set container_disk to 0, or give the engine's file system project quotas)", err)
	}
	return err
}

// greet makes the connection to the guest that has been started.
func (m *machine) greet(ctx context.Context, socket *socket) error {
	ctx, cancel := context.WithTimeoutCause(ctx, comeUp, fmt.Errorf("the guest has not come up within %v", comeUp))
	defer cancel()
	lives, ended := context.WithCancelCause(ctx)
	defer ended(nil)
	go func() {
		select {
		case <-m.fate.dead:
			ended(errDied)
		case <-lives.Done():
		}
	}()
	var conn io.ReadWriteCloser = m.stream
	if socket != nil {
		one, err := socket.accept(lives)
		if err != nil {
			return m.noGuest(err)
		}
		conn = one
	}
	c, err := sshbox.Handshake(lives, conn)
	if err != nil {
		return m.noGuest(err)
	}
	m.link = sshbox.New(c, sshbox.Config{Name: m.b.config.Name, Log: m.b.log})
	return nil
}

var errDied = errors.New("the container ended before its guest was there")

// noGuest explains why a guest did not come up.
func (m *machine) noGuest(err error) error {
	select {
	case <-m.fate.dead:
		err = fmt.Errorf("%w: %w", errDied, m.fate.why())
	case <-time.After(100 * time.Millisecond): // the news takes another way
	}
	m.fate.mu.Lock()
	defer m.fate.mu.Unlock()
	if text := strings.TrimSpace(m.stderr.String()); text != "" {
		err = fmt.Errorf("%w; it said: %.1000q", err, text)
	}
	return fmt.Errorf("guest in the container of %s: %w", m.order.Image.Name, err)
}

// alive reports whether the machine can be given a box, and still is what its
// order asks for.
func (m *machine) alive() bool {
	select {
	case <-m.fate.dead:
		return false
	case <-m.link.Done():
		return false
	default:
	}
	if m.early != nil {
		select {
		case <-m.early.box.Lost():
			return false
		default:
		}
	}
	return m.reserved.stands()
}

// end ends the container and removes all that belongs to it. It may be
// repeated.
func (m *machine) end() error {
	m.once.Do(func() { m.endErr = m.finish() })
	return m.endErr
}

func (m *machine) finish() error {
	var errs []error
	if m.link != nil {
		_ = m.link.Close() // the guest ends with it, and the container with the guest
	}
	if m.id != "" {
		ctx, cancel := context.WithTimeout(context.Background(), goAway)
		defer cancel()
		if err := m.remove(ctx); err != nil {
			errs = append(errs, err)
		}
		m.b.fates.forget(m.id)
	}
	if m.stream != nil { // an engine that hangs would never end it
		m.stream.Close()
	}
	m.reading.Wait()
	m.reserved.release()
	if err := m.hide(); err != nil {
		errs = append(errs, err)
	}
	if err := os.RemoveAll(m.dir); err != nil {
		errs = append(errs, fmt.Errorf("remove the container's directory: %w", err))
	}
	return errors.Join(errs...)
}

// remove removes the container and waits until it is gone.
func (m *machine) remove(ctx context.Context) error {
	if err := m.d.remove(ctx, m.id); err != nil {
		if client.IsErrConnectionFailed(err) {
			m.b.log.Warn("the docker engine cannot be asked to remove a container", "container", m.id, "err", err)
			return nil // it ends with its connection, and removes itself
		}
		return m.d.failed("remove the container", err)
	}
	select {
	case <-m.fate.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the docker engine has not removed container %.12s within %v", m.id, goAway)
	}
}

// lost makes of the loss of the connection, of the box or of a command an error
// that says why, where the engine tells. ooms is how often the container had met
// its memory limit before what was lost began.
func (m *machine) lost(err error, ooms int) error {
	if !errors.Is(err, sandbox.ErrLost) {
		return err
	}
	name := m.b.config.Name
	dead, oom := m.fate.await(ooms, m.link.Done())
	switch {
	case dead:
		m.fate.settle(lastNews, m.order.Res.Memory > 0)
		return fmt.Errorf("%s: %w: %w", name, m.fate.why(), sandbox.ErrLost)
	case oom:
		return fmt.Errorf("%s: %w: %w", name, errOOM, sandbox.ErrLost)
	}
	return err
}

// lastNews is how long an engine that ends its containers may take to end
// itself: until then it looks like somebody who stops one.
const lastNews = 1500 * time.Millisecond
