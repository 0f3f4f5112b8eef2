package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// argumentError says what is wrong with a call's arguments. It is
// ErrArguments, without saying so in its text: a model needs the rest only.
type argumentError string

func (e argumentError) Error() string        { return string(e) }
func (e argumentError) Is(target error) bool { return target == ErrArguments }

func refusef(format string, args ...any) error {
	return argumentError(fmt.Sprintf(format, args...))
}

// decodeArgs fills in, a pointer to the argument struct, from a JSON object.
// Absent and null arguments get their default; an unknown name is refused with
// the nearest known one; what is not for scripts is dropped when a script sent it.
func decodeArgs(tool string, params []Param, caller Caller, args json.RawMessage, in any) error {
	given := map[string]json.RawMessage{}
	if args = bytes.TrimSpace(args); len(args) > 0 && string(args) != "null" {
		if !utf8.Valid(args) {
			return argumentError(tool + ": the arguments are not valid UTF-8")
		}
		if err := json.Unmarshal(args, &given); err != nil {
			if kind := pythonType(args); kind != "" && json.Valid(args) {
				return argumentError(tool + ": the arguments must be an object, got " + kind + ".")
			}
			return argumentError(tool + ": the arguments are not a JSON object: " + err.Error())
		}
	}
	if caller.IsScript() {
		for _, p := range params {
			if p.ScriptHidden {
				delete(given, p.Name)
			}
		}
	}
	return decodeParams(tool, params, given, in)
}

// decodeParams does decodeArgs's work on an object that is already split.
func decodeParams(tool string, params []Param, given map[string]json.RawMessage, in any) error {
	known := 0
	for i := range params {
		if _, ok := given[params[i].Name]; ok {
			known++
		}
	}
	if known < len(given) { // first: a misspelt name explains a missing one
		return unknownArgument(tool, params, given)
	}
	fields := reflect.ValueOf(in).Elem()
	for i := range params {
		p := &params[i]
		raw, ok := given[p.Name]
		if ok {
			raw = coerce(p, raw)
			ok = string(raw) != "null"
		}
		if !ok {
			if p.enforced && p.Default == nil {
				return refusef("%s: missing required field '%s': it must be %s.", tool, p.Name, p.wanted())
			}
			if raw = p.Default; raw == nil {
				continue
			}
		}
		if err := p.decode(raw, fields.Field(p.field).Addr().Interface()); err != nil {
			return argumentError(tool + ": " + err.Error())
		}
	}
	return nil
}

func unknownArgument(tool string, params []Param, given map[string]json.RawMessage) error {
	names := make([]string, len(params))
	for i, p := range params {
		names[i] = p.Name
	}
	var unknown []string
	for name := range given {
		if !slices.Contains(names, name) {
			unknown = append(unknown, name)
		}
	}
	slices.Sort(unknown) // map order must not decide what is told
	text := fmt.Sprintf("%s: unknown field %q", tool, clip(unknown[0], 80))
	if near := nearest(unknown[0], names); near != "" {
		return argumentError(text + "; did you mean '" + near + "'?")
	}
	if len(names) == 0 {
		return argumentError(text + ": it takes none.")
	}
	return argumentError(text + "; it takes " + strings.Join(names, ", ") + ".")
}

// decode puts one coerced value into its field, or says why it does not fit.
func (p *Param) decode(raw json.RawMessage, field any) error {
	if p.lenient {
		return json.Unmarshal(raw, field)
	}
	got := pythonType(raw)
	if !fits(p.Types[0], raw) {
		return refusef("'%s' must be %s, got %s.", p.Name, p.wanted(), got)
	}
	if unit, bad := loneSurrogate(raw); bad {
		return refusef("'%s' holds the lone surrogate \\u%s, which no UTF-8 text can hold.", p.Name, unit)
	}
	if err := unmarshal(raw, field); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) && p.Items != "" && got == "list" {
			return refusef("'%s' must be a list whose items are %s, got an item of another type (%s).", p.Name, plural(p.Items), wrong.Value)
		}
		if errors.As(err, &wrong) && (p.Types[0] == "integer" || p.Types[0] == "number") {
			return refusef("'%s' is out of range: %s.", p.Name, clip(string(raw), 40))
		}
		return refusef("'%s' does not fit: %v.", p.Name, err)
	}
	if p.strict {
		return p.checkBounds(raw)
	}
	return nil
}

// unmarshal is json.Unmarshal with a fast way for strings.
func unmarshal(raw json.RawMessage, field any) error {
	switch field := field.(type) {
	case *string:
		*field = unquote(raw)
	case **string:
		s := unquote(raw)
		*field = &s
	default:
		return json.Unmarshal(raw, field)
	}
	return nil
}

// checkBounds is what strict:"true" asks for.
func (p *Param) checkBounds(raw json.RawMessage) error {
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return err
	}
	switch v := value.(type) {
	case float64:
		if p.Min != nil && v < *p.Min {
			return refusef("'%s' must be at least %v, got %s.", p.Name, *p.Min, clip(string(raw), 40))
		}
		if p.Max != nil && v > *p.Max {
			return refusef("'%s' must be at most %v, got %s.", p.Name, *p.Max, clip(string(raw), 40))
		}
	case string:
		if len(p.Enum) > 0 && !slices.Contains(p.Enum, v) {
			text := fmt.Sprintf("'%s' must be one of %s, got %q", p.Name, strings.Join(p.Enum, ", "), clip(v, 80))
			if near := nearest(v, p.Enum); near != "" {
				text += "; did you mean '" + near + "'?"
			}
			return argumentError(text)
		}
	case []any:
		if p.MaxItems > 0 && len(v) > p.MaxItems {
			return refusef("'%s' takes at most %d items, got %d.", p.Name, p.MaxItems, len(v))
		}
	}
	return nil
}

// wanted is the type in words: "a string".
func (p *Param) wanted() string {
	words := make([]string, len(p.Types))
	for i, t := range p.Types {
		switch t {
		case "integer":
			words[i] = "an integer"
		case "array":
			words[i] = "a list"
			if p.Items != "" {
				words[i] += " of " + plural(p.Items)
			}
		case "object":
			words[i] = "an object"
		default:
			words[i] = "a " + t
		}
	}
	if len(words) == 0 {
		return "given"
	}
	return strings.Join(words, " or ")
}

func plural(jsonType string) string {
	if jsonType == "array" {
		return "lists"
	}
	return jsonType + "s"
}

// clip shortens foreign text for an error.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
