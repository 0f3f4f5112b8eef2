package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The reference's faults that concern a set of tools, by their numbers: wrong
// is what it answered, and must not come back. 14 is in the tests of decoding;
// the others are with the tools, the web and the engine.

// 7: a tool that was switched off stayed where it could be called.
func TestFault07WhatIsLeftOutIsGone(t *testing.T) {
	all := mustRegistry(t, theSeven()...)
	rest, err := all.Subset(slices.DeleteFunc(all.Names(), func(n string) bool { return n == "terminal" })...)
	if err != nil {
		t.Fatal(err)
	}
	const wrong = `{"command":"ls"`
	args := json.RawMessage(`{"command":"ls"}`)
	if got := string(rest.Dispatch(t.Context(), Caller{}, "terminal", args)); strings.HasPrefix(got, wrong) || got != `{"error":"Unknown tool: terminal"}` {
		t.Errorf("called, it answers %s", got)
	}
	if _, ok := rest.Get("terminal"); ok || slices.Contains(rest.Names(), "terminal") || len(rest.Tools()) != 6 {
		t.Errorf("it is still among %v", rest.Names())
	}
	if strings.Contains(PythonModule("", rest.Tools()), "terminal") {
		t.Error("scripts are still offered it")
	}
	// The twin: nobody else lost it.
	if got := string(all.Dispatch(t.Context(), Caller{}, "terminal", args)); !strings.HasPrefix(got, wrong) {
		t.Errorf("the whole set answers %s", got)
	}
}

// 8: each change of the arguments began with what the caller had sent, and the
// last one won.
func TestFault08EveryChangeOfTheArgumentsArrives(t *testing.T) {
	type in struct {
		Count  int      `json:"count"`
		Names  []string `json:"names"`
		Flag   bool     `json:"flag"`
		Word   *string  `json:"word" nullable:"true"`
		Size   int      `json:"size" default:"7"`
		Hidden string   `json:"hidden" default:"none" script:"-"`
	}
	r := mustRegistry(t, echo[in]("t", ""))
	const (
		sent  = `{"count":"3","names":"a","flag":"true","word":"null","size":null,"hidden":"x"}`
		want  = `{"count":3,"names":["a"],"flag":true,"word":null,"size":7,"hidden":"none"}`
		wrong = `{"count":"3","names":"a","flag":"true","word":"null","size":null,"hidden":"none"}` // the last change alone
	)
	if got := string(r.Dispatch(t.Context(), Caller{Kind: Script}, "t", json.RawMessage(sent))); got == wrong || got != want {
		t.Errorf("the tool sees %s, want %s", got, want)
	}
}

// 10: a name that was refused counted as registered all the same.
func TestFault10NothingOfARefusedSetIsKept(t *testing.T) {
	r, err := NewRegistry(append(theSeven(), echo[struct{}]("terminal", "Somebody else's."))...)
	if r != nil || err == nil {
		t.Errorf("got %v, %v", r, err)
	}
}

// 11, 12: what was told once was told for ever. A registry remembers nothing
// that could be stale, and nobody can change what it holds.
func TestFault11And12DeclarationsAreNeverStale(t *testing.T) {
	declare := func(r *Registry) string {
		tool, ok := r.Get("t")
		if !ok {
			t.Fatal("the tool is gone")
		}
		raw, err := tool.Declaration(OpenAI)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw) + PythonModule("", r.Tools())
	}
	type first struct {
		Old string `json:"old"`
	}
	type second struct {
		Fresh string `json:"fresh"`
	}
	a := mustRegistry(t, echo[first]("t", "One."))
	wrong := declare(a)
	b := mustRegistry(t, echo[second]("t", "Two.")) // the same name, declared again
	if got := declare(b); got == wrong || !strings.Contains(got, `"fresh"`) || strings.Contains(got, "old") {
		t.Errorf("declared again it is told as %s", got)
	}
	if got := declare(a); got != wrong {
		t.Errorf("the first set changed to %s", got)
	}
}

