package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Registry is an immutable set of tools. It is safe for concurrent use.
type Registry struct {
	tools map[string]Tool
	names []string // sorted
}

// NewRegistry makes a set of tools. Two tools of one name, a name that cannot
// be one, and a tool not made by New are errors; all of them are reported.
func NewRegistry(tools ...Tool) (*Registry, error) {
	r := &Registry{tools: make(map[string]Tool, len(tools))}
	var errs []error
	for _, t := range tools {
		if err := checkName(t.Name); err != nil {
			errs = append(errs, fmt.Errorf("registry: toolset %q: bad tool name %q: %w", t.Toolset, t.Name, err))
			continue
		}
		if t.call == nil {
			errs = append(errs, fmt.Errorf("registry: tool %q has no function: make it with New", t.Name))
			continue
		}
		if other, ok := r.tools[t.Name]; ok {
			errs = append(errs, fmt.Errorf("registry: tool %q of toolset %q: the name is taken by toolset %q", t.Name, t.Toolset, other.Toolset))
			continue
		}
		r.tools[t.Name] = t.clone() // whoever made it may still change it
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	r.names = slices.Sorted(maps.Keys(r.tools))
	return r, nil
}

// Names are the names of all tools, sorted.
func (r *Registry) Names() []string { return slices.Clone(r.names) }

// Tools are copies of all tools, sorted by name.
func (r *Registry) Tools() []Tool {
	tools := make([]Tool, len(r.names))
	for i, name := range r.names {
		tools[i] = r.tools[name].clone()
	}
	return tools
}

// Has tells whether there is a tool of exactly that name.
func (r *Registry) Has(name string) bool {
	_, ok := r.tools[name]
	return ok
}

// Get finds a copy of a tool by its exact name.
func (r *Registry) Get(name string) (Tool, bool) {
	t, ok := r.tools[name]
	return t.clone(), ok
}

// Subset is the registry of just these tools; no names give an empty one. An
// unknown name is an error that says which known one is near.
func (r *Registry) Subset(names ...string) (*Registry, error) {
	sub := &Registry{tools: make(map[string]Tool, len(names))}
	for _, name := range names {
		t, ok := r.tools[name]
		if !ok {
			text := fmt.Sprintf("registry: unknown tool %q", clip(name, 80))
			if near := r.Nearest(name); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			}
			return nil, errors.New(text)
		}
		sub.tools[name] = t
	}
	sub.names = slices.Sorted(maps.Keys(sub.tools))
	return sub, nil
}

// Nearest is the known name most like the given one, "" when none is like it.
func (r *Registry) Nearest(name string) string { return nearest(name, r.names) }

// Dispatch calls a tool and always answers with valid JSON on one line: the
// tool's result, or {"error": "…"} for an unknown tool, for arguments that do
// not fit, for an error of the tool, for a result without a JSON form, and for
// a panic. It asks nobody for permission: grants and budgets are the engine's.
//
// Dispatch ends when the tool does. A tool promises to stop when ctx is done;
// what it then returns is the answer.
func (r *Registry) Dispatch(ctx context.Context, caller Caller, name string, args json.RawMessage) (answer json.RawMessage) {
	tool, ok := r.tools[name]
	if !ok {
		return failed("Unknown tool: " + clip(name, 4*maxName))
	}
	defer func() {
		if cause := recover(); cause != nil {
			answer = crashed(cause)
		}
	}()
	result, err := tool.call(ctx, caller, tool.Params, args)
	if err != nil {
		text := sanitize(err.Error())
		if text == "" {
			text = "the tool failed without saying why"
		}
		return failed(text)
	}
	if answer, err = encode(result); err != nil {
		return crashed(err)
	}
	return answer
}
