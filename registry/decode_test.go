package registry

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

type everything struct {
	Text    *string        `json:"text"`
	Int     *int64         `json:"int"`
	Float   *float64       `json:"float"`
	Bool    *bool          `json:"bool"`
	List    []string       `json:"list"`
	Ints    []int          `json:"ints"`
	Object  map[string]any `json:"object"`
	Union   any            `json:"union" type:"integer,string"`
	Any     any            `json:"any"`
	Maybe   *int           `json:"maybe" nullable:"true"`
	Word    *string        `json:"word" nullable:"true"`
	Strict  int            `json:"strict" default:"3" min:"1" max:"5" strict:"true"`
	Kind    string         `json:"kind" default:"a" enum:"alpha,beta,a" strict:"true"`
	Short   []int          `json:"short" maxitems:"2" strict:"true"`
	Byte    uint8          `json:"byte" default:"7"`
	Default string         `json:"default" default:"."`
}

// What a value becomes when the declaration asks for something else, and what
// is said of a value that cannot become it.
func TestCoercion(t *testing.T) {
	r := mustRegistry(t, echo[everything]("t", ""))
	for _, c := range []struct{ arg, value, want string }{
		{"list", `["a"]`, `["a"]`},
		{"list", `"a"`, `["a"]`},
		{"list", `"[\"a\", \"b\"]"`, `["a","b"]`},
		{"list", `"[not json"`, `["[not json"]`},
		{"list", `[1]`, "t: 'list' must be a list whose items are strings, got an item of another type (number)."},
		{"list", `null`, `null`},
		{"ints", `3`, `[3]`},
		{"ints", `{}`, "t: 'ints' must be a list whose items are integers, got an item of another type (object)."},
		{"int", `"4.0"`, `4`},
		{"int", `"1e3"`, `1000`},
		{"int", `"1_000"`, `1000`},
		{"int", `" 12 "`, `12`},
		{"int", `"+5"`, `5`},
		{"int", `"-5."`, `-5`},
		{"int", `4.0`, `4`},
		{"int", `1e3`, `1000`},
		{"int", `"1.5"`, "t: 'int' must be an integer, got str."},
		{"int", `1.5`, "t: 'int' must be an integer, got float."},
		{"int", `"inf"`, "t: 'int' must be an integer, got str."},
		{"int", `"nan"`, "t: 'int' must be an integer, got str."},
		{"int", `"1__0"`, "t: 'int' must be an integer, got str."},
		{"int", `"0x10"`, "t: 'int' must be an integer, got str."},
		{"int", `"1/2"`, "t: 'int' must be an integer, got str."},
		{"int", `""`, "t: 'int' must be an integer, got str."},
		{"int", `true`, "t: 'int' must be an integer, got bool."},
		{"int", `[1]`, "t: 'int' must be an integer, got list."},
		{"int", `"9223372036854775808"`, "t: 'int' is out of range: 9223372036854775808."},
		{"int", `"1e999999999"`, "t: 'int' must be an integer, got str."},
		{"int", `1e999999999`, "t: 'int' must be an integer, got float."},
		{"byte", `256`, "t: 'byte' is out of range: 256."},
		{"float", `"2.50"`, `2.5`},
		{"float", `"2"`, `2`},
		{"float", `"inf"`, "t: 'float' must be a number, got str."},
		{"float", `"1e400"`, "t: 'float' is out of range: 1000000000000000000000000000000000000000…"},
		{"bool", `" TRUE "`, `true`},
		{"bool", `"false"`, `false`},
		{"bool", `"yes"`, "t: 'bool' must be a boolean, got str."},
		{"bool", `"1"`, "t: 'bool' must be a boolean, got str."},
		{"bool", `1`, "t: 'bool' must be a boolean, got int."},
		{"object", `"{\"a\": 1}"`, `{"a":1}`},
		{"object", `"[1]"`, "t: 'object' must be an object, got str."},
		{"text", `5`, "t: 'text' must be a string, got int."},
		{"text", `{}`, "t: 'text' must be a string, got dict."},
		{"text", `"null"`, `"null"`},
		{"text", `"\ud83d\ude00"`, `"😀"`},
		{"text", `"\ud83d"`, `t: 'text' holds the lone surrogate \ud83d, which no UTF-8 text can hold.`},
		{"text", `"\uDC80"`, `t: 'text' holds the lone surrogate \uDC80, which no UTF-8 text can hold.`},
		{"text", `"\ud83d\ud83d\ude00"`, `t: 'text' holds the lone surrogate \ud83d, which no UTF-8 text can hold.`},
		{"text", `"\\ud83d"`, `"\\ud83d"`},
		{"text", `"\ud7ff"`, "\"\ud7ff\""},
		{"union", `"7"`, `7`},
		{"union", `"x"`, `"x"`},
		{"union", `[1]`, `[1]`}, // a lenient field takes what came
		{"any", `"7"`, `"7"`},
		{"maybe", `"NULL"`, `null`},
		{"maybe", `"3"`, `3`},
		{"word", `"Null"`, `null`},
		{"strict", `"5"`, `5`},
		{"strict", `0`, "t: 'strict' must be at least 1, got 0."},
		{"strict", `6`, "t: 'strict' must be at most 5, got 6."},
		{"strict", `null`, `3`},
		{"kind", `"beta"`, `"beta"`},
		{"kind", `"alpah"`, `t: 'kind' must be one of alpha, beta, a, got "alpah"; did you mean 'alpha'?`},
		{"short", `[1,2,3]`, "t: 'short' takes at most 2 items, got 3."},
		{"default", `null`, `"."`},
	} {
		t.Run(c.arg+" "+c.value, func(t *testing.T) {
			answer := r.Dispatch(t.Context(), Caller{}, "t", json.RawMessage(`{"`+c.arg+`": `+c.value+`}`))
			var got map[string]json.RawMessage
			if err := json.Unmarshal(answer, &got); err != nil {
				t.Fatalf("%v: %s", err, answer)
			}
			if text, failed := got["error"]; failed {
				var s string
				if json.Unmarshal(text, &s) != nil || s != c.want && !strings.HasPrefix(s, strings.TrimSuffix(c.want, "…")) {
					t.Errorf("got the error %s, want %s", s, c.want)
				}
			} else if value := string(got[c.arg]); value != c.want {
				t.Errorf("got %s, want %s", value, c.want)
			}
		})
	}
}