func TestFault12WhatIsGivenOutCanBeChangedWithoutHarm(t *testing.T) {
	type in struct {
		Mode  string   `json:"mode" enum:"a,b" default:"a" strict:"true"`
		Count int      `json:"count" default:"1" min:"1" max:"5" strict:"true"`
		List  []string `json:"list" doc:"Some."`
	}
	spoil := func(tool Tool) {
		for i := range tool.Params {
			p := &tool.Params[i]
			p.Name, p.Doc, p.Required, p.ScriptHidden = "spoilt", "spoilt", true, true
			if p.Min != nil {
				*p.Min, *p.Max = 100, 200
			}
			for _, list := range [][]string{p.Enum, p.Types} {
				for j := range list {
					list[j] = "spoilt"
				}
			}
			for j := range p.Default {
				p.Default[j] = '9'
			}
		}
		for i := range tool.RequiresEnv {
			tool.RequiresEnv[i] = "SPOILT"
		}
	}
	mine := echo[in]("t", "One.")
	mine.RequiresEnv = []string{"KEY"}
	r := mustRegistry(t, mine)
	show := func() string {
		tool, _ := r.Get("t")
		answers := fmt.Sprint(string(tool.Schema()), tool.RequiresEnv, PythonModule("", r.Tools()))
		for _, args := range []string{`{}`, `{"mode":"b","count":5,"list":"x"}`, `{"count":6}`, `{"mode":"c"}`, `{"spoilt":1}`} {
			answers += "\n" + string(r.Dispatch(t.Context(), Caller{Kind: Script}, "t", json.RawMessage(args)))
		}
		return answers
	}
	want := show()
	got, _ := r.Get("t")
	for name, tool := range map[string]Tool{"the maker's": mine, "one from Get": got, "one from Tools": r.Tools()[0]} {
		spoil(tool)
		if now := show(); now != want {
			t.Fatalf("%s was changed, and the set with it:\n%s\nwas\n%s", name, now, want)
		}
	}
}

// 13: whether a set of tools could be used was the word of the first check
// among them, even when its tool was gone.
func TestFault13EachToolAnswersForItself(t *testing.T) {
	with := func(name string, err error) Tool {
		tool := echo[struct{}](name, "")
		tool.Toolset, tool.Check = "both", func(context.Context) error { return err }
		return tool
	}
	down := errors.New("no key")
	usable := func(r *Registry) (names []string) {
		for _, tool := range r.Tools() {
			if tool.Check == nil || tool.Check(t.Context()) == nil {
				names = append(names, tool.Name)
			}
		}
		return names
	}
	for _, order := range [][]Tool{{with("a", down), with("b", nil)}, {with("b", nil), with("a", down)}} {
		r := mustRegistry(t, order...)
		for _, wrong := range [][]string{nil, {"a", "b"}} { // as the first one was
			if got := usable(r); slices.Equal(got, wrong) || !slices.Equal(got, []string{"b"}) {
				t.Errorf("usable are %v", got)
			}
		}
		rest, err := r.Subset("b")
		if err != nil || !slices.Equal(usable(rest), []string{"b"}) {
			t.Errorf("without the one that is down: %v, %v", usable(rest), err)
		}
	}
}

