package engine

import (
	"fmt"
	"os"
	"slices"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// spec describes the box of a task. What only the place of the box can tell, if
// that is elsewhere, is left to the backend.
func (e *Engine) spec(task Task, mode Mode, elsewhere bool) (spec sandbox.Spec, err error) {
	spec = sandbox.Spec{Image: task.Image, WorkDir: task.WorkDir, Resources: task.Resources}
	set := task.Env
	switch {
	case elsewhere && task.Policy != nil:
		return spec, fmt.Errorf("%w: Task.Policy has this machine's paths, and the backend is elsewhere: name a Task.Profile", ErrRefused)
	case !elsewhere && task.Profile.Name != "":
		return spec, fmt.Errorf("%w: Task.Profile is for backends elsewhere: resolve it to a Task.Policy (sandbox/policy)", ErrRefused)
	case elsewhere:
		spec.Profile = task.Profile
		if spec.Profile.Name == "" {
			spec.Profile.Name = profileOf(mode)
		}
		// What the engine can tell of it: whether there will be a network, and
		// which clauses may be missing.
		spec.Policy, err = policy.Outline(spec.Profile)
		if mode == Strict {
			spec.WorkDir = "" // scripts run in scratch, and see nothing else of the task's
		}
		if err == nil {
			spec.Env, err = e.addedEnv(task.Passthrough, set)
		}
		return spec, err
	case task.Policy != nil:
		spec.Policy = *task.Policy
	default:
		var own []string
		if spec.Policy, own, err = e.profile(mode, task.WorkDir); err != nil {
			return spec, err
		}
		set = slices.Concat(own, set)
	}
	spec.Env, err = e.sandboxEnv(task.Passthrough, set)
	return spec, err
}

// profileOf names the policy of a mode.
func profileOf(mode Mode) string {
	if mode == Strict {
		return policy.Sealed
	}
	return policy.Workspace
}

// profile is the policy of a task that names none: sealed in strict mode,
// workspace in project mode, with the variables that profile sets in the box.
func (e *Engine) profile(mode Mode, workDir string) (sandbox.Policy, []string, error) {
	name := profileOf(mode)
	if workDir == "" {
		dir, err := os.Getwd()
		if err != nil {
			return sandbox.Policy{}, nil, fmt.Errorf("working directory: %w", err)
		}
		workDir = dir
	}
	homes := policy.Homes(workDir)
	home := getenv(e.cfg.Environ, "HOME")
	if home == "" && len(homes) > 0 {
		home = homes[0]
	}
	p, env, err := policy.Resolve(name, policy.Context{
		Home: home, Homes: homes, HermesHome: e.cfg.HomeDir, WorkDir: workDir, Environ: e.cfg.Environ, Python: e.cfg.Python,
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrRefused, err)
	}
	return p, env, err
}