// The reference reads whole numbers through a float, which rounds them.
func TestIntegersKeepTheirDigits(t *testing.T) {
	r := mustRegistry(t, echo[everything]("t", ""))
	const rounded = "9007199254740992"
	for _, value := range []string{`"9007199254740993"`, `9007199254740993`, `"9_007_199_254_740_993"`} {
		answer := string(r.Dispatch(t.Context(), Caller{}, "t", json.RawMessage(`{"int":`+value+`}`)))
		if strings.Contains(answer, rounded) || !strings.Contains(answer, "9007199254740993") {
			t.Errorf("%s became %s", value, answer)
		}
	}
}

func TestDecodeArguments(t *testing.T) {
	r := mustRegistry(t, theSeven()...)
	for _, c := range []struct{ tool, args, want string }{
		{"read_file", `{"path":"x"}`, `{"path":"x","offset":1,"limit":500}`},
		{"read_file", `{"path":"x","offset":"2","limit":null}`, `{"path":"x","offset":2,"limit":500}`},
		{"read_file", `{"path":"x","offset":0,"limit":-3}`, `{"path":"x","offset":0,"limit":-3}`}, // the tool clamps
		{"read_file", ``, `{"error":"read_file: missing required field 'path': it must be a string."}`},
		{"read_file", `null`, `{"error":"read_file: missing required field 'path': it must be a string."}`},
		{"read_file", `[1]`, `{"error":"read_file: the arguments must be an object, got list."}`},
		{"read_file", "{\"path\":\"\xff\"}", `{"error":"read_file: the arguments are not valid UTF-8"}`},
		{"read_file", `{"pth":"x","path":"x"}`, `{"error":"read_file: unknown field \"pth\"; did you mean 'path'?"}`},
		{"read_file", `{"zzzzzz":"x","path":"x"}`, `{"error":"read_file: unknown field \"zzzzzz\"; it takes path, offset, limit."}`},
		{"read_file", `{"Path":"x","path":"y"}`, `{"error":"read_file: unknown field \"Path\"; did you mean 'path'?"}`},
		{"write_file", `{"path":"x"}`, `{"error":"write_file: missing required field 'content': it must be a string."}`},
		{"write_file", `{"path":"x","content":5}`, `{"error":"write_file: 'content' must be a string, got int."}`},
		{"write_file", `{"path":"x","content":""}`, `{"path":"x","content":"","cross_profile":false}`},
		{"web_extract", `{}`, `{"error":"web_extract: missing required field 'urls': it must be a list of strings."}`},
		{"web_extract", `{"urls":"http://x"}`, `{"urls":["http://x"]}`},
		{"terminal", `{}`, `{"command":null,"background":false,"timeout":null,"workdir":null,"pty":false,"notify_on_complete":false,"watch_patterns":null}`},
		{"terminal", `{"command":7,"background":true}`, `{"command":7,"background":true,"timeout":null,"workdir":null,"pty":false,"notify_on_complete":false,"watch_patterns":null}`},
	} {
		if got := string(r.Dispatch(t.Context(), Caller{}, c.tool, json.RawMessage(c.args))); got != c.want {
			t.Errorf("%s %s:\n got %s\nwant %s", c.tool, c.args, got, c.want)
		}
	}
	script := Caller{Kind: Script}
	got := string(r.Dispatch(t.Context(), script, "terminal", json.RawMessage(`{"command":"x","background":true,"pty":true,"watch_patterns":["a"]}`)))
	if want := `{"command":"x","background":false,"timeout":null,"workdir":null,"pty":false,"notify_on_complete":false,"watch_patterns":null}`; got != want {
		t.Errorf("what is not for scripts reached the tool: %s", got)
	}
}

