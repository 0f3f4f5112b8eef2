package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/hermes-exec/hermes-exec/envfilter"
	"github.com/hermes-exec/hermes-exec/output"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Sentinels a caller may branch on.
var (
	// ErrClosed is returned by a closed Engine or Session.
	ErrClosed = errors.New("engine is closed")
	// ErrRefused marks what was asked and is not allowed: an unknown tool or
	// backend, a policy that cannot be enforced.
	ErrRefused = errors.New("refused")
	// ErrNoInterpreter means that no usable Python was found.
	ErrNoInterpreter = errors.New("no usable Python interpreter")
)

// Engine opens sessions. All methods are safe for concurrent use.
type Engine struct {
	cfg          Config
	declared     *registry.Registry // declarations, bound to no sandbox
	required     []string           // variables the tools need, which no sandbox gets
	usual        func() []envfilter.Decision
	redactor     *output.Redactor // nil when ShowSecrets
	interpreters interpreterCache
	modules      sync.Map // of hermes_tools.py, by what it is made from

	mu       sync.Mutex
	closed   bool
	sessions map[*Session]struct{}
}

// New checks the configuration and makes an Engine. Nothing is started.
func New(cfg Config) (*Engine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	declared, err := registry.NewRegistry(cfg.Tools(nil)...)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{cfg: cfg, declared: declared, required: requiredEnv(declared), sessions: map[*Session]struct{}{}}
	e.usual = sync.OnceValue(func() []envfilter.Decision { return e.filter(nil) })
	if !cfg.ShowSecrets {
		e.redactor = output.NewRedactor()
	}
	return e, nil
}

// Tools are the declarations of the tools sessions get; calling one through
// this registry is an error, since it is bound to no sandbox.
func (e *Engine) Tools() *registry.Registry { return e.declared }

// Task describes a session to open. The zero value runs on the default backend
// in the backend's default directory.
type Task struct {
	Backend string // "" means Config.Backend
	WorkDir string
	Image   string
	Mode    Mode // "" means Config.Mode

	// Policy nil means the profile of the mode, for WorkDir: workspace in
	// project mode, sealed in strict mode. See sandbox/policy for others.
	Policy *sandbox.Policy
	// Profile names the policy for a backend that is elsewhere, which refuses a
	// Policy, as others refuse it; its zero value is the profile of the mode.
	Profile   sandbox.Profile
	Resources sandbox.Resources
	// Explain tells how the user allows what Policy denies at an absolute path,
	// for Result.Denials: the guard to open, the line to add. nil gives general
	// hints. It must be safe for concurrent use.
	Explain func(name string) (hint string)

	// Passthrough names variables to let through for this session, as a skill
	// declares them; the rules of Config.Passthrough hold for them too.
	Passthrough []string
	// Env is set on top of the scrubbed environment, "NAME=value" each.
	Env []string
	// Tools are the tools scripts of this session may call. nil means the
	// default grant, without the web tools where the policy's network is off; an
	// empty slice grants nothing; an unknown name refuses
	// the task.
	Tools []string
	// Caller says on whose behalf Session.Call acts; "" means registry.Model.
	Caller registry.CallerKind
}

// Open makes the sandbox of a task and binds the tools to it. Errors wrap
// ErrRefused when the task asks for what is unknown or cannot be enforced.
func (e *Engine) Open(ctx context.Context, task Task) (*Session, error) {
	name := or(task.Backend, e.cfg.Backend)
	backend, ok := e.cfg.Backends[name]
	if !ok {
		return nil, fmt.Errorf("engine: %w: backend %q is not configured, have %v", ErrRefused, name, sortedKeys(e.cfg.Backends))
	}
	mode := or(task.Mode, e.cfg.Mode)
	if mode != Project && mode != Strict {
		return nil, fmt.Errorf("engine: %w: mode %q: want %q or %q", ErrRefused, mode, Project, Strict)
	}
	granted, err := grant(e.declared, e.cfg.AllowedTools, task.Tools)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	_, elsewhere := backend.(sandbox.Elsewhere)
	spec, err := e.spec(task, mode, elsewhere)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	if task.Tools == nil && !spec.Policy.Unconfined && spec.Policy.Network == sandbox.NetworkOff {
		granted = offline(e.declared, granted)
	}

	s := &Session{engine: e, spec: spec, mode: mode, backend: name, caller: or(task.Caller, registry.Model), granted: granted}
	s.elsewhere, s.policy, s.explain = elsewhere, or(spec.Policy.Name, "unnamed"), task.Explain

	e.mu.Lock()
	closed := e.closed
	e.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("engine: open: %w", ErrClosed)
	}
	if s.place, err = s.newPlace(ctx); err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())

	e.mu.Lock()
	if closed = e.closed; !closed {
		e.sessions[s] = struct{}{}
	}
	e.mu.Unlock()
	if closed {
		return nil, fmt.Errorf("engine: open: %w", errors.Join(ErrClosed, s.Close(ctx)))
	}
	return s, nil
}

// Close ends every session and closes the backends. It may be repeated.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	open := slices.Collect(maps.Keys(e.sessions))
	e.mu.Unlock()

	var wg sync.WaitGroup
	errs := make([]error, len(open))
	for i, s := range open {
		wg.Go(func() { errs[i] = s.Close(context.Background()) })
	}
	wg.Wait()
	for _, name := range sortedKeys(e.cfg.Backends) {
		errs = append(errs, e.cfg.Backends[name].Close())
	}
	return errors.Join(errs...)
}

// EnvDecisions tells, variable by variable, what a script would see of the
// engine's environment and why.
func (e *Engine) EnvDecisions() []envfilter.Decision { return e.decide(nil) }

// decide is made once for tasks that let nothing else through: the rules are many.
func (e *Engine) decide(passthrough []string) []envfilter.Decision {
	if len(passthrough) == 0 {
		return slices.Clone(e.usual())
	}
	return e.filter(passthrough)
}

func (e *Engine) filter(passthrough []string) []envfilter.Decision {
	return envfilter.Filter(e.cfg.Environ, envfilter.Options{
		Passthrough: slices.Concat(e.cfg.Passthrough, passthrough),
		Declared:    e.required,
	})
}

func requiredEnv(tools *registry.Registry) []string {
	var names []string
	for _, name := range tools.Names() {
		if t, ok := tools.Get(name); ok {
			names = append(names, t.RequiresEnv...)
		}
	}
	return names
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
