package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/system"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// daemon is a docker engine that answered.
type daemon struct {
	api      *client.Client
	endpoint endpoint
	facts
	shared shared // with this machine

	probing sync.Mutex
	probed  bool
}

// facts are what an engine says about itself.
type facts struct {
	version            string
	arch               string // as Go names it
	memory, cpu, pids  bool   // what it can limit
	seccomp            bool
	rootless, remapped bool // its root is not this machine's
	virtual            bool // it is in a machine of its own, as Docker Desktop's
	quota              bool // a container's own layer can be bounded
	total              int64
	runtimes           []string
}

// shared is what a daemon has in common with this machine.
type shared struct {
	files   bool   // binds are of this machine's files
	sockets bool   // and a socket among them leads here
	why     string // what told
	maps    bool   // mounts that this process makes, with their maps of ids
	mapsNot string // why not
}

// connect returns the engine, once it has answered.
func (b *Backend) connect(ctx context.Context) (*daemon, error) {
	b.mu.Lock()
	d := b.daemon
	b.mu.Unlock()
	if d != nil {
		return d, nil
	}
	d, err := dial(ctx, b.config)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.daemon != nil {
		d.close()
		return b.daemon, nil
	}
	b.daemon = d
	return d, nil
}

func dial(ctx context.Context, c Config) (*daemon, error) {
	e, err := findEndpoint(c.Host, c.Home, c.Environ)
	if err != nil {
		return nil, err
	}
	var opts []client.Opt
	if e.tls != "" {
		opts = append(opts, tlsOption(e))
	}
	if strings.HasPrefix(e.host, "ssh:") {
		dialer, err := dialSSH(e.host)
		if err != nil {
			return nil, err
		}
		opts = append(opts, client.WithHost("http://docker.invalid"), client.WithDialContext(dialer))
	} else if e.host != "" {
		opts = append(opts, client.WithHost(e.host))
	}
	api, err := client.New(opts...)
	if err != nil {
		return nil, fmt.Errorf("address of the docker engine %s: %w", e.display(), err)
	}
	info, err := api.Info(ctx, client.InfoOptions{})
	if err != nil {
		api.Close()
		return nil, unreachable(err, e)
	}
	d := &daemon{api: api, endpoint: e, facts: factsOf(info.Info)}
	if info.Info.OSType != "linux" {
		api.Close()
		return nil, fmt.Errorf("the docker engine at %s runs containers of %s, only those of linux can be used: %w", e.display(), info.Info.OSType, sandbox.ErrUnavailable)
	}
	return d, nil
}

// tlsOption reads a client's certificate, as the docker command keeps it.
func tlsOption(e endpoint) client.Opt {
	if !e.skip {
		return client.WithTLSClientConfig(filepath.Join(e.tls, "ca.pem"), filepath.Join(e.tls, "cert.pem"), filepath.Join(e.tls, "key.pem"))
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}}
	if pair, err := tls.LoadX509KeyPair(filepath.Join(e.tls, "cert.pem"), filepath.Join(e.tls, "key.pem")); err == nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return client.WithHTTPClient(&http.Client{Transport: transport})
}

// unreachable says that no engine answers, where that is what an error means.
func unreachable(err error, e endpoint) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(err.Error(), "permission denied"):
		return fmt.Errorf("this user may not talk to the docker engine at %s: %w: %w", e.display(), err, sandbox.ErrUnavailable)
	case client.IsErrConnectionFailed(err):
		return fmt.Errorf("no docker engine answers at %s (%s): %w: %w", e.display(), e.from, err, sandbox.ErrUnavailable)
	}
	return fmt.Errorf("docker engine at %s: %w: %w", e.display(), err, sandbox.ErrUnavailable)
}

// failed makes an engine's error one of this package.
func (d *daemon) failed(doing string, err error) error {
	if client.IsErrConnectionFailed(err) {
		return fmt.Errorf("%s: %w", doing, unreachable(err, d.endpoint))
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func factsOf(i system.Info) facts {
	f := facts{
		version: i.ServerVersion, arch: goarch(i.Architecture),
		memory: i.MemoryLimit, cpu: i.CPUCfsQuota, pids: i.PidsLimit,
		total:   i.MemTotal,
		virtual: strings.Contains(i.OperatingSystem, "Docker Desktop"),
		quota:   quota(i.Driver, i.DriverStatus),
	}
	if i.CgroupVersion == "2" {
		f.cpu = f.cpu || i.CPUCfsPeriod
	}
	for _, o := range i.SecurityOptions {
		name, _, _ := strings.Cut(strings.TrimPrefix(o, "name="), ",")
		switch name {
		case "seccomp":
			f.seccomp = true
		case "rootless":
			f.rootless = true
		case "userns":
			f.remapped = true
		}
	}
	for name := range i.Runtimes {
		f.runtimes = append(f.runtimes, name)
	}
	slices.Sort(f.runtimes)
	return f
}

// quota tells whether the storage driver bounds a container's own layer.
func quota(driver string, status [][2]string) bool {
	switch driver {
	case "btrfs", "zfs", "devicemapper":
		return true
	case "overlay2":
		// Only with project quotas, which the engine does not report; xfs is what
		// has them, and creating tells.
		for _, s := range status {
			if s[0] == "Backing Filesystem" && s[1] == "xfs" {
				return true
			}
		}
	}
	return false
}

// goarch is the name Go has for an architecture as uname or an image names it.
func goarch(name string) string {
	switch name {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64", "arm64v8":
		return "arm64"
	case "i386", "i686", "x86":
		return "386"
	case "armv7l", "armhf":
		return "arm"
	}
	return name
}

func (d *daemon) close() error { return d.api.Close() }