func TestArgumentErrorsAreMarked(t *testing.T) {
	tool := theSeven()[1]
	if _, err := tool.call(t.Context(), Caller{}, tool.Params, json.RawMessage(`{}`)); !errors.Is(err, ErrArguments) {
		t.Errorf("got %v, want ErrArguments", err)
	}
}

func FuzzDispatch(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"int":"1e3","list":"[1]"}`, `{"text":"\ud800"}`, `{"object":"{}","bool":" true"}`,
		`[[[[`, `{"int":"1e99999"}`, "{\"text\":\"\xff\"}", `{"any":{"a":[1,2,{"b":null}]}}`, `{"union":"0"}`, `"x"`, `{"int":-`,
	} {
		f.Add([]byte(seed))
	}
	r, err := NewRegistry(echo[everything]("t", ""))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		for _, kind := range []CallerKind{Model, Script} {
			answer := r.Dispatch(context.Background(), Caller{Kind: kind}, "t", args)
			if !json.Valid(answer) || !utf8.Valid(answer) || strings.ContainsAny(string(answer), "\n\r") {
				t.Errorf("not one line of JSON: %q", answer)
			}
			if strings.Contains(string(answer), "[TOOL_ERROR]") {
				t.Errorf("the decoder broke: %s", answer)
			}
		}
	})
}

func FuzzCoerceKeepsJSON(f *testing.F) {
	f.Add(`"1_000"`, "integer")
	f.Add(`"[1]"`, "array")
	f.Add(`"-.5e-3"`, "number")
	f.Fuzz(func(t *testing.T, value, want string) {
		if !json.Valid([]byte(value)) {
			return
		}
		got := coerce(&Param{Types: []string{want}}, json.RawMessage(value))
		if !json.Valid(got) {
			t.Errorf("%s as %s became %s", value, want, got)
		}
		if again := coerce(&Param{Types: []string{want}}, got); string(again) != string(got) {
			t.Errorf("%s as %s became %s and then %s", value, want, got, again)
		}
	})
}

func mustRegistry(t *testing.T, tools ...Tool) *Registry {
	t.Helper()
	r, err := NewRegistry(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
