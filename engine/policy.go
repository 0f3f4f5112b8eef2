package engine

import (
	"fmt"
	"os"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// profile is the policy of a task that names none: sealed in strict mode,
// workspace in project mode, with the variables that profile sets in the box.
func (e *Engine) profile(mode Mode, workDir string) (sandbox.Policy, []string, error) {
	name := policy.Workspace
	if mode == Strict {
		name = policy.Sealed
	}
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
