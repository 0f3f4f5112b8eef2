package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// image is what a container's image says about it.
type image struct {
	Name, ID string
	Arch     string // as Go names it
	User     string
	own      user // that, by number, where it is not root
}

// maxImageName bounds an image's name, which goes into requests and messages.
const maxImageName = 512

// image finds an image, and pulls it when it is absent.
func (b *Backend) image(ctx context.Context, d *daemon, name string) (image, error) {
	switch {
	case name == "":
		return image{}, fmt.Errorf("no image is named: set docker_image: %w", sandbox.ErrUnavailable)
	case len(name) > maxImageName || strings.ContainsAny(name, " \t\r\n\x00?#%"):
		return image{}, fmt.Errorf("image %.80q is not an image's name: %w", name, sandbox.ErrUnavailable)
	}
	found, err := d.api.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		if err := b.pull(ctx, d, name); err != nil {
			return image{}, err
		}
		found, err = d.api.ImageInspect(ctx, name)
	}
	if err != nil {
		return image{}, d.failed("image "+name, err)
	}
	i := image{Name: name, ID: found.ID, Arch: goarch(found.Architecture)}
	if found.Config != nil {
		i.User = found.Config.User
	}
	switch {
	case found.Os != "" && found.Os != "linux":
		return image{}, fmt.Errorf("image %s is for %s, only images for linux can be used: %w", name, found.Os, sandbox.ErrUnavailable)
	case i.Arch != d.arch:
		return image{}, fmt.Errorf("image %s is for linux/%s, the docker engine runs linux/%s: pull it for that architecture, or name another image: %w", name, i.Arch, d.arch, sandbox.ErrUnavailable)
	}
	if !isRoot(i.User) {
		if i.own, err = b.imageUser(ctx, d, i); err != nil {
			return image{}, err
		}
	}
	return i, nil
}

// pull fetches an image, telling how it goes.
func (b *Backend) pull(ctx context.Context, d *daemon, name string) error {
	cannot := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			return fmt.Errorf("image %s is not there, and its pull was ended: %w", name, cause)
		}
		return d.failed(fmt.Sprintf("image %s is not there and cannot be pulled (docker pull %s; is the name right, and does the docker engine reach the registry?)", name, name),
			fmt.Errorf("%w: %w", err, sandbox.ErrUnavailable))
	}
	b.log.Info("pulling an image", "image", name)
	stream, err := d.api.ImagePull(ctx, name, client.ImagePullOptions{})
	if err != nil {
		return cannot(err)
	}
	defer stream.Close()
	defer b.tell(name, jsonstream.Message{})
	for message, err := range stream.JSONMessages(ctx) {
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return cannot(err)
		}
		if message.Error != nil {
			return cannot(message.Error)
		}
		b.tell(name, message)
	}
	return nil
}

func (b *Backend) tell(name string, m jsonstream.Message) {
	if b.config.Progress == nil {
		return
	}
	p := Progress{Image: name, Layer: m.ID, Status: m.Status}
	if m.Progress != nil {
		p.Current, p.Total = m.Progress.Current, m.Progress.Total
	}
	b.config.Progress(p)
}
