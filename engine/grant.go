package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry"
)

// grant decides which tools the scripts of a session may call. It fails
// closed: an explicit list grants just that, an empty one nothing, an unknown
// name refuses the task (the reference widened both to every tool).
func grant(tools *registry.Registry, allowed, asked []string) ([]string, error) {
	var names []string
	if asked == nil {
		for _, name := range append(ScriptTools(), allowed...) {
			if tools.Has(name) && !neverGranted(name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range asked {
		if neverGranted(name) {
			return nil, fmt.Errorf("%w: tool %q can never be granted to a script", ErrRefused, name)
		}
		if !tools.Has(name) {
			return nil, fmt.Errorf("%w: unknown tool %q%s", ErrRefused, name, suggestion(tools, name))
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func suggestion(tools *registry.Registry, name string) string {
	if near := tools.Nearest(name); near != "" {
		return fmt.Sprintf(", did you mean %q?", near)
	}
	if known := tools.Names(); len(known) > 0 {
		return ", known are " + strings.Join(known, ", ")
	}
	return ", there are no tools"
}

// offline leaves out of a default grant the tools that reach the network from
// the engine, for a box that has none: a script could send through them what it
// may not send itself. A task that names them has them.
func offline(tools *registry.Registry, granted []string) []string {
	return slices.DeleteFunc(granted, func(name string) bool {
		t, ok := tools.Get(name)
		return ok && t.Toolset == "web"
	})
}
