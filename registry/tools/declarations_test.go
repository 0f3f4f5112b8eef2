package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

// TestFileToolDeclarations: what a script imports and what a model is shown.
func TestFileToolDeclarations(t *testing.T) {
	reg, err := registry.NewRegistry(New(nil, Config{})...)
	if err != nil {
		t.Fatal(err)
	}
	stub := registry.PythonModule("", reg.Tools())
	for name, want := range map[string]struct{ signature, properties, required string }{
		"read_file": {"def read_file(path: str, offset: int = 1, limit: int = 500):",
			`{"path":{"type":"string"},"offset":{"type":"integer","default":1,"minimum":1},"limit":{"type":"integer","default":500,"maximum":2000}}`, `["path"]`},
		"write_file": {"def write_file(path: str, content: str, cross_profile: bool = False):",
			`{"path":{"type":"string"},"content":{"type":"string"},"cross_profile":{"type":"boolean","default":false}}`, `["path","content"]`},
	} {
		if !strings.Contains(stub, want.signature) {
			t.Errorf("%s: the stub has no %q", name, want.signature)
		}
		tool, ok := reg.Get(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		var schema struct {
			Properties map[string]map[string]any `json:"properties"`
			Required   json.RawMessage           `json:"required"`
		}
		if err := json.Unmarshal(tool.Schema(), &schema); err != nil {
			t.Fatal(err)
		}
		var properties map[string]map[string]any
		if err := json.Unmarshal([]byte(want.properties), &properties); err != nil {
			t.Fatal(err)
		}
		for arg, p := range schema.Properties {
			if p["description"] == "" {
				t.Errorf("%s: %s is not described", name, arg)
			}
			delete(p, "description")
			got, _ := json.Marshal(p)
			if wanted, _ := json.Marshal(properties[arg]); string(got) != string(wanted) {
				t.Errorf("%s: %s is %s, want %s", name, arg, got, wanted)
			}
		}
		if len(schema.Properties) != len(properties) || string(schema.Required) != want.required {
			t.Errorf("%s: %d arguments, required %s", name, len(schema.Properties), schema.Required)
		}
		if s := tool.Summary(); !strings.Contains(s, "Returns dict with") {
			t.Errorf("%s: the stub's line does not say what is returned: %q", name, s)
		}
	}
}
