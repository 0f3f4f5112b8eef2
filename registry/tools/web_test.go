package tools

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

// webBench is a set of web tools that may reach servers of the test.
func webBench(t *testing.T, cfg WebConfig) func(caller registry.Caller, tool string, in any) string {
	t.Helper()
	b := setup(t, nil)
	reg, err := registry.NewRegistry(webTools(newSession(b.box, Config{Web: cfg}))...)
	if err != nil {
		t.Fatal(err)
	}
	return func(caller registry.Caller, tool string, in any) string {
		raw, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		answer := string(reg.Dispatch(t.Context(), caller, tool, raw))
		if !json.Valid([]byte(answer)) || strings.Contains(answer, "\n") {
			t.Fatalf("%s %s answered %q", tool, raw, answer)
		}
		return answer
	}
}

func webServer(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestWebToolDeclarations(t *testing.T) {
	reg, err := registry.NewRegistry(webTools(newSession(nil, Config{}))...)
	if err != nil {
		t.Fatal(err)
	}
	stub := registry.PythonModule("", reg.Tools())
	for name, want := range map[string]struct{ signature, schema string }{
		"web_search": {"def web_search(query: str, limit: int = 5):",
			`{"properties":{"limit":{"default":5,"maximum":100,"minimum":1,"type":"integer"},"query":{"type":"string"}},"required":["query"],"type":"object"}`},
		"web_extract": {"def web_extract(urls: list):",
			`{"properties":{"urls":{"items":{"type":"string"},"maxItems":5,"type":"array"}},"required":["urls"],"type":"object"}`},
	} {
		tool, ok := reg.Get(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		if !strings.Contains(stub, want.signature) {
			t.Errorf("the stub has no %q", want.signature)
		}
		var schema map[string]any
		if err := json.Unmarshal(tool.Schema(), &schema); err != nil {
			t.Fatal(err)
		}
		for arg, p := range schema["properties"].(map[string]any) {
			if p.(map[string]any)["description"] == "" {
				t.Errorf("%s: %s is not described", name, arg)
			}
			delete(p.(map[string]any), "description")
		}
		delete(schema, "additionalProperties")
		if got, _ := json.Marshal(schema); string(got) != want.schema {
			t.Errorf("%s: schema %s", name, got)
		}
		if !strings.Contains(tool.Summary(), "Returns dict with") || tool.Toolset != "web" {
			t.Errorf("%s: %q, %q", name, tool.Summary(), tool.Toolset)
		}
		for _, key := range []string{"TAVILY_API_KEY", "EXA_API_KEY", "PARALLEL_API_KEY", "FIRECRAWL_API_KEY", "BRAVE_SEARCH_API_KEY", "SEARXNG_URL"} {
			if !strings.Contains(" "+strings.Join(tool.RequiresEnv, " ")+" ", " "+key+" ") {
				t.Errorf("%s does not declare %s: a script could be given it", name, key)
			}
		}
		if got := string(reg.Dispatch(t.Context(), model, name, json.RawMessage(`{"query":"q","urls":["http://x"]}`))); !strings.Contains(got, "unknown field") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for name, in := range map[string]string{"web_search": `{"query":"q"}`, "web_extract": `{"urls":["http://127.0.0.1/"]}`} {
		if got := string(reg.Dispatch(t.Context(), model, name, json.RawMessage(in))); got != `{"error":"`+ErrNoSandbox.Error()+`"}` {
			t.Errorf("%s without a box: %s", name, got)
		}
	}
}

// The results the reference was seen to give.
func TestWebGolden(t *testing.T) {
	call := webBench(t, WebConfig{})
	for _, c := range []struct {
		tool, in, want string
	}{
		{"web_extract", `{"urls":["http://127.0.0.1/x"]}`, `{"results":[{"url":"http://127.0.0.1/x","title":"","content":"","error":"Blocked: URL targets a private or internal network address"}]}`},
		{"web_extract", `{"urls":"http://127.0.0.1/x"}`, `{"results":[{"url":"http://127.0.0.1/x","title":"","content":"","error":"Blocked: URL targets a private or internal network address"}]}`},
		{"web_extract", `{"urls":[]}`, `{"error":"Content was inaccessible or not found"}`},
		{"web_extract", `{"urls":["https://example.com/?k=sk-proj-Zz81mQv7Rk2Lx9Tn4Wb6"]}`, `{"success":false,"error":"Blocked: URL contains what appears to be an API key or token. Secrets must not be sent in URLs."}`},
		{"web_extract", `{"urls":["http://127.0.0.1/","https://example.com/?k=%73k-proj-Zz81mQv7Rk2Lx9Tn4Wb6"]}`, `{"success":false,"error":"Blocked: URL contains what appears to be an API key or token. Secrets must not be sent in URLs."}`},
		{"web_extract", `{"urls":["http://localhost/?q=%2B49+30+1234567"]}`, `{"results":[{"url":"http://localhost/?q=%2B49+30+1234567","title":"","content":"","error":"Blocked: URL targets a private or internal network address"}]}`},
		{"web_search", `{"query":"q"}`, `{"success":false,"error":"No web search backend is configured. Set one of TAVILY_API_KEY, EXA_API_KEY, PARALLEL_API_KEY, FIRECRAWL_API_KEY (or FIRECRAWL_API_URL), SEARXNG_URL or BRAVE_SEARCH_API_KEY in the environment or in $HERMES_HOME/.env."}`},
	} {
		var in any
		if err := json.Unmarshal([]byte(c.in), &in); err != nil {
			t.Fatal(err)
		}
		for _, caller := range []registry.Caller{model, script} {
			if got := call(caller, c.tool, in); got != c.want {
				t.Errorf("%s %s:\n got %s\nwant %s", c.tool, c.in, got, c.want)
			}
		}
	}
}

func TestWebSearch(t *testing.T) {
	var asked string
	s := webServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = string(body)
		long := strings.Repeat("ü", 150_000)
		fmt.Fprintf(w, `{"results":[{"title":"<One> & only","url":"https://one.example/","content":"short"},{"title":"Two","url":"https://two.example/","content":%q},{"title":"Bad","url":"https://x.bad.example/","content":"no"}]}`, long)
	})
	cfg := WebConfig{Getenv: func(name string) string {
		return map[string]string{"TAVILY_API_KEY": "tvly-key", "TAVILY_BASE_URL": s.URL}[name]
	}}
	cfg.Blocklist.Enabled, cfg.Blocklist.Domains = true, []string{"bad.example"}
	call := webBench(t, cfg)
	want := `{"success":true,"data":{"web":[{"title":"<One> & only","url":"https://one.example/","description":"short","position":1},{"title":"Two","url":"https://two.example/","description":"` +
		strings.Repeat("ü", 150_000) + `","position":2}]},"note":"1 results on sites that the website policy blocks were left out."}`
	if got := call(script, "web_search", args{"query": "q"}); got != want {
		t.Errorf("a script got %.300s… (%d bytes)", got, len(got))
	}
	want = strings.Replace(want, strings.Repeat("ü", 150_000), strings.Repeat("ü", 100_000-5), 1)
	if got := call(model, "web_search", args{"query": "q"}); got != want {
		t.Errorf("a model got %.300s… (%d bytes, want %d)", got, len(got), len(want))
	}
	for limit, want := range map[any]string{0: "1", -3: "1", 7: "7", 1000: "20", "6": "6", "many": "5", 2.5: "5", nil: "5", true: "5"} {
		call(script, "web_search", args{"query": "q", "limit": limit})
		if !strings.Contains(asked, `"max_results":`+want+`}`) && !strings.Contains(asked, `"max_results":`+want+`,`) {
			t.Errorf("limit %v: asked for %s", limit, asked)
		}
	}
}

func TestWebExtract(t *testing.T) {
	s := webServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch r.URL.Path {
		case "/short":
			io.WriteString(w, "<title>S</title><p>ü <a href='/x'>link</a><table><tr><th>a<th>b<tr><td>1<td>2</table>")
		case "/long":
			io.WriteString(w, "<p>"+strings.Repeat("wörd ", 50_000))
		case "/gone":
			w.WriteHeader(http.StatusGone)
		}
	})
	host := strings.TrimPrefix(s.URL, "http://")
	cfg := WebConfig{AllowPrivate: true} // the tests' servers are
	cfg.Blocklist.Enabled, cfg.Blocklist.Domains = true, []string{"*.localhost"}
	call := webBench(t, cfg)
	in := args{"urls": []string{s.URL + "/short", s.URL + "/gone", "http://a.localhost/", s.URL + "/long", s.URL + "/long", s.URL + "/short"}}
	type results struct{ Results []webResult }
	read := func(caller registry.Caller) []webResult {
		var out results
		if err := json.Unmarshal([]byte(call(caller, "web_extract", in)), &out); err != nil || len(out.Results) != 6 {
			t.Fatalf("%v, %d results", err, len(out.Results))
		}
		return out.Results
	}
	for _, caller := range []registry.Caller{model, script} {
		got := read(caller)
		if r := got[0]; r.Title != "S" || r.Content != "ü [link](http://"+host+"/x)\n\n| a | b |\n| --- | --- |\n| 1 | 2 |" || r.Error != nil || r.Blocked != nil {
			t.Errorf("%+v", r)
		}
		if r := got[1]; r.Error == nil || *r.Error != "HTTP 410 Gone" || r.Content != "" {
			t.Errorf("%+v", r)
		}
		if r := got[2]; r.Blocked == nil || r.Blocked.Rule != "*.localhost" || r.Blocked.Source != "config" || r.Blocked.Host != "a.localhost" || r.Error == nil {
			t.Errorf("%+v", r)
		}
		if r := got[5]; r.Error == nil || *r.Error != "Not fetched: one call takes at most 5 URLs" {
			t.Errorf("%+v", r)
		}
	}
	whole := strings.TrimSpace(strings.Repeat("wörd ", 50_000))
	if got := read(script); got[3].Content != whole || got[4].Content != whole {
		t.Errorf("a script got %d and %d bytes", len(got[3].Content), len(got[4].Content))
	}
	got, total := read(model), 0
	for _, r := range got {
		total += runes(r.Content)
	}
	short := runes(got[0].Content)
	note := fmt.Sprintf("\n\n[Content truncated: %d of %d characters shown. A script gets all of it.]", (100_000-short)/2, runes(whole))
	if !strings.HasSuffix(got[3].Content, note) || total > 100_000+2*len(note) || total < 100_000 {
		t.Errorf("a model got %d characters, one ends in %q", total, got[3].Content[len(got[3].Content)-100:])
	}
	if got := call(model, "web_extract", args{"urls": make([]string, 101)}); got != `{"success":false,"error":"web_extract takes at most 5 URLs, got 101."}` {
		t.Error(got)
	}
}

func TestFairShares(t *testing.T) {
	for _, c := range []struct {
		sizes, want []int
		budget      int
	}{
		{nil, []int{}, 10},
		{[]int{3, 4}, []int{3, 4}, 10},
		{[]int{20, 20}, []int{5, 5}, 10},
		{[]int{1, 20, 20}, []int{1, 4, 4}, 10},
		{[]int{100, 30, 5, 100}, []int{32, 30, 5, 32}, 100},
		{[]int{0, 9}, []int{1, 9}, 10},
	} {
		got := fairShares(len(c.sizes), c.budget, func(i int) int { return c.sizes[i] })
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v in %d: %v, want %v", c.sizes, c.budget, got, c.want)
		}
	}
}
