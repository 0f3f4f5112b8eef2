package tools

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

// Whatever a command prints and however it is called, the answer is one JSON
// object. The command itself is fixed: a fuzzer must not choose what is run.
func FuzzTerminalAnswer(f *testing.F) {
	f.Add([]byte("plain\n"), "", 5, 0, true)
	f.Add([]byte("\xff\x00\x1b[31m\u2028\r"), "sub\xff", 0, 3, false)
	f.Add([]byte("hx-\nexport -p\n"), "/nowhere", 1<<40, 255, true)
	b := setup(f, nil)
	f.Fuzz(func(t *testing.T, output []byte, workdir string, timeout, code int, asScript bool) {
		b.t = t
		if err := os.WriteFile(b.dir+"/out", output, 0o600); err != nil {
			t.Fatal(err)
		}
		caller := registry.Caller{Kind: registry.Model}
		if asScript {
			caller.Kind = registry.Script
		}
		in := args{"command": "cat " + b.dir + "/out; exit " + string(rune('0'+uint(code)%10)), "timeout": timeout}
		if workdir != "" {
			in["workdir"] = workdir
		}
		got := b.call(caller, "terminal", in)
		if got["error"] == nil && got["output"] == nil {
			t.Errorf("neither output nor error: %v", got)
		}
	})
}

// Whatever a search service answers, the tool's answer is one JSON object.
func FuzzWebSearchAnswer(f *testing.F) {
	f.Add([]byte(`{"results":[{"title":"t","url":"https://example.com","content":"c"}]}`), "query", 5, 200)
	f.Add([]byte("{\"results\":[{\"title\":\"\xff\u2028\",\"url\":1}]}"), "", -1, 500)
	f.Add([]byte(`[[[[`), "q\x00", 1000, 429)
	var body atomic.Pointer[[]byte]
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(*body.Load())
	}))
	defer server.Close()
	reg, err := registry.NewRegistry(webTools(newSession(setup(f, nil).box, Config{Web: WebConfig{
		Backend: "searxng", BaseURLs: map[string]string{"searxng": server.URL},
	}}))...)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer []byte, query string, limit, code int) {
		body.Store(&answer)
		status.Store(int64([]int{200, 400, 401, 404}[uint(code)%4])) // those that are not tried again
		raw, err := json.Marshal(args{"query": query, "limit": limit})
		if err != nil {
			t.Skip()
		}
		if got := reg.Dispatch(t.Context(), registry.Caller{}, "web_search", raw); !json.Valid(got) {
			t.Errorf("%q", got)
		}
	})
}

// Whatever a page holds and claims to be, the tool's answer is one JSON object.
func FuzzWebExtractAnswer(f *testing.F) {
	f.Add([]byte("<title>t</title><p>hello <b>there</b>"), "text/html; charset=utf-8", 200, true)
	f.Add([]byte("\xff\xfe<\x00"), "text/html", 200, false)
	f.Add([]byte("%PDF-1.4\n1 0 obj"), "application/pdf", 200, true)
	f.Add([]byte(`{"a":"\ud800"}`), "application/json", 404, false)
	var body atomic.Pointer[[]byte]
	var kind atomic.Pointer[string]
	var status atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", *kind.Load())
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write(*body.Load())
	}))
	defer server.Close()
	reg, err := registry.NewRegistry(webTools(newSession(setup(f, nil).box, Config{Web: WebConfig{AllowPrivate: true}}))...)
	if err != nil {
		f.Fatal(err)
	}
	in := json.RawMessage(`{"urls":["` + server.URL + `/page"]}`)
	f.Fuzz(func(t *testing.T, page []byte, contentType string, code int, asScript bool) {
		body.Store(&page)
		kind.Store(&contentType)
		status.Store(int64([]int{200, 203, 400, 404}[uint(code)%4]))
		caller := registry.Caller{}
		if asScript {
			caller.Kind = registry.Script
		}
		var got struct{ Results []map[string]any }
		answer := reg.Dispatch(t.Context(), caller, "web_extract", in)
		if err := json.Unmarshal(answer, &got); err != nil || len(got.Results) != 1 {
			t.Errorf("%v: %q", err, answer)
		}
	})
}
