package registry

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Param is one argument of a tool, read from a field of its argument struct:
//
//	json:"limit"          the name on the wire; every exported field has one ("-": not an argument)
//	doc:"…"               what a model reads about it
//	default:"500"         a JSON literal, or a bare string for a string field
//	min:"1" max:"2000"    told in the schema
//	enum:"content,files"  told in the schema
//	maxitems:"5"          told in the schema
//	strict:"true"         min, max, enum and maxitems are also checked; else the tool clamps or answers for itself
//	required:"true"       required, although the field is a slice
//	required:"schema"     told as required, but not checked: the tool has a default or an answer of its own
//	nullable:"true"       the string "null" means null too
//	script:"-"            not for scripts: not in the Python stub, dropped when a script sends it
//	pyafter:"replace_all" where the Python signature puts it, when that differs from the schema
//	type:"string"         for a field of type any: what the schema says; coerced, but never refused
//
// Fields are strings, bools, integers, floats, slices, maps, structs, any,
// json.RawMessage, or pointers to those. An argument is required when its
// field is neither pointer nor slice nor map nor any and has no default. An optional one
// that is absent or null keeps the field's zero value.
type Param struct {
	Name string
	// Types are the JSON types it can have, mostly one: string, integer,
	// number, boolean, array, object. None means anything.
	Types []string
	// Items is the type of an array's elements; "" means anything.
	Items string
	Doc   string
	// Required is what the schema says.
	Required bool
	// Default is nil when there is none.
	Default      json.RawMessage
	Min, Max     *float64
	MaxItems     int
	Enum         []string
	Nullable     bool
	ScriptHidden bool
	PyAfter      string

	field    int
	enforced bool // a call without it is refused
	lenient  bool // a value of another type is passed on as it came
	strict   bool
}

// paramsOf reads the declaration of In. It panics on a mistake in it, naming
// tool and field.
func paramsOf[In any](tool string) []Param {
	t := reflect.TypeFor[In]()
	if t.Kind() != reflect.Struct {
		panic(fmt.Sprintf("registry: tool %q: the arguments must be a struct, not %s", tool, t))
	}
	var params []Param
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("json") == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		p, err := paramOf(f)
		if err == nil && slices.ContainsFunc(params, func(o Param) bool { return o.Name == p.Name }) {
			err = fmt.Errorf("the name %q is taken", p.Name)
		}
		if err != nil {
			panic(fmt.Sprintf("registry: tool %q: field %s: %v", tool, f.Name, err))
		}
		p.field = i
		params = append(params, p)
	}
	for _, p := range params {
		if p.PyAfter != "" && !slices.ContainsFunc(params, func(o Param) bool { return o.Name == p.PyAfter }) {
			panic(fmt.Sprintf("registry: tool %q: %s: pyafter names no argument: %q", tool, p.Name, p.PyAfter))
		}
	}
	return params
}

// knownTags are the tags a field can have; another one is a spelling mistake.
const knownTags = " json doc default min max enum maxitems strict required nullable script pyafter type "

