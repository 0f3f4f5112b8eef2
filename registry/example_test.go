package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry"
)

// A tool in five lines: a struct, a function, and New.
func Example() {
	type In struct {
		Text  string `json:"text" doc:"what to shout"`
		Times int    `json:"times" default:"1"`
	}
	shout := registry.New("shout", "demo", "Shout a text.", func(_ context.Context, _ registry.Caller, in In) (string, error) {
		return strings.Repeat(strings.ToUpper(in.Text)+"!", in.Times), nil
	})

	tools, err := registry.NewRegistry(shout)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s\n", tools.Dispatch(context.Background(), registry.Caller{}, "shout", json.RawMessage(`{"text":"hey","times":2}`)))
	fmt.Printf("%s\n", tools.Dispatch(context.Background(), registry.Caller{}, "shout", json.RawMessage(`{"txt":"hey"}`)))
	fmt.Printf("%s\n", shout.Schema())
	fmt.Println(registry.DocLine(shout))
	// Output:
	// "HEY!HEY!"
	// {"error":"shout: unknown field \"txt\"; did you mean 'text'?"}
	// {"type":"object","properties":{"text":{"type":"string","description":"what to shout"},"times":{"type":"integer","default":1}},"required":["text"]}
	// shout(text: str, times: int = 1): Shout a text.
}
