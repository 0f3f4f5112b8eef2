package main

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// backends is the one list of places to run.
func backends(log *slog.Logger) map[string]sandbox.Backend {
	return map[string]sandbox.Backend{
		"local": local.New(local.Config{Adopt: true, Log: log}),
	}
}

// toolsOf is the one list of things to call. What the session's policy sets in
// the environment, such as where caches are, holds for tools too.
func (a *app) toolsOf(cfg tools.Config) func(sandbox.Sandbox) []registry.Tool {
	return func(box sandbox.Sandbox) []registry.Tool {
		c := cfg
		c.Env, c.ModelEnv = overlay(cfg.Env, a.policyEnv), overlay(cfg.ModelEnv, a.policyEnv)
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