func paramOf(f reflect.StructField) (Param, error) {
	tags, err := tagsOf(string(f.Tag))
	if err != nil {
		return Param{}, err
	}
	p := Param{Name: tags["json"], Doc: tags["doc"], PyAfter: tags["pyafter"]}
	if f.Anonymous {
		return p, fmt.Errorf("embedded structs are not arguments")
	}
	if !usableInPython(p.Name) {
		return p, fmt.Errorf("json name %q is not an identifier a script can use", p.Name)
	}
	_, hasDefault := tags["default"]
	optional := hasDefault
	if optional, err = p.typeOf(f.Type, tags["type"], optional); err != nil {
		return p, err
	}
	switch tags["required"] {
	case "":
		p.Required, p.enforced = !optional, !optional
	case "true":
		p.Required, p.enforced = true, true
	case "schema":
		p.Required = true
	default:
		return p, fmt.Errorf("required is %q, want true or schema", tags["required"])
	}
	for tag, to := range map[string]*bool{"strict": &p.strict, "nullable": &p.Nullable} {
		if v := tags[tag]; v != "" {
			if *to, err = strconv.ParseBool(v); err != nil {
				return p, fmt.Errorf("%s is %q, want true", tag, v)
			}
		}
	}
	switch tags["script"] {
	case "":
	case "-":
		p.ScriptHidden = true
	default:
		return p, fmt.Errorf(`script is %q, want "-"`, tags["script"])
	}
	for tag, to := range map[string]**float64{"min": &p.Min, "max": &p.Max} {
		if v := tags[tag]; v != "" {
			n, err := strconv.ParseFloat(v, 64)
			if err != nil {
				return p, fmt.Errorf("%s is %q, want a number", tag, v)
			}
			*to = &n
		}
	}
	if v := tags["maxitems"]; v != "" {
		if p.MaxItems, err = strconv.Atoi(v); err != nil {
			return p, fmt.Errorf("maxitems is %q, want a number", v)
		}
	}
	if v := tags["enum"]; v != "" {
		p.Enum = strings.Split(v, ",")
	}
	if hasDefault {
		if p.Default, err = defaultOf(f.Type, tags["default"]); err != nil {
			return p, err
		}
	}
	return p, nil
}

// tagsOf splits a struct tag, which reflect can only be asked about by name.
func tagsOf(tag string) (map[string]string, error) {
	tags := map[string]string{}
	for rest := strings.TrimSpace(tag); rest != ""; rest = strings.TrimSpace(rest) {
		name, after, ok := strings.Cut(rest, ":")
		quoted, err := strconv.QuotedPrefix(after)
		if !ok || err != nil {
			return nil, fmt.Errorf("malformed tag %q", rest)
		}
		if !strings.Contains(knownTags, " "+name+" ") {
			return nil, fmt.Errorf("unknown tag %q", name)
		}
		if tags[name], err = strconv.Unquote(quoted); err != nil {
			return nil, fmt.Errorf("malformed tag %q", rest)
		}
		rest = after[len(quoted):]
	}
	return tags, nil
}

// typeOf fills in the JSON types of a Go type and reports whether it can be absent.
func (p *Param) typeOf(t reflect.Type, declared string, optional bool) (bool, error) {
	if t.Kind() == reflect.Pointer {
		t, optional = t.Elem(), true
	}
	if t.Kind() == reflect.Interface && t.NumMethod() == 0 || t == reflect.TypeFor[json.RawMessage]() {
		p.lenient = true
		if declared != "" {
			p.Types = strings.Split(declared, ",")
		}
		return true, nil
	}
	if declared != "" {
		return optional, fmt.Errorf("type is for fields of type any")
	}
	name, err := jsonType(t)
	if err != nil {
		return optional, err
	}
	p.Types = []string{name}
	if name == "array" {
		if e := t.Elem(); e.Kind() != reflect.Interface {
			if p.Items, err = jsonType(e); err != nil {
				return optional, err
			}
		}
	}
	return optional || t.Kind() == reflect.Slice || t.Kind() == reflect.Map, nil
}

func jsonType(t reflect.Type) (string, error) {
	switch t.Kind() {
	case reflect.String:
		return "string", nil
	case reflect.Bool:
		return "boolean", nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer", nil
	case reflect.Float32, reflect.Float64:
		return "number", nil
	case reflect.Slice:
		return "array", nil
	case reflect.Struct, reflect.Map:
		return "object", nil
	}
	return "", fmt.Errorf("a %s cannot be an argument", t)
}

// defaultOf is the tag as JSON that fits the field.
func defaultOf(t reflect.Type, tag string) (json.RawMessage, error) {
	value := json.RawMessage(tag)
	into := reflect.New(t)
	err := json.Unmarshal(value, into.Interface())
	if err != nil || t.Kind() == reflect.Interface {
		bare, _ := json.Marshal(tag)
		if json.Unmarshal(bare, reflect.New(t).Interface()) == nil && (err != nil || !json.Valid(value)) {
			return bare, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("default %q does not fit %s: %v", tag, t, err)
	}
	return value, nil
}
