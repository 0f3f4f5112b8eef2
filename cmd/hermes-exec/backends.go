package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/backends/docker"
	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// makeBackends is the one list of places to run: a backend for each that the
// configuration knows. None is asked for anything before it is used.
func (a *app) makeBackends() map[string]sandbox.Backend {
	all := map[string]sandbox.Backend{}
	for name, place := range a.cfg.Backends {
		switch place.Type {
		case "local":
			all[name] = local.New(local.Config{Adopt: true, Log: a.log})
		case "docker":
			all[name] = docker.New(a.dockerConfig(place))
		case "ssh":
			all[name] = ssh.New(a.sshConfig(place))
		}
	}
	return all
}

func (a *app) dockerConfig(place config.Backend) docker.Config {
	d := place.Docker
	return docker.Config{
		Name: place.Name, Host: d.Host, Image: d.Image, Volumes: d.Volumes, Env: d.Env, ForwardEnv: d.ForwardEnv,
		Environ: a.environ(), RunAsHostUser: d.RunAsHostUser, Runtime: d.Runtime, Network: d.Network, KeepStrays: !d.OrphanReaper,
		CPU: d.CPU, Memory: d.Memory, Disk: d.Disk, PIDs: d.PIDs, Persistent: d.Persistent, Pool: d.Pool, Lifetime: a.cfg.Terminal.Lifetime,
		Guest: a.guest, StateDir: expandHome(a.cfg.Terminal.SandboxDir), Home: userHome(), HermesHome: a.home, Progress: a.pulling(), Log: a.log,
	}
}

func (a *app) sshConfig(place config.Backend) ssh.Config {
	s := place.SSH
	return ssh.Config{
		Name: place.Name, Host: s.Host, User: s.User, Port: s.Port, Key: expandHome(s.Key), ConfigFile: expandHome(s.Config),
		KnownHosts: expandHome(s.KnownHosts), AcceptNew: s.AcceptNew, Keepalive: s.Keepalive, Guest: a.guest, Log: a.log,
	}
}

// environ is the engine's environment with what .env adds to it: where the names
// in forward_env are looked up.
func (a *app) environ() []string {
	env := os.Environ()
	for _, v := range a.dotenv {
		if _, ok := os.LookupEnv(v.Name); !ok {
			env = append(env, v.Name+"="+v.Value)
		}
	}
	return env
}

// pulling shows on a terminal how an image is pulled; nil elsewhere.
func (a *app) pulling() func(docker.Progress) {
	if !isTerminal(a.stderr) {
		return nil
	}
	layers := map[string]docker.Progress{}
	return func(p docker.Progress) {
		layers[p.Layer] = p
		var current, total int64
		for _, l := range layers {
			current, total = current+l.Current, total+l.Total
		}
		fmt.Fprintf(a.stderr, "\r\x1b[K%s", paint(a.stderr, dim, fmt.Sprintf("pulling %s: %d of %d MB", p.Image, current>>20, total>>20)))
		if p.Layer == "" && p.Status == "" { // the last word
			fmt.Fprint(a.stderr, "\r\x1b[K")
		}
	}
}

// place is the backend that flags and configuration choose.
func (a *app) place() config.Backend { return a.cfg.Backends[a.backendName()] }

func (a *app) backendName() string { return first(a.flags.backend, a.cfg.Terminal.Backend) }

// elsewhere tells whether a backend's boxes do not see this machine.
func elsewhere(place config.Backend) bool { return place.Type == "docker" || place.Type == "ssh" }

// toolsOf is the one list of things to call. What the session's policy sets in
// the environment, such as where caches are, holds for tools too; in a box
// elsewhere all of the environment is that place's.
func (a *app) toolsOf(cfg tools.Config) func(sandbox.Sandbox) []registry.Tool {
	return func(box sandbox.Sandbox) []registry.Tool {
		c := cfg
		c.Env, c.ModelEnv = overlay(cfg.Env, a.policyEnv), overlay(cfg.ModelEnv, a.policyEnv)
		if box != nil && box.Info().Env != nil {
			info := box.Info()
			c.Env, c.ModelEnv, c.Home, c.HermesHome = info.Env, info.Env, info.Home, ""
		}
		return tools.New(box, c)
	}
}

// overlay is an environment with variables set.
func overlay(environ, set []string) []string {
	return append(slices.DeleteFunc(slices.Clone(environ), func(old string) bool {
		name, _, _ := strings.Cut(old, "=")
		return slices.ContainsFunc(set, func(v string) bool { return strings.HasPrefix(v, name+"=") })
	}), set...)
}
