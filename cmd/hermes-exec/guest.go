package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/envfilter"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// guestCommand runs the hidden command guest, which other ends of streams start;
// ok is false when the command line is another.
func guestCommand(args []string, stderr io.Writer) (code int, ok bool) {
	c, ok, err := serve.Parse(args)
	if !ok {
		return 0, false
	}
	if err == nil {
		err = runGuest(c, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "hermes-exec guest: %v\n", err)
		return exitInternal, true
	}
	return 0, true
}

func runGuest(c serve.Command, stderr io.Writer) error {
	if c.Part != "serve" {
		return c.Run(context.Background(), serve.Config{})
	}
	if err := protect(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	if os.Getpid() == 1 {
		go guest.Reap(ctx)
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h := &servedHost{backends: map[bool]*local.Backend{}, environ: os.Environ(), log: log}
	h.home = homeOf(h.environ)
	h.program, _ = os.Executable()
	err := c.Run(ctx, serve.Config{Open: h.open, Guest: h.program, Env: h.environ, Log: log})
	return errors.Join(err, h.close())
}

// homeOf is the home directory; containers need not say one.
func homeOf(environ []string) string {
	for _, v := range environ {
		if home, ok := strings.CutPrefix(v, "HOME="); ok && filepath.IsAbs(home) {
			return home
		}
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir
	}
	return "/"
}

// servedHost makes boxes for an engine elsewhere.
type servedHost struct {
	mu            sync.Mutex
	backends      map[bool]*local.Backend // by whether a container keeps its boxes in
	environ       []string
	home, program string
	log           *slog.Logger
}

func (h *servedHost) backend(contained bool) *local.Backend {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.backends[contained] == nil {
		h.backends[contained] = local.New(local.Config{Adopt: true, Contained: contained, Log: h.log})
	}
	return h.backends[contained]
}

func (h *servedHost) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, b := range h.backends {
		errs = append(errs, b.Close())
	}
	return errors.Join(errs...)
}

// boxEnv is what a box starts from, with what was asked for on top. A container
// is the image's; the environment of somebody's account is scrubbed as the
// engine's own is.
func (h *servedHost) boxEnv(r sshwire.BoxRequest, set []string) []string {
	environ := h.environ
	if !r.Contained {
		environ = envfilter.Environ(envfilter.Filter(environ, envfilter.Options{Declared: requiredEnv()}))
	}
	return overlay(overlay(environ, set), r.Env)
}

// servedBox is a box that says where it is.
type servedBox struct {
	sandbox.Sandbox
	info sandbox.Info
}

func (b *servedBox) Info() sandbox.Info { return b.info }

// Lost and WhyLost implement sandbox.Losable.
func (b *servedBox) Lost() <-chan struct{} {
	if inner, ok := b.Sandbox.(sandbox.Losable); ok {
		return inner.Lost()
	}
	return nil
}

func (b *servedBox) WhyLost() error {
	if inner, ok := b.Sandbox.(sandbox.Losable); ok {
		return inner.WhyLost()
	}
	return nil
}

// FutureInputs implements sandbox.Auditor.
func (b *servedBox) FutureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	if a, ok := b.Sandbox.(sandbox.Auditor); ok {
		return a.FutureInputs(ctx, since)
	}
	return nil, true, nil
}

// open makes a box as asked, with the policy as it is on this machine.
func (h *servedHost) open(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
	if r.WorkDir == "" {
		r.WorkDir = h.home
		if r.Profile.Name == policy.Sealed { // which does not need one
			if dir, err := h.nowhere(); err == nil {
				r.WorkDir = dir
			}
		}
	}
	plan, err := h.policy(r)
	if err != nil && !(r.Contained && errors.Is(err, sandbox.ErrPolicy)) {
		return nil, err
	}
	spec := sandbox.Spec{ID: r.ID, WorkDir: r.WorkDir, Env: h.boxEnv(r, plan.Env), Policy: plan.Policy, Resources: r.Resources}
	if !spec.Policy.Unconfined && h.program != "" {
		spec.Policy.Read = append(spec.Policy.Read, h.program)
	}
	spec.Policy.Read = append(spec.Policy.Read, r.Read...)
	spec.Policy.Write = append(spec.Policy.Write, r.Write...)
	var box sandbox.Sandbox
	if r.Contained {
		box, err = h.contained(ctx, spec, err)
	} else {
		box, err = h.backend(r.Contained).Create(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	b, ok := box.(*servedBox)
	if !ok {
		b = &servedBox{box, box.Info()}
	}
	b.info.Guest, b.info.Env = h.program, spec.Env
	if b.info.Home == "" || b.info.Home == "/" {
		b.info.Home = h.home
	}
	return b, nil
}

// contained makes a box in a container that keeps the policy: what can be had
// besides is taken, and what cannot is left to it.
func (h *servedHost) contained(ctx context.Context, spec sandbox.Spec, refused error) (sandbox.Sandbox, error) {
	spec.Resources = sandbox.Resources{} // the container's
	if refused == nil {
		spec.Policy.BestEffort = []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork,
			sandbox.ClauseProcesses, sandbox.ClauseSyscalls, sandbox.ClauseResources, sandbox.ClauseKill}
		box, err := h.backend(true).Create(ctx, spec)
		if err == nil || !errors.Is(err, sandbox.ErrPolicy) {
			return box, err
		}
		refused = err
	}
	spec.Policy = sandbox.Policy{Name: spec.Policy.Name, Unconfined: true}
	box, err := h.backend(true).Create(ctx, spec)
	if err != nil {
		return nil, err
	}
	info := box.Info()
	for i := range info.Enforcement {
		if c := &info.Enforcement[i]; c.State != sandbox.Enforced {
			c.Why = "left to the container: " + refused.Error()
		}
	}
	return &servedBox{box, info}, nil
}

// nowhere is an empty directory to start in.
func (h *servedHost) nowhere() (string, error) {
	dir := filepath.Join(h.home, ".cache", "hermes-exec", "nowhere")
	return dir, os.MkdirAll(dir, 0o700)
}

// policy resolves a profile for this machine.
func (h *servedHost) policy(r sshwire.BoxRequest) (policy.Plan, error) {
	return policy.MakeProfile(r.Profile, policy.Context{
		Home: h.home, Homes: policy.Homes(r.WorkDir), HermesHome: config.Home(h.environ), WorkDir: r.WorkDir,
		StateDirs: []string{filepath.Join(os.TempDir(), "hermes-exec-"+strconv.Itoa(os.Getuid()))},
		Environ:   h.environ,
	})
}
