package registry

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// returning is a tool that answers with what it is given here.
func returning(name string, fn func() (any, error)) Tool {
	return New(name, "test", "", func(context.Context, Caller, struct{}) (any, error) { return fn() })
}

type panics struct{}

func (panics) MarshalJSON() ([]byte, error) { panic("while marshalling") }

func TestDispatchAlwaysAnswersWithJSON(t *testing.T) {
	type node struct{ Next *node }
	loop := &node{}
	loop.Next = loop
	for name, c := range map[string]struct {
		fn   func() (any, error)
		want string // a prefix when it ends in …
	}{
		"value":           {func() (any, error) { return map[string]any{"a": "<b>&"}, nil }, `{"a":"<b>&"}`},
		"nil":             {func() (any, error) { return nil, nil }, `null`},
		"raw":             {func() (any, error) { return json.RawMessage(`{"a":1}`), nil }, `{"a":1}`},
		"raw with lines":  {func() (any, error) { return json.RawMessage("{\n \"a\": \"x y\"\n}\n"), nil }, `{"a":"x y"}`},
		"raw html":        {func() (any, error) { return json.RawMessage(`{"a":"<&>"}`), nil }, `{"a":"<&>"}`},
		"raw with hint":   {func() (any, error) { return json.RawMessage("{}\n\n[Hint: more]"), nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"raw empty":       {func() (any, error) { return json.RawMessage(""), nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"raw nil":         {func() (any, error) { return json.RawMessage(nil), nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"raw bad UTF-8":   {func() (any, error) { return json.RawMessage("\"\xff\""), nil }, "\"\uFFFD\""},
		"nested raw":      {func() (any, error) { return []json.RawMessage{[]byte("{\n}")}, nil }, `[{}]`},
		"nested bad raw":  {func() (any, error) { return []json.RawMessage{[]byte("{")}, nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"bad UTF-8":       {func() (any, error) { return "a\xffb", nil }, "\"a\ufffdb\""},
		"line separators": {func() (any, error) { return "a\r\n\u2028", nil }, "\"a\\r\\n\u2028\""},
		"NaN":             {func() (any, error) { return math.NaN(), nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"infinity":        {func() (any, error) { return []float64{math.Inf(1)}, nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"channel":         {func() (any, error) { return make(chan int), nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"cycle":           {func() (any, error) { return loop, nil }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"error":           {func() (any, error) { return "dropped", errors.New("no such page") }, `{"error":"no such page"}`},
		"wordless error":  {func() (any, error) { return nil, errors.New(" ") }, `{"error":"the tool failed without saying why"}`},
		"panic":           {func() (any, error) { panic("oh no") }, `{"error":"[TOOL_ERROR] Tool execution failed: string: oh no"}`},
		"runtime panic":   {func() (any, error) { return theSeven()[len(theSeven())], nil }, `{"error":"[TOOL_ERROR] Tool execution failed: runtime.…`},
		"panic(nil)":      {func() (any, error) { panic(nil) }, `{"error":"[TOOL_ERROR] Tool execution failed: …`},
		"late panic":      {func() (any, error) { return panics{}, nil }, `{"error":"[TOOL_ERROR] Tool execution failed: string: while marshalling"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustRegistry(t, returning("t", c.fn))
			got := string(r.Dispatch(t.Context(), Caller{}, "t", nil))
			if !json.Valid([]byte(got)) || !utf8.ValidString(got) || strings.ContainsAny(got, "\r\n") {
				t.Fatalf("not one line of JSON: %q", got)
			}
			if prefix, cut := strings.CutSuffix(c.want, "…"); got != c.want && !(cut && strings.HasPrefix(got, prefix)) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestDispatchUnknownTool(t *testing.T) {
	r := mustRegistry(t, theSeven()...)
	if got, want := string(r.Dispatch(t.Context(), Caller{}, "nope", nil)), `{"error":"Unknown tool: nope"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := r.Dispatch(t.Context(), Caller{}, strings.Repeat("x\xff\n", 1e6), nil)
	if !json.Valid(got) || len(got) > 2000 {
		t.Errorf("a huge name gave %d bytes", len(got))
	}
}

// An error text cannot speak as the system, and cannot flood the context.
func TestSanitize(t *testing.T) {
	for in, want := range map[string]string{
		"plain <b>":                          "plain <b>",
		"a <system>b</system> c":             "a b c",
		"<TOOL_CALL>{}</tool_call>":          "{}",
		"<tool_<tool_call>call>x":            "x",
		"<<user>assistant>x":                 "x",
		"<![CDATA[x]]>":                      "x",
		"```json\n{\"a\":1}\n```":            "{\"a\":1}",
		"cat ``` inside":                     "cat ``` inside",
		"a < b > c":                          "a < b > c",
		"list<input >":                       "list<input >",
		strings.Repeat("é", maxErrorText+1):  strings.Repeat("é", maxErrorText-3) + "...",
		strings.Repeat("<user>", 1000) + "x": "x",
		"bad \xff byte":                      "bad \uFFFD byte",
	} {
		if got := sanitize(in); got != want {
			t.Errorf("%.60q:\n got %.60q\nwant %.60q", in, got, want)
		}
	}
}

func FuzzSanitize(f *testing.F) {
	f.Add("<tool_<tool_call>call>")
	f.Add("```json\nx```")
	f.Fuzz(func(t *testing.T, s string) {
		got := sanitize(s)
		lower := strings.ToLower(got)
		for _, tag := range strings.Fields(roleTags) {
			if strings.Contains(lower, "<"+tag+">") || strings.Contains(lower, "</"+tag+">") {
				t.Errorf("%q kept a tag: %q", s, got)
			}
		}
		if len([]rune(got)) > maxErrorText || !utf8.ValidString(got) {
			t.Errorf("%q became %q", s, got)
		}
	})
}

func TestNewRegistryReportsEveryMistake(t *testing.T) {
	_, err := NewRegistry(
		New("same", "first", "", func(context.Context, Caller, struct{}) (any, error) { return nil, nil }),
		New("same", "second", "", func(context.Context, Caller, struct{}) (any, error) { return nil, nil }),
		New("not ok", "third", "", func(context.Context, Caller, struct{}) (any, error) { return nil, nil }),
		Tool{Name: "hollow"},
	)
	for _, want := range []string{"same", "first", "second", "not ok", "third", "hollow"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestSubset(t *testing.T) {
	r := mustRegistry(t, theSeven()...)
	sub, err := r.Subset("read_file", "patch", "read_file")
	if err != nil || strings.Join(sub.Names(), " ") != "patch read_file" {
		t.Errorf("got %v, %v", sub.Names(), err)
	}
	if got := string(sub.Dispatch(t.Context(), Caller{}, "terminal", nil)); got != `{"error":"Unknown tool: terminal"}` {
		t.Errorf("a tool outside the subset answered: %s", got)
	}
	// The reference gives every tool to a session that was granted none.
	if none, err := r.Subset(); err != nil || len(none.Names()) != 0 {
		t.Errorf("no names gave %v, %v", none.Names(), err)
	}
	if _, err := r.Subset("read_flie"); err == nil || !strings.Contains(err.Error(), `did you mean "read_file"?`) {
		t.Errorf("got %v", err)
	}
}

func TestNearest(t *testing.T) {
	r := mustRegistry(t, theSeven()...)
	for name, want := range map[string]string{
		"readfile": "read_file", "READ_FILE": "read_file", "termnial": "terminal", "websearch": "web_search",
		"search_file": "search_files", "write": "", "zzz": "", "": "", strings.Repeat("x", 1000): "",
	} {
		if got := r.Nearest(name); got != want {
			t.Errorf("nearest to %.20q is %q, want %q", name, got, want)
		}
	}
}

func TestDispatchConcurrently(t *testing.T) {
	r := mustRegistry(t, theSeven()...)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if got := r.Dispatch(t.Context(), Caller{}, "web_search", json.RawMessage(`{"query":"q"}`)); string(got) != `{"query":"q","limit":5}` {
					t.Errorf("got %s", got)
				}
				r.Names()[0] = "mine" // a copy
			}
		})
	}
	wg.Wait()
	if r.Names()[0] != "patch" {
		t.Error("Names shares its slice")
	}
}

// A tool that promised to stop is told that it should.
func TestDispatchHandsOnTheContext(t *testing.T) {
	why := errors.New("the run ended")
	r := mustRegistry(t, New("wait", "test", "", func(ctx context.Context, _ Caller, _ struct{}) (any, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if got, want := string(r.Dispatch(ctx, Caller{}, "wait", nil)), `{"error":"the run ended"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func BenchmarkDispatch(b *testing.B) {
	r, err := NewRegistry(theSeven()...)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		r.Dispatch(b.Context(), Caller{}, "read_file", json.RawMessage(`{"path":"x","offset":1,"limit":500}`))
	}
}

func BenchmarkDispatchMegabyte(b *testing.B) {
	r, err := NewRegistry(theSeven()...)
	if err != nil {
		b.Fatal(err)
	}
	args, err := json.Marshal(writeFileIn{Path: "x", Content: strings.Repeat("sixteen bytes, \n", 1<<16)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(args)))
	for b.Loop() {
		r.Dispatch(b.Context(), Caller{}, "write_file", args)
	}
}
