package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// checkNames finds the names in a configuration that stand for nothing: config
// knows what a list is, not what there is to name.
func checkNames(cfg *config.Config) error {
	check := func(key, what string, names []string, known func() []string) (errs []error) {
		for i, name := range names {
			if all := known(); !slices.Contains(all, name) {
				errs = append(errs, cfg.Mistake(key, fmt.Errorf("item %d: there is no %s %q%s", i+1, what, clip(name), nearOf(name, all))))
			}
		}
		return errs
	}
	return errors.Join(append(
		check("code_execution.open_guards", "guard to open", cfg.CodeExecution.OpenGuards, guardNames),
		check("code_execution.allowed_tools", "tool for scripts", cfg.CodeExecution.AllowedTools, toolNames)...)...)
}

// guardNames are those of the guards that can be opened.
func guardNames() (names []string) {
	for _, g := range policy.Guards() {
		if !g.Fixed {
			names = append(names, g.Name)
		}
	}
	return names
}

// toolNames are those of the tools a script can be given.
func toolNames() (names []string) {
	for _, t := range tools.New(nil, tools.Config{}) {
		names = append(names, t.Name)
	}
	return names
}

// checkPolicies reads the policies the configuration names, used or not.
func (a *app) checkPolicies() error {
	var errs []error
	for _, p := range []struct{ key, name string }{
		{"code_execution.policy", a.cfg.CodeExecution.Policy}, {"terminal.policy", a.cfg.Terminal.Policy},
	} {
		if p.name != "" {
			errs = append(errs, a.checkPolicy(a.configured(p.name), p.key))
		}
	}
	return errors.Join(errs...)
}

// checkPolicy tells whether there is a policy of this name; from is the key of
// the configuration that has it, "" for none.
func (a *app) checkPolicy(name, from string) error {
	_, err := policy.Load(name)
	if err == nil {
		return nil
	}
	if near := config.Nearest(name, []string{policy.Sealed, policy.Workspace, policy.Open}); near != "" && !policy.IsFile(name) {
		err = fmt.Errorf("%w; did you mean %q?", err, near)
	}
	if from != "" {
		err = a.cfg.Mistake(from, err)
	}
	return err
}

// nearOf is the end of an error about an unknown name: what may have been meant.
func nearOf(name string, known []string) string {
	if near := config.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ", there are " + strings.Join(known, ", ")
}
