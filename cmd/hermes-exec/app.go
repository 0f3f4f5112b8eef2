package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/envfilter"
	"github.com/hermes-exec/hermes-exec/output"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/registry/tools/web"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// globalFlags are the flags every command takes.
type globalFlags struct {
	home, logLevel, logFormat      string
	policy, backend, workdir, mode string
	env, pass                      []string
	tools                          string
	given                          func(name string) bool // --tools "" grants nothing, no --tools the default
}

// app is one command line: what it was given, and what was made of it so far.
type app struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	flags          globalFlags

	cfg        *config.Config
	home       string
	dotenv     []config.Variable
	warnings   []string // about configuration, told once
	log        *slog.Logger
	debugTools bool
	backends   map[string]sandbox.Backend
	policyEnv  []string // what the session's policy sets
	engine     *engine.Engine
}

// load reads the configuration; flags win over it.
func (a *app) load() error {
	if a.cfg != nil {
		return nil
	}
	if err := a.checkEnvFlags(); err != nil {
		return err
	}
	environ := os.Environ()
	a.home = config.Home(environ)
	if a.flags.given("home") { // who names one wants what is in it, not the defaults
		err := checkDir(a.flags.home)
		if err == nil {
			a.home, err = filepath.Abs(a.flags.home) // policies hide it by its path
		}
		if err != nil {
			return fmt.Errorf("--home: %w: name the directory of config.yaml and .env, or make it", err)
		}
	}
	if a.home != "" {
		vars, warnings, err := config.LoadDotEnv(filepath.Join(a.home, ".env"))
		if err != nil {
			return err
		}
		a.dotenv, a.warnings = vars, warnings
	}
	cfg, err := config.Load(config.Options{Home: a.home, Environ: environ, DotEnv: a.dotenv})
	if err == nil {
		err = checkNames(cfg)
	}
	if err != nil {
		return err
	}
	a.warnings = append(a.warnings, cfg.Warnings...)
	a.debugTools = os.Getenv("HERMES_DEBUG_TOOLS") == "1"
	if a.log, err = newLog(a.stderr, a.flags.logLevel, a.flags.logFormat, a.debugTools); err != nil {
		return err
	}
	a.cfg = cfg
	return nil
}

// start makes the engine.
func (a *app) start() (*engine.Engine, error) {
	if a.engine != nil {
		return a.engine, nil
	}
	if err := a.load(); err != nil {
		return nil, err
	}
	environ := os.Environ()
	declared := requiredEnv()
	pass := append(append([]string(nil), a.cfg.Terminal.EnvPassthrough...), a.flags.pass...)
	var redact func(string) string
	if a.cfg.Security.RedactSecrets {
		redact = output.NewRedactor().Redact
	}
	a.backends = a.makeBackends()
	home := userHome()
	e, err := engine.New(engine.Config{
		Backends: a.backends,
		Backend:  a.backendName(),
		Tools: a.toolsOf(tools.Config{
			MaxReadChars: a.cfg.FileReadMaxChars,
			MaxLines:     a.cfg.ToolOutput.MaxLines, MaxLineLength: a.cfg.ToolOutput.MaxLineLength,
			MaxOutputBytes: a.cfg.ToolOutput.MaxBytes,
			Fsync:          a.cfg.File.Fsync, WriteRoot: a.cfg.File.WriteSafeRoot,
			Home: home, HermesHome: a.home,
			Env:      envfilter.Environ(envfilter.Filter(environ, envfilter.Options{Passthrough: pass, Declared: declared})),
			ModelEnv: envfilter.Environ(envfilter.Filter(environ, envfilter.Options{Passthrough: pass, Declared: declared, Wide: true})),
			Redact:   redact, DefaultTimeout: a.cfg.Terminal.Timeout, MaxForegroundTimeout: a.cfg.Terminal.MaxForegroundTimeout,
			Web: tools.WebConfig{
				Backend: a.cfg.Web.Backend, SearchBackend: a.cfg.Web.SearchBackend, ExtractBackend: a.cfg.Web.ExtractBackend,
				Getenv: a.getenv, AllowPrivate: a.cfg.Security.AllowPrivateURLs,
				Blocklist: web.Blocklist(a.cfg.Security.WebsiteBlocklist), Log: a.log,
			},
		}),
		AllowedTools: a.cfg.CodeExecution.AllowedTools,
		Mode:         engine.Mode(first(a.flags.mode, a.cfg.CodeExecution.Mode)),
		Python:       a.cfg.CodeExecution.Python,
		Limits: engine.Limits{
			Timeout: a.cfg.CodeExecution.Timeout, MaxToolCalls: a.cfg.CodeExecution.MaxToolCalls,
			Stdout: a.cfg.CodeExecution.MaxStdoutBytes, Stderr: a.cfg.CodeExecution.MaxStderrBytes,
			Frame: a.cfg.CodeExecution.MaxFrameBytes,
		},
		Environ: environ, Passthrough: pass,
		HomeDir: a.home, HomeMode: a.cfg.Terminal.HomeMode, Timezone: a.cfg.Timezone,
		ShowSecrets: !a.cfg.Security.RedactSecrets,
		Log:         a.log,
	})
	if err != nil {
		return nil, err
	}
	a.engine = e
	return e, nil
}

