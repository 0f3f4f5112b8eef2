package tools

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-exec/hermes-exec/registry"
)

// signatures are what scripts were written against, in the order of the module.
var signatures = []string{
	`def patch(path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, mode: str = "replace", patch: str = None, cross_profile: bool = False):`,
	`def read_file(path: str, offset: int = 1, limit: int = 500):`,
	`def search_files(pattern: str, target: str = "content", path: str = ".", file_glob: str = None, limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0):`,
	`def terminal(command: str, timeout: int = None, workdir: str = None):`,
	`def web_extract(urls: list):`,
	`def web_search(query: str, limit: int = 5):`,
	`def write_file(path: str, content: str, cross_profile: bool = False):`,
}

// The real declarations are the reference's but for the words: schemas with
// the order of their properties, and Python signatures.
func TestDeclarationsAreTheReferences(t *testing.T) {
	raw, err := os.ReadFile("../testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var schemas map[string]json.RawMessage
	if err := json.Unmarshal(raw, &schemas); err != nil {
		t.Fatal(err)
	}
	reg, err := registry.NewRegistry(New(nil, Config{})...)
	if err != nil {
		t.Fatal(err)
	}
	module := registry.PythonModule("", reg.Tools())
	last := 0
	for _, want := range signatures {
		name, _, _ := strings.Cut(strings.TrimPrefix(want, "def "), "(")
		tool, ok := reg.Get(name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		at := strings.Index(module, want+"\n")
		if at < last {
			t.Errorf("the module lacks, or has out of order: %s", want)
		}
		last = max(at, last)
		if summary := tool.Summary(); !strings.Contains(summary, "Returns dict with") {
			t.Errorf("%s: its line in the module does not say what it returns: %q", name, summary)
		}

		got, described := undescribed(t, tool.Schema())
		expected, _ := undescribed(t, schemas[name])
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s: schema (-want +got):\n%s", name, diff)
		}
		if order, want := properties(t, tool.Schema()), properties(t, schemas[name]); !slices.Equal(order, want) {
			t.Errorf("%s: properties in the order %q, want %q", name, order, want)
		} else if described != len(order) {
			t.Errorf("%s: %d of %d properties are described", name, described, len(order))
		}
	}
	for _, tool := range reg.Tools() {
		if schemas[tool.Name] == nil {
			t.Errorf("%s is not among the reference's", tool.Name)
		}
	}
}

// undescribed is a schema without the descriptions of its properties, and how
// many had one.
func undescribed(t *testing.T, raw json.RawMessage) (schema map[string]any, described int) {
	t.Helper()
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	for _, p := range schema["properties"].(map[string]any) {
		p := p.(map[string]any)
		if s, _ := p["description"].(string); s != "" {
			described++
		}
		delete(p, "description")
	}
	return schema, described
}

// properties are the names under "properties" in the order they are written.
func properties(t *testing.T, schema json.RawMessage) (names []string) {
	t.Helper()
	var s struct{ Properties json.RawMessage }
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(s.Properties))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
		names = append(names, name.(string))
	}
	return names
}
