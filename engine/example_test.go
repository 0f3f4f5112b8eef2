package engine_test

import (
	"context"
	"fmt"
	"os"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// A program opens an engine, registers a tool and runs a script that calls it.
// Its main must call guest.Main() first, as this package's TestMain does.
func Example() {
	greet := registry.New("greet", "example", "Greet somebody.",
		func(_ context.Context, _ registry.Caller, in struct {
			Name string `json:"name"`
		}) (map[string]string, error) {
			return map[string]string{"greeting": "Hello, " + in.Name + "!"}, nil
		})

	e, err := engine.New(engine.Config{
		Backends:     map[string]sandbox.Backend{"local": local.New(local.Config{})},
		Tools:        func(sandbox.Sandbox) []registry.Tool { return []registry.Tool{greet} },
		AllowedTools: []string{"greet"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer e.Close()

	ctx := context.Background()
	project, err := os.MkdirTemp("", "project")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(project)
	s, err := e.Open(ctx, engine.Task{WorkDir: project}) // confined by the workspace profile
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := s.Run(ctx, engine.Script{Code: `
from hermes_tools import greet
for name in ("script", "world"):
    print(greet(name)["greeting"])
`})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(r.Output)
	fmt.Println(r.Status, r.ToolCallsMade, r.Policy)
	// Output:
	// Hello, script!
	// Hello, world!
	// success 2 workspace
}