// getenv looks a variable up where tools find their keys: in the environment,
// then in .env, which no script sees.
func (a *app) getenv(name string) string {
	if v, ok := os.LookupEnv(name); ok {
		return v
	}
	for _, v := range a.dotenv {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// requiredEnv are the variables tools declare for themselves.
func requiredEnv() (names []string) {
	for _, t := range tools.New(nil, tools.Config{}) {
		names = append(names, t.RequiresEnv...)
	}
	return names
}

// declarations makes the engine and resolves --tools, without a sandbox.
func (a *app) declarations() (*engine.Engine, []string, error) {
	e, err := a.start()
	if err != nil {
		return nil, nil, err
	}
	granted, err := e.Granted(a.grant())
	return e, granted, err
}

// grant is what --tools asks for; nil without it.
func (a *app) grant() []string {
	if !a.flags.given("tools") {
		return nil
	}
	names := []string{}
	for name := range strings.SplitSeq(a.flags.tools, ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// open opens the command's one session and tells what the user should know.
// tool is the one it is opened for, "" for scripts.
func (a *app) open(ctx context.Context, quiet bool, tool string) (*engine.Session, error) {
	e, err := a.start()
	if err != nil {
		return nil, err
	}
	if !quiet {
		a.warn(a.warnings...)
	}
	task, err := a.task(tool)
	if err != nil {
		return nil, err
	}
	s, err := e.Open(ctx, task)
	if err != nil {
		return nil, err
	}
	if !quiet {
		a.warn(s.Warnings()...)
		a.warn(a.kept(e)...)
	}
	return s, nil
}

// task describes the session of this command line.
func (a *app) task(tool string) (engine.Task, error) {
	task := engine.Task{Env: a.flags.env, Tools: a.grant(), Caller: registry.Shell}
	name, from := a.policyName(tool)
	if err := a.checkPolicy(name, from); err != nil {
		return task, err
	}
	if place := a.place(); elsewhere(place) {
		return a.taskElsewhere(task, name)
	}
	dir, err := a.workdir()
	if err != nil {
		return task, err
	}
	p, env, err := a.policyOf(name, dir)
	if err != nil {
		return task, err
	}
	a.policyEnv = env
	task.WorkDir, task.Policy, task.Resources = dir, p, a.resources(p)
	task.Env = append(env, a.flags.env...)
	task.Explain = func(path string) string { // only when something was denied
		plan, err := policy.Make(name, a.policyContext(dir))
		if err != nil {
			return ""
		}
		return plan.Explain(path).Hint
	}
	return task, nil
}

// taskElsewhere is a session in a container or on another host, where the policy
// is resolved. A container gets the work dir of this machine, unless scripts run
// in scratch anyway; a host has its own.
func (a *app) taskElsewhere(task engine.Task, name string) (engine.Task, error) {
	place := a.place()
	profile, err := policy.Load(name)
	if err != nil {
		return task, err
	}
	profile.OpenGuards, profile.DenyRead = a.cfg.CodeExecution.OpenGuards, a.cfg.CodeExecution.DenyRead
	task.Profile, task.Resources = profile, a.chosenResources()
	switch {
	case place.Type == "ssh":
		task.WorkDir = first(a.flags.workdir, place.Cwd)
	case a.flags.workdir != "" || a.mounts(place):
		task.WorkDir, err = a.workdir()
	}
	return task, err
}

// mounts tells whether a container gets the work dir of this machine: unless the
// configuration says no.
func (a *app) mounts(place config.Backend) bool {
	key := "backends." + place.Name + ".mount_cwd"
	if place.Name == "docker" {
		key = "terminal.docker_mount_cwd_to_workspace"
	}
	return place.Docker.MountCwd || a.cfg.Origin(key) == "default" || a.cfg.Origin(key) == ""
}

// userHome is the user's home directory, "" when it is not known.
func userHome() string {
	home, _ := os.UserHomeDir()
	return home
}

// expandHome replaces a leading ~.
func expandHome(name string) string {
	if home := userHome(); home != "" && (name == "~" || strings.HasPrefix(name, "~/")) {
		return home + name[1:]
	}
	return name
}

// workdir is --workdir, which must exist; else terminal.cwd, which gives way to
// the current directory when it does not.
func (a *app) workdir() (string, error) {
	if dir := a.flags.workdir; dir != "" {
		if err := checkDir(dir); err != nil {
			return "", fmt.Errorf("--workdir: %w", err)
		}
		return filepath.Abs(dir)
	}
	dir := expandHome(strings.TrimSpace(a.place().Cwd))
	if dir != "" && dir != "." {
		err := checkDir(dir)
		if err == nil {
			return filepath.Abs(dir)
		}
		a.warn(fmt.Sprintf("terminal.cwd (%s): %v: using the current directory", a.cfg.Origin("terminal.cwd"), err))
	}
	return os.Getwd()
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return err
}

func (a *app) warn(texts ...string) {
	for _, text := range texts {
		fmt.Fprintln(a.stderr, paint(a.stderr, yellow, "hermes-exec: warning: "+tame(a.stderr, text)))
	}
}

// close ends the session and the engine.
func (a *app) close() {
	if a.engine == nil {
		return
	}
	if err := a.engine.Close(); err != nil && !errors.Is(err, engine.ErrClosed) {
		fmt.Fprintf(a.stderr, "hermes-exec: close: %v\n", err)
	}
}

// first returns the first value that is not empty.
func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
