package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Format is one of the shapes in which a tool is declared to the world.
type Format string

// The formats of Declaration.
const (
	OpenAI    Format = "openai"    // {"type":"function","function":{name, description, parameters}}
	Anthropic Format = "anthropic" // {name, description, input_schema}
	ServerMCP Format = "mcp"       // {name, description, inputSchema}
)

// Schema is the JSON schema of the arguments: an object whose properties stand
// in the order of the declaration.
func (t Tool) Schema() json.RawMessage {
	properties, required := object{}, []string{}
	for _, p := range t.Params {
		properties = append(properties, member{p.Name, p.schema()})
		if p.Required {
			required = append(required, p.Name)
		}
	}
	schema := object{{"type", "object"}, {"properties", properties}}
	if len(required) > 0 {
		schema = append(schema, member{"required", required})
	}
	return marshal(schema)
}

func (p Param) schema() object {
	var s object
	add := func(key string, value any) { s = append(s, member{key, value}) }
	switch len(p.Types) {
	case 0:
	case 1:
		add("type", p.Types[0])
	default:
		add("type", p.Types)
	}
	if p.Doc != "" {
		add("description", p.Doc)
	}
	if p.Items != "" {
		add("items", append(object{{"type", p.Items}}, contents(p.Items)...))
	} else {
		for _, kind := range p.Types {
			s = append(s, contents(kind)...)
		}
	}
	if len(p.Enum) > 0 {
		add("enum", p.Enum)
	}
	if p.Default != nil {
		add("default", p.Default)
	}
	if p.Min != nil {
		add("minimum", *p.Min)
	}
	if p.Max != nil {
		add("maximum", *p.Max)
	}
	if p.MaxItems > 0 {
		add("maxItems", p.MaxItems)
	}
	if p.Nullable {
		add("nullable", true)
	}
	return s
}

// contents is what a type that holds others has to say of them, even when that
// is nothing: some providers refuse a list without items and an object without
// properties.
func contents(kind string) object {
	switch kind {
	case "array":
		return object{{"items", object{}}}
	case "object":
		return object{{"properties", object{}}}
	}
	return nil
}

// Declaration is the tool as the given kind of client wants to be told of it.
func (t Tool) Declaration(f Format) (json.RawMessage, error) {
	declare := func(schemaKey string) object {
		return object{{"name", t.Name}, {"description", t.Doc}, {schemaKey, t.Schema()}}
	}
	switch f {
	case OpenAI:
		return marshal(object{{"type", "function"}, {"function", declare("parameters")}}), nil
	case Anthropic:
		return marshal(declare("input_schema")), nil
	case ServerMCP:
		return marshal(declare("inputSchema")), nil
	}
	return nil, fmt.Errorf("registry: unknown format %q, want %s, %s or %s", f, OpenAI, Anthropic, ServerMCP)
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// MarshalJSON writes the members in order.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(marshal(m.key))
		b.WriteByte(':')
		b.Write(marshal(m.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
