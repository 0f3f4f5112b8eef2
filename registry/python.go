package registry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PythonModule is the module a script imports: the client's own source, which
// provides _tool and _call, and after it one function for each tool, sorted by
// name. Nothing in a name or a text of a tool can end the function it stands
// in. A tool whose name is no name in Python is left out; NewRegistry refuses
// such a tool in the first place.
func PythonModule(client string, tools []Tool) string {
	tools = slices.Clone(tools)
	slices.SortFunc(tools, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	b.WriteString(client)
	for _, t := range tools {
		if checkName(t.Name) != nil {
			continue
		}
		fmt.Fprintf(&b, "\n\n@_tool\ndef %s:\n", signature(t))
		if line := t.Summary(); line != "" {
			fmt.Fprintf(&b, "    %s\n", docString(line))
		}
		fmt.Fprintf(&b, "    return _call(%s, %s)\n", strconv.Quote(t.Name), payload(t))
	}
	return b.String()
}

// Summary is the first line of the documentation: what a stub and a list say.
func (t Tool) Summary() string {
	line, _, _ := strings.Cut(strings.TrimSpace(t.Doc), "\n")
	return strings.TrimSpace(line)
}

// DocLine shows a tool to the author of a script:
//
//	read_file(path: str, offset: int = 1, limit: int = 500): Read a file.
func DocLine(t Tool) string {
	if t.Summary() == "" {
		return signature(t)
	}
	return signature(t) + ": " + t.Summary()
}

// signature is name and parameters in Python's words.
func signature(t Tool) string {
	var params []string
	for _, p := range pythonOrder(t.Params) {
		text := p.Name + p.annotation()
		switch {
		case p.Default != nil:
			text += " = " + pythonLiteral(p.Default)
		case !p.Required:
			text += " = None"
		}
		params = append(params, text)
	}
	return t.Name + "(" + strings.Join(params, ", ") + ")"
}

// payload carries every argument, None included.
func payload(t Tool) string {
	var members []string
	for _, p := range pythonOrder(t.Params) {
		members = append(members, strconv.Quote(p.Name)+": "+p.Name)
	}
	return "{" + strings.Join(members, ", ") + "}"
}

// pythonOrder is the order of the signature: that of the declaration but for
// pyafter, with what has no default first, as Python demands.
func pythonOrder(params []Param) []Param {
	var order []Param
	for _, p := range params {
		if !p.ScriptHidden {
			order = append(order, p)
		}
	}
	for _, p := range slices.Clone(order) {
		if p.PyAfter == "" {
			continue
		}
		order = slices.DeleteFunc(order, func(o Param) bool { return o.Name == p.Name })
		after := slices.IndexFunc(order, func(o Param) bool { return o.Name == p.PyAfter })
		order = slices.Insert(order, after+1, p)
	}
	slices.SortStableFunc(order, func(a, b Param) int { return optionalLast(a) - optionalLast(b) })
	return order
}

func optionalLast(p Param) int {
	if p.Required && p.Default == nil {
		return 0
	}
	return 1
}

func (p Param) annotation() string {
	if len(p.Types) != 1 {
		return ""
	}
	switch p.Types[0] {
	case "string":
		return ": str"
	case "integer":
		return ": int"
	case "number":
		return ": float"
	case "boolean":
		return ": bool"
	case "array":
		return ": list"
	case "object":
		return ": dict"
	}
	return ""
}

// pythonLiteral writes a JSON value as Python. Strings are Go's escapes, a
// part of Python's.
func pythonLiteral(raw json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "None"
	}
	return pythonValue(v)
}

func pythonValue(v any) string {
	switch v := v.(type) {
	case bool:
		if v {
			return "True"
		}
		return "False"
	case json.Number:
		return v.String()
	case string:
		return strconv.Quote(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = pythonValue(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for i, key := range keys {
			keys[i] = strconv.Quote(key) + ": " + pythonValue(v[key])
		}
		return "{" + strings.Join(keys, ", ") + "}"
	}
	return "None"
}

// docString writes a line as a docstring: readable where it can be, escaped
// where it must be.
func docString(line string) string {
	quoted := strconv.Quote(line)
	quoted = quoted[1 : len(quoted)-1]
	if !strings.Contains(line, `""`) && !strings.HasSuffix(line, `"`) {
		quoted = strings.ReplaceAll(quoted, `\"`, `"`)
	}
	return `"""` + quoted + `"""`
}
