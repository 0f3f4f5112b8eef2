package policy

import (
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Load is the profile called name, with the file's content when it names one,
// so that it can be resolved on another machine. Errors wrap sandbox.ErrPolicy.
func Load(name string) (sandbox.Profile, error) {
	p := sandbox.Profile{Name: name}
	if IsFile(name) {
		var err error
		if p.Name, p.File, err = readFile(name); err != nil {
			return sandbox.Profile{}, err
		}
	}
	_, err := specOf(p)
	return p, err
}

// Outline is what of a profile holds wherever it is resolved: its name, the
// network, the clauses that may be missing. It has no paths.
func Outline(profile sandbox.Profile) (sandbox.Policy, error) {
	spec, err := specOf(profile)
	if err != nil {
		return sandbox.Policy{}, err
	}
	if profile.Name == Open {
		return sandbox.Policy{Name: Open, Unconfined: true}, nil
	}
	p := sandbox.Policy{Name: profile.Name}
	switch spec.extends {
	case Sealed:
		p.BestEffort = sealedBestEffort()
	case Workspace:
		p.Network, p.BestEffort = sandbox.NetworkHost, workspaceBestEffort()
	}
	if spec.networkSet {
		p.Network = spec.network
	}
	p.BestEffort = append(p.BestEffort, spec.bestEffort...)
	return p, nil
}

// specOf is what a profile's file says, or for one without a file that it is
// what it extends.
func specOf(profile sandbox.Profile) (fileSpec, error) {
	switch name := profile.Name; {
	case IsFile(name):
		return parse(name, profile.File)
	case name != Sealed && name != Workspace && name != Open:
		return fileSpec{}, refuse("policy %q: want %s, %s, %s, or a policy file: a path with a slash, or ending in .yaml", clip(name), Sealed, Workspace, Open)
	default:
		return fileSpec{extends: name}, nil
	}
}

func sealedBestEffort() []sandbox.ClauseName { return []sandbox.ClauseName{sandbox.ClauseResources} }

func workspaceBestEffort() []sandbox.ClauseName {
	return []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseResources}
}
