package docker

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// posture is what a profile means for a container: what the guest inside cannot
// see to, since it is settled when the container is made.
type posture struct {
	Open    bool // no confinement beyond the container
	Sealed  bool // the root is read-only
	Network bool
	Best    []sandbox.ClauseName // what may be missing

	WorkDir             string   // of this machine, real; "" for none
	WorkReadOnly        bool     // it may be read only
	DenyWrite, DenyRead []string // in it, absolute and real
	Unsearched          []string // what of it may lack guards, and why
}

// posture resolves a profile for this machine's directory.
func (b *Backend) posture(spec sandbox.Spec) (posture, error) {
	profile := spec.Profile
	switch { // a policy is of another machine's paths: only its extremes mean something here
	case profile.Name != "":
	case spec.Policy.Unconfined:
		profile.Name = policy.Open
	default:
		profile.Name = policy.Sealed
	}
	p := posture{}
	if spec.WorkDir != "" {
		dir, err := realDir(spec.WorkDir)
		if err != nil {
			return p, err
		}
		p.WorkDir = dir
	}
	if profile.Name == policy.Open {
		if len(profile.DenyRead) > 0 {
			return p, fmt.Errorf("policy open cannot keep code_execution.deny_read: %w", sandbox.ErrPolicy)
		}
		p.Open, p.Network = true, true
		return p, b.places().workDir(p.WorkDir)
	}
	plan, err := b.resolve(profile, p.WorkDir)
	if err != nil {
		return p, err
	}
	p.Sealed = len(plan.Private) == 0
	p.Network = plan.Network == sandbox.NetworkHost
	p.Best = plan.BestEffort
	if plan.Network != sandbox.NetworkHost && plan.Network != sandbox.NetworkOff {
		return p, fmt.Errorf("network %q: want off or host: %w", plan.Network, sandbox.ErrPolicy)
	}
	if len(plan.Watch) > 0 {
		return p, fmt.Errorf("watch: %w", sandbox.ErrPolicy)
	}
	if p.WorkDir == "" {
		return p, nil
	}
	access := plan.Access(p.WorkDir)
	if !access.Read {
		p.WorkDir = "" // as for a box on this machine, which then starts in its scratch directory
		return p, nil
	}
	p.WorkReadOnly = !access.Write
	p.DenyWrite, p.DenyRead = below(plan.DenyWrite, p.WorkDir), below(plan.DenyRead, p.WorkDir)
	p.Unsearched = plan.Unsearched
	return p, b.places().workDir(p.WorkDir)
}

// resolve makes the policy for a directory of this machine. Without one it is
// made for an empty directory: what it says about the box alone is wanted.
func (b *Backend) resolve(profile sandbox.Profile, workDir string) (sandbox.Policy, error) {
	c := policy.Context{Home: b.config.Home, HermesHome: b.config.HermesHome, StateDirs: b.config.StateDirs, WorkDir: workDir, Environ: b.config.Environ}
	if !filepath.IsAbs(c.Home) {
		c.Home = "/nonexistent"
	}
	if workDir == "" {
		empty, err := os.MkdirTemp("", "hermes-exec-policy-")
		if err != nil {
			return sandbox.Policy{}, err
		}
		defer os.RemoveAll(empty)
		c.WorkDir, profile.DenyRead = empty, nil // names in it, which there are none
	}
	plan, err := policy.MakeProfile(profile, c)
	return plan.Policy, err
}

// below keeps what lies in a tree, and the tree itself.
func below(list []string, tree string) (kept []string) {
	for _, name := range list {
		if sandbox.Covers(tree, name) {
			kept = append(kept, name)
		}
	}
	slices.Sort(kept)
	return slices.Compact(kept)
}

// realDir is the real path of a directory of this machine.
func realDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("work directory %q is not an absolute path of this machine", dir)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("work directory: %w", err)
	}
	st, err := os.Stat(real)
	if err != nil {
		return "", fmt.Errorf("work directory: %w", err)
	}
	if !st.IsDir() {
		return "", fmt.Errorf("work directory %s is not a directory", dir)
	}
	if strings.ContainsAny(real, "\n\x00") {
		return "", errors.New("work directory: its name has a line break")
	}
	return real, nil
}

// places are what of this machine must not be mounted.
func (b *Backend) places() places {
	state := slices.Concat([]string{b.config.StateDir}, b.config.StateDirs)
	if b.config.HermesHome != "" {
		state = append(state, b.config.HermesHome)
	}
	for i, dir := range state {
		state[i] = realPath(dir)
	}
	return places{home: realPath(b.config.Home), state: state, real: realPath}
}

// workDir refuses a work directory that must not be mounted.
func (p places) workDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := p.checkSource(dir); err != nil {
		return fmt.Errorf("work directory %s: %w: %w", dir, err, sandbox.ErrPolicy)
	}
	return nil
}
