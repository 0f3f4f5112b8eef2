package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// variables is an environment: a mapping of names to strings, kept as
// NAME=value by name. The values may be secrets: neither what is shown nor an
// error has one.
type variables struct{ to *[]string }

func (v variables) set(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("want a mapping of names to strings, got %s", kind(n))
	}
	all, seen := []string{}, map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := resolve(n.Content[i]), resolve(n.Content[i+1])
		name, err := key.Value, error(nil)
		switch _, isBool := boolean(val); {
		case key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge":
			return errors.New("a merge key cannot stand here; write an alias for the whole mapping")
		case key.Kind != yaml.ScalarNode || variableName(name) != nil:
			return fmt.Errorf("name %d: want the name of a variable", i/2+1)
		case seen[name]:
			return fmt.Errorf("%s: the name is there twice", clip(name))
		case val.Kind != yaml.ScalarNode || isNull(val):
			err = fmt.Errorf("want a string, got %s", kind(val))
		case val.ShortTag() != "!!str" || isBool:
			err = fmt.Errorf("want a string, got %s: put it in quotes", kind(val))
		case strings.ContainsRune(val.Value, 0):
			err = errors.New("want text without NUL bytes")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", clip(name), err)
		}
		seen[name] = true
		all = append(all, name+"="+val.Value)
	}
	slices.Sort(all)
	*v.to = all
	return nil
}

func (v variables) parse(s string) error {
	n, err := jsonNode(s)
	if err != nil {
		return fmt.Errorf(`want a mapping as JSON, such as {"NAME": "value"}: %w`, err)
	}
	return v.set(n)
}

func (v variables) show() string {
	if *v.to == nil {
		return "unset"
	}
	masked := make([]string, len(*v.to))
	for i, entry := range *v.to {
		name, _, _ := strings.Cut(entry, "=")
		masked[i] = name + ": ***"
	}
	return "{" + strings.Join(masked, ", ") + "}"
}

// kind is describe without what the node holds.
func kind(n *yaml.Node) string {
	switch _, isBool := boolean(n); {
	case n.Kind != yaml.ScalarNode || isNull(n):
		return describe(n)
	case isBool:
		return "a boolean"
	case n.ShortTag() == "!!str":
		return "a string"
	case n.ShortTag() == "!!int" || n.ShortTag() == "!!float":
		return "a number"
	}
	return "something else"
}

// jsonNode is JSON as if it had been in the file. Lists and mappings have
// scalars; what is deeper keeps its kind alone, which no setting takes. The
// error does not quote the text, which may hold secrets.
func jsonNode(s string) (*yaml.Node, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("not valid UTF-8")
	}
	var syntax *json.SyntaxError
	var raw json.RawMessage
	if err := json.Unmarshal([]byte(s), &raw); errors.As(err, &syntax) {
		return nil, fmt.Errorf("not JSON at byte %d", syntax.Offset)
	} else if err != nil {
		return nil, errors.New("not JSON")
	}
	n := jsonScalar(raw)
	if n.Kind == yaml.ScalarNode {
		return n, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("not JSON")
	}
	for dec.More() {
		if n.Kind == yaml.MappingNode {
			token, err := dec.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return nil, errors.New("not JSON")
			}
			n.Content = append(n.Content, jsonText(name))
		}
		var item json.RawMessage
		if err := dec.Decode(&item); err != nil {
			return nil, errors.New("not JSON")
		}
		n.Content = append(n.Content, jsonScalar(item))
	}
	return n, nil
}

// jsonScalar is one value of valid JSON, lists and mappings without content.
func jsonScalar(raw json.RawMessage) *yaml.Node {
	var s string
	switch text := string(bytes.TrimSpace(raw)); {
	case text[0] == '"' && json.Unmarshal(raw, &s) == nil:
		return jsonText(s)
	case text[0] == '{':
		return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	case text[0] == '[':
		return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	case text == "null":
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	case text == "true" || text == "false":
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: text}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!float", Value: text}
	}
}

func jsonText(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: s}
}
