package main

import (
	"log/slog"

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

// toolsOf is the one list of things to call.
func toolsOf(cfg tools.Config) func(sandbox.Sandbox) []registry.Tool {
	return func(box sandbox.Sandbox) []registry.Tool { return tools.New(box, cfg) }
}
