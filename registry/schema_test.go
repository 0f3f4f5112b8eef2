package registry

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSchemasAreTheReferences(t *testing.T) {
	raw, err := os.ReadFile("testdata/schemas.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	for _, tool := range theSeven() {
		t.Run(tool.Name, func(t *testing.T) {
			var got, expected any
			if err := json.Unmarshal(tool.Schema(), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(want[tool.Name], &expected); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(expected, got); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
			if got, want := propertyOrder(t, tool.Schema()), propertyOrder(t, want[tool.Name]); !reflect.DeepEqual(got, want) {
				t.Errorf("properties stand in the order %q, want %q", got, want)
			}
		})
	}
}

// propertyOrder is the order of the keys under "properties".
func propertyOrder(t *testing.T, schema json.RawMessage) (names []string) {
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
		names = append(names, name.(string))
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

func TestDeclarationFormats(t *testing.T) {
	type in struct {
		Text string `json:"text" doc:"what to <say>"`
	}
	tool := echo[in]("say", "Say it.")
	const schema = `{"type":"object","properties":{"text":{"type":"string","description":"what to <say>"}},"required":["text"]}`
	for format, want := range map[Format]string{
		OpenAI:    `{"type":"function","function":{"name":"say","description":"Say it.","parameters":` + schema + `}}`,
		Anthropic: `{"name":"say","description":"Say it.","input_schema":` + schema + `}`,
		ServerMCP: `{"name":"say","description":"Say it.","inputSchema":` + schema + `}`,
	} {
		got, err := tool.Declaration(format)
		if err != nil || string(got) != want {
			t.Errorf("%s:\n got %s, %v\nwant %s", format, got, err, want)
		}
	}
	if _, err := tool.Declaration("banana"); err == nil {
		t.Error("an unknown format was accepted")
	}
}

func TestSchemaOfNoArguments(t *testing.T) {
	if got, want := string(echo[struct{}]("ping", "").Schema()), `{"type":"object","properties":{}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A mistake in a declaration is a panic that names tool and field.
func TestDeclarationMistakes(t *testing.T) {
	for name, declare := range map[string]func(){
		"not a struct": func() { echo[int]("x", "") },
		"no name": func() {
			type in struct{ A string }
			echo[in]("x", "")
		},
		"keyword": func() {
			type in struct {
				A string `json:"class"`
			}
			echo[in]("x", "")
		},
		"bad default": func() {
			type in struct {
				A int `json:"a" default:"many"`
			}
			echo[in]("x", "")
		},
		"unknown tag": func() {
			type in struct {
				A int `json:"a" defualt:"1"`
			}
			echo[in]("x", "")
		},
		"channel": func() {
			type in struct {
				A chan int `json:"a"`
			}
			echo[in]("x", "")
		},
		"pyafter nothing": func() {
			type in struct {
				A int `json:"a" pyafter:"b"`
			}
			echo[in]("x", "")
		},
		"required maybe": func() {
			type in struct {
				A int `json:"a" required:"maybe"`
			}
			echo[in]("x", "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text, ok := recover().(string); !ok || !bytes.Contains([]byte(text), []byte(`tool "x"`)) {
					t.Errorf("want a panic that names the tool, got %q", text)
				}
			}()
			declare()
		})
	}
}