// 16: the reference repairs schemas after the fact, and takes values for
// schemas on the way. Here they are right from the start.
func TestFault16SchemasNeedNoRepair(t *testing.T) {
	type in struct {
		Kinds  []string         `json:"kinds" default:"[\"object\",\"string\"]"`
		Shape  map[string]any   `json:"shape" default:"{\"type\":\"object\"}"`
		Either any              `json:"either" type:"integer,string"`
		Type   string           `json:"type" default:"object" enum:"object,array"`
		Free   []any            `json:"free"`
		Deep   map[string]any   `json:"deep"`
		Rows   []map[string]any `json:"rows"`
	}
	tool := echo[in]("t", "")
	var schema struct {
		Properties map[string]json.RawMessage
	}
	if err := json.Unmarshal(tool.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ want, wrong string }{
		"kinds":  {`{"type":"array","items":{"type":"string"},"default":["object","string"]}`, `{"type":"array","items":{"type":"string"},"default":[{"type":"object","properties":{}},{"type":"string"}]}`},
		"shape":  {`{"type":"object","properties":{},"default":{"type":"object"}}`, `{"type":"object","properties":{},"default":{"type":"object","properties":{}}}`},
		"either": {`{"type":["integer","string"]}`, `{"type":"integer"}`},
		"type":   {`{"type":"string","enum":["object","array"],"default":"object"}`, `{"type":"string","enum":[{"type":"object","properties":{}},{"type":"array"}],"default":{"type":"object","properties":{}}}`},
		"free":   {`{"type":"array","items":{}}`, `{"type":"array"}`},
		"deep":   {`{"type":"object","properties":{}}`, `{"type":"object"}`},
		"rows":   {`{"type":"array","items":{"type":"object","properties":{}}}`, `{"type":"array","items":{"type":"object"}}`},
	} {
		if got := string(schema.Properties[name]); got == c.wrong || got != c.want {
			t.Errorf("%s is told as %s, want %s", name, got, c.want)
		}
	}
	for _, tool := range append(theSeven(), tool, echo[everything]("everything", ""), echo[struct{}]("ping", "")) {
		for _, complaint := range complaints(t, tool.Schema()) {
			t.Errorf("%s: %s", tool.Name, complaint)
		}
	}
	// The twin: what a strict provider refuses is complained about.
	for _, bad := range []string{
		`null`, `{"type":"object"}`, `{"type":"object","properties":{},"anyOf":[]}`, `{"type":"object","properties":{},"required":["x"]}`,
		`{"type":"object","properties":{},"required":[]}`, `{"type":"object","properties":{"a":"string"}}`, `{"type":"object","properties":{"a":{"type":"array"}}}`,
		`{"type":"object","properties":{"a":{"type":"text"}}}`, `{"type":"object","properties":{"a":{"type":"object"}}}`, `{"type":"object","properties":{"a":{"$ref":"#/x"}}}`,
	} {
		if complaints(t, json.RawMessage(bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// complaints are what a strict provider of models would refuse a schema for.
func complaints(t *testing.T, raw json.RawMessage) (list []string) {
	t.Helper()
	var top map[string]json.RawMessage
	var properties map[string]map[string]any
	var required []string
	if json.Unmarshal(raw, &top) != nil || string(top["type"]) != `"object"` || top["properties"] == nil {
		return []string{"it is no object with properties"}
	}
	if json.Unmarshal(top["properties"], &properties) != nil {
		return []string{"a property is no object"}
	}
	if r, ok := top["required"]; ok && (json.Unmarshal(r, &required) != nil || len(required) == 0) {
		list = append(list, "required is empty")
	}
	for _, name := range required {
		if properties[name] == nil {
			list = append(list, "required is "+name+", which there is not")
		}
	}
	for key := range top {
		if !slices.Contains([]string{"type", "properties", "required"}, key) {
			list = append(list, "it has "+key)
		}
	}
	for name, p := range properties {
		types, ok := p["type"].([]any)
		if !ok && p["type"] != nil {
			types = []any{p["type"]}
		}
		for _, kind := range types {
			if !slices.Contains([]any{"string", "integer", "number", "boolean", "array", "object"}, kind) {
				list = append(list, fmt.Sprintf("%s is of type %v", name, kind))
			}
		}
		if slices.Contains(types, any("array")) && p["items"] == nil || slices.Contains(types, any("object")) && p["properties"] == nil {
			list = append(list, name+" does not say what is in it")
		}
		for key := range p {
			if !slices.Contains([]string{"type", "description", "items", "properties", "enum", "default", "minimum", "maximum", "maxItems", "nullable"}, key) {
				list = append(list, name+" has "+key)
			}
		}
	}
	return list
}

// 17: names that came out the same replaced one another without a word, and
// could be longer than models' providers accept.
func TestFault17OneNameOneTool(t *testing.T) {
	from := func(toolset, name string) Tool {
		tool := echo[struct{}](name, "")
		tool.Toolset = toolset
		return tool
	}
	for what, tools := range map[string][]Tool{
		"spelt alike":  {from("mcp-a-b", "mcp_a_b_x"), from("mcp-a_b", "mcp_a_b_x")},
		"split apart":  {from("mcp-foo", "mcp_foo_bar_x"), from("mcp-foo_bar", "mcp_foo_bar_x")},
		"one server":   {from("mcp-a", "mcp_a_x"), from("mcp-a", "mcp_a_x")},
		"one built in": {from("terminal", "terminal"), from("mcp-a", "terminal")},
	} {
		r, err := NewRegistry(tools...)
		if r != nil || err == nil || !strings.Contains(err.Error(), tools[0].Name) || !strings.Contains(err.Error(), tools[0].Toolset) || !strings.Contains(err.Error(), tools[1].Toolset) {
			t.Errorf("%s: %v, %v", what, r, err)
		}
	}
	for name, ok := range map[string]bool{
		strings.Repeat("x", 64): true, strings.Repeat("x", 65): false, "mcp_a_x": true, "mcp-a-x": false, "mcp_a.x": false, "mcp_a x": false, "mcp_ä_x": false, "": false,
	} {
		if _, err := NewRegistry(from("mcp-a", name)); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// 53: an empty list of tools was no list, so that deselecting all of them
// enabled all of them; and leaving one out did nothing beside a list.
func TestFault53AnEmptyListIsEmpty(t *testing.T) {
	all := mustRegistry(t, theSeven()...)
	wrong := all.Names()
	for what, c := range map[string]struct{ asked, want []string }{
		"none":         {[]string{}, nil},
		"none at all":  {nil, nil},
		"one left out": {[]string{"read_file", "patch"}, []string{"patch", "read_file"}},
	} {
		sub, err := all.Subset(c.asked...)
		if err != nil {
			t.Fatal(err)
		}
		if got := sub.Names(); slices.Equal(got, wrong) || !slices.Equal(got, c.want) || len(sub.Tools()) != len(c.want) {
			t.Errorf("%s: %v", what, got)
		}
		if got := string(sub.Dispatch(t.Context(), Caller{}, "terminal", json.RawMessage(`{"command":"ls"}`))); got != `{"error":"Unknown tool: terminal"}` {
			t.Errorf("%s: %s", what, got)
		}
	}
}
