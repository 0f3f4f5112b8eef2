package registry

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
)

// Tool is one thing that can be called: a declaration and a function. Make one
// with New; the declaration gives the JSON schema, the Python stub and the doc
// line, so that they cannot disagree.
type Tool struct {
	Name    string
	Toolset string
	Emoji   string
	// Doc is what a model reads about the tool. Its first line stands alone as
	// the doc line of the Python stub.
	Doc string
	// Params are the arguments in the order of the declaration.
	Params []Param
	// RequiresEnv names the variables of the engine's environment the tool
	// needs. They are never passed to a sandbox.
	RequiresEnv []string
	// Check reports why the tool cannot be used now; nil means that it can.
	Check func(context.Context) error

	call func(context.Context, Caller, []Param, json.RawMessage) (any, error)
}

// clone shares nothing with t that could be changed.
func (t Tool) clone() Tool {
	t.Params, t.RequiresEnv = slices.Clone(t.Params), slices.Clone(t.RequiresEnv)
	for i := range t.Params {
		p := &t.Params[i]
		p.Types, p.Enum, p.Default = slices.Clone(p.Types), slices.Clone(p.Enum), slices.Clone(p.Default)
		for _, bound := range []**float64{&p.Min, &p.Max} {
			if *bound != nil {
				v := **bound
				*bound = &v
			}
		}
	}
	return t
}

// CallerKind says on whose behalf a tool is called.
type CallerKind string

// Who can call a tool.
const (
	Model  CallerKind = "model"  // a model's own tool call: numbered, capped views
	Script CallerKind = "script" // a running script: data for a program
	MCP    CallerKind = "mcp"    // an MCP client; treated as a model
	Shell  CallerKind = "shell"  // a person, through the command line
)

// Caller identifies a call. The zero value is a model outside any run.
type Caller struct {
	Kind    CallerKind
	Session string
	Run     string // "" outside a run
	Call    string // unique in the session

	// Lifetime ends when what the call leaves behind must be gone: with the
	// run for a script, with the session for everybody else. nil means the
	// call's own context.
	Lifetime context.Context
}

// IsScript reports whether the result goes to a program rather than a reader.
func (c Caller) IsScript() bool { return c.Kind == Script }

// New declares a tool. In is a struct whose exported fields are the arguments,
// in order; see Param for the tags. Out is marshalled as the result; an error
// of fn becomes {"error": "…"}. fn must be safe for concurrent use and return
// soon after its context is done.
//
// New panics when In is not a struct or a tag cannot be understood: that is a
// mistake in the program, found by the first test that touches the tool.
func New[In, Out any](name, toolset, doc string, fn func(context.Context, Caller, In) (Out, error)) Tool {
	return Tool{
		Name: name, Toolset: toolset, Doc: doc, Params: paramsOf[In](name),
		call: func(ctx context.Context, caller Caller, params []Param, args json.RawMessage) (any, error) {
			var in In
			if err := decodeArgs(name, params, caller, args, &in); err != nil {
				return nil, err
			}
			return fn(ctx, caller, in)
		},
	}
}

// ErrArguments marks a call whose arguments do not fit the declaration.
var ErrArguments = errors.New("invalid arguments")
