package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// defaultPolicy names the policy of a mode for which none is set.
func defaultPolicy(mode string) string {
	if engine.Mode(mode) == engine.Strict {
		return policy.Sealed
	}
	return policy.Workspace
}

// policyName is what the flag, the configuration or the mode asks for. tool is
// the one a session is opened for, "" for scripts. from is the key of the
// configuration that says so, "" for anything else.
func (a *app) policyName(tool string) (name, from string) {
	if a.flags.policy != "" {
		return a.flags.policy, ""
	}
	code, term := a.cfg.CodeExecution.Policy, a.cfg.Terminal.Policy
	switch {
	case tool == "terminal" && term != "":
		return a.configured(term), "terminal.policy"
	case code != "":
		return a.configured(code), "code_execution.policy"
	}
	return defaultPolicy(first(a.flags.mode, a.cfg.CodeExecution.Mode)), ""
}

// configured is a policy's name as the configuration has it: a relative file is
// looked for beside the configuration, never in the work dir, which belongs to
// whoever wrote the project.
func (a *app) configured(name string) string {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(name, "~/") {
		return filepath.Join(home, name[2:])
	}
	if policy.IsFile(name) && !filepath.IsAbs(name) {
		return filepath.Join(a.home, name)
	}
	return name
}

// policyOf resolves a policy's name for a work dir; nil is unset. What a
// backend cannot keep it refuses itself, before anything starts.
func (a *app) policyOf(name, dir string) (*sandbox.Policy, []string, error) {
	if name == "" {
		if len(a.cfg.CodeExecution.DenyRead) > 0 {
			return nil, nil, fmt.Errorf("%w: code_execution.deny_read (%s) cannot be kept without confinement; choose a policy or remove it",
				engine.ErrRefused, a.cfg.Origin("code_execution.deny_read"))
		}
		return nil, nil, nil
	}
	p, env, err := policy.Resolve(name, a.policyContext(dir))
	return &p, env, err
}

// policyContext is what policies are resolved against.
func (a *app) policyContext(dir string) policy.Context {
	home, _ := os.UserHomeDir()
	homes := policy.Homes(dir)
	if home == "" && len(homes) > 0 {
		home = homes[0]
	}
	if real := os.Getenv("HERMES_REAL_HOME"); filepath.IsAbs(real) {
		homes = append(homes, real)
	}
	if mode := a.cfg.Terminal.HomeMode; a.home != "" && mode != "real" {
		profile := filepath.Join(a.home, "home") // HOME of scripts, see terminal.home_mode
		if info, err := os.Stat(profile); err == nil && info.IsDir() {
			homes = append(homes, profile)
		}
	}
	return policy.Context{
		Home: home, Homes: homes, HermesHome: a.home, WorkDir: dir,
		StateDirs: []string{stateDir()},
		Environ:   os.Environ(), Python: a.cfg.CodeExecution.Python,
		Open: a.cfg.CodeExecution.OpenGuards, DenyRead: a.cfg.CodeExecution.DenyRead,
	}
}

// stateDir is where the engine keeps what it has made on this machine.
func stateDir() string {
	dir := filepath.Join(os.TempDir(), "hermes-exec-"+strconv.Itoa(os.Getuid()))
	if abs, err := filepath.Abs(dir); err == nil { // TMPDIR may be relative
		return abs
	}
	return dir
}
