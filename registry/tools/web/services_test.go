package web

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const key = "key-0123456789abcdef"

// exchange is what a service was recorded to be asked and to answer.
type exchange struct {
	backend  string
	variable string            // what turns the backend on
	request  string            // method, path and query
	header   map[string]string // what carries the key
	body     string            // of the request, as JSON
	answer   string
}

var keyed = map[string]string{"Authorization": "Bearer " + key}

func searches() []exchange {
	return []exchange{
		{"tavily", "TAVILY_API_KEY", "POST /base/search", keyed,
			`{"query":"go & rust","max_results":3,"include_raw_content":false,"include_images":false}`,
			`{"query":"go & rust","answer":null,"images":[],"results":[{"title":"One","url":"https://one.example/","content":"First.","score":0.9,"raw_content":null},{"title":"Two","url":"https://two.example/?a=b","content":"Second.","score":0.8}],"response_time":1.2}`},
		{"exa", "EXA_API_KEY", "POST /base/search", map[string]string{"X-Api-Key": key},
			`{"query":"go & rust","numResults":3,"contents":{"highlights":true}}`,
			`{"requestId":"r","results":[{"id":"https://one.example/","title":"One","url":"https://one.example/","highlights":["First."],"publishedDate":null},{"title":"Two","url":"https://two.example/?a=b","text":"Second."}],"costDollars":{"total":0.005}}`},
		{"parallel", "PARALLEL_API_KEY", "POST /base/v1beta/search", map[string]string{"X-Api-Key": key, "Parallel-Beta": "search-extract-2025-10-10"},
			`{"objective":"go & rust","search_queries":["go & rust"],"mode":"agentic","max_results":3}`,
			`{"search_id":"s","results":[{"url":"https://one.example/","title":"One","publish_date":null,"excerpts":["First."]},{"url":"https://two.example/?a=b","title":"Two","excerpts":["Second."]}],"warnings":null}`},
		{"firecrawl", "FIRECRAWL_API_KEY", "POST /base/v2/search", keyed,
			`{"query":"go & rust","limit":3}`,
			`{"success":true,"data":{"web":[{"url":"https://one.example/","title":"One","description":"First.","position":1},{"url":"https://two.example/?a=b","title":"Two","description":"Second."}]},"creditsUsed":2}`},
		{"searxng", "", "GET /base/search?format=json&pageno=1&q=go+%26+rust", nil, ``,
			`{"query":"go & rust","results":[{"title":"Two","url":"https://two.example/?a=b","content":"Second.","score":0.5,"engines":["x"]},{"title":"One","url":"https://one.example/","content":"First.","score":2.5}],"answers":[],"unresponsive_engines":[]}`},
		{"brave-free", "BRAVE_SEARCH_API_KEY", "GET /base/res/v1/web/search?count=3&q=go+%26+rust&text_decorations=false", map[string]string{"X-Subscription-Token": key}, ``,
			`{"type":"search","web":{"type":"search","results":[{"title":"One","url":"https://one.example/","description":"First."},{"title":"Two","url":"https://two.example/?a=b","description":"Second."}]}}`},
	}
}

// service is a fake that answers as recorded and checks how it was asked.
func service(t *testing.T, e exchange, steps ...http.HandlerFunc) (*Client, *atomic.Int32) {
	t.Helper()
	var asked atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		if got := r.Method + " " + r.URL.RequestURI(); got != e.request {
			t.Errorf("%s: asked %s, want %s", e.backend, got, e.request)
		}
		for name, want := range e.header {
			if got := r.Header.Get(name); got != want {
				t.Errorf("%s: %s is %q", e.backend, name, got)
			}
		}
		body, _ := io.ReadAll(r.Body)
		if !sameJSON(string(body), e.body) {
			t.Errorf("%s: body %s, want %s", e.backend, body, e.body)
		}
		if strings.Contains(r.URL.String(), key) || strings.Contains(string(body), key) {
			t.Errorf("%s: the key is in the address or the body", e.backend)
		}
		if n <= len(steps) {
			steps[n-1](w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, e.answer)
	})
	c := client(t, Config{Backend: e.backend, Getenv: env(e.variable + "=" + key), BaseURLs: map[string]string{e.backend: s.URL + "/base/"}})
	return c, &asked
}

func sameJSON(a, b string) bool {
	var x, y any
	if a == "" || b == "" {
		return a == b
	}
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	ax, _ := json.Marshal(x)
	by, _ := json.Marshal(y)
	return string(ax) == string(by)
}

func TestSearchServices(t *testing.T) {
	want := []Hit{{"One", "https://one.example/", "First.", 1}, {"Two", "https://two.example/?a=b", "Second.", 2}}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); io.WriteString(w, body) }
	}
	for _, e := range searches() {
		t.Run(e.backend, func(t *testing.T) {
			c, _ := service(t, e)
			hits, withheld, err := c.Search(t.Context(), " go & rust\n", 3)
			if err != nil || withheld != 0 || !slices.Equal(hits, want) {
				t.Errorf("got %v, %d, %v", hits, withheld, err)
			}
			said := key // what a service says of a key it does not like
			if len(e.header) == 0 {
				said = "***"
			}
			for _, f := range []struct {
				name  string
				steps []http.HandlerFunc
				want  string // of the error; "" for success
				asked int32
			}{
				{"429 then ok", []http.HandlerFunc{status(429, "{}")}, "", 2},
				{"502 twice then ok", []http.HandlerFunc{status(502, "x"), status(500, "y")}, "", 3},
				{"500 for ever", slices.Repeat([]http.HandlerFunc{status(500, `{"error":"broken"}`)}, 9), "answered HTTP 500 Internal Server Error: broken", 3},
				{"401", []http.HandlerFunc{status(401, `{"detail":{"error":"Unauthorized: `+said+` is no key"}}`)}, "answered HTTP 401 Unauthorized: Unauthorized: *** is no key", 1},
				{"400", []http.HandlerFunc{status(400, `{"error":{"message":"bad query"}}`)}, "answered HTTP 400 Bad Request: bad query", 1},
				{"402 html", []http.HandlerFunc{status(402, `<html>`+key)}, "answered HTTP 402 Payment Required", 1},
				{"redirect", []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
				}}, "answered HTTP 307, a redirect, which is not followed: set ", 1},
				{"not JSON", []http.HandlerFunc{status(200, "<html>")}, "did not answer with a JSON object.", 1},
				{"cut JSON", []http.HandlerFunc{status(200, e.answer[:len(e.answer)-1])}, "sent an answer that cannot be understood: unexpected end of JSON input", 1},
				{"two objects", []http.HandlerFunc{status(200, e.answer+"{}")}, "sent an answer that cannot be understood: invalid character '{' after top-level value", 1},
				{"a list", []http.HandlerFunc{status(200, "[]")}, "did not answer with a JSON object.", 1},
				{"empty", []http.HandlerFunc{status(200, "")}, "did not answer with a JSON object.", 1},
				{"huge", []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
					io.WriteString(w, `{"results":"`+strings.Repeat("x", maxBody)+`"}`)
				}}, "sent more than 10 MiB.", 1},
			} {
				c, asked := service(t, e, f.steps...)
				hits, _, err := c.Search(t.Context(), "go & rust", 3)
				switch {
				case f.want == "" && (err != nil || !slices.Equal(hits, want)):
					t.Errorf("%s: %v, %v", f.name, hits, err)
				case f.want != "" && (err == nil || !strings.HasPrefix(err.Error(), e.backend) || !strings.Contains(err.Error(), f.want)):
					t.Errorf("%s: %v, want %s", f.name, err, f.want)
				case err != nil && strings.Contains(err.Error(), key):
					t.Errorf("%s: the key is in %v", f.name, err)
				}
				if asked.Load() != f.asked {
					t.Errorf("%s: asked %d times", f.name, asked.Load())
				}
			}
			e := e
			e.answer = `{"results":[{"title":7}],"web":{"results":[{"title":7}]},"success":true,"data":{"web":[{"title":7}]}}`
			c, _ = service(t, e)
			if _, _, err := c.Search(t.Context(), "go & rust", 3); err == nil || !strings.Contains(err.Error(), "cannot be understood") {
				t.Errorf("a title that is a number: %v", err)
			}
		})
	}
}

func TestSearchFiltersAndBounds(t *testing.T) {
	answer := `{"results":[{"title":"a\n b","url":"https://a.example/","content":" x "},{"title":"no","url":"javascript:alert(1)"},{"title":"no","url":""},{"title":"bad","url":"https://www.bad.example/x"},{"title":"c","url":"http://c.example"},{"title":"d","url":"http://d.example"}]}`
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { body, _ = io.ReadAll(r.Body); io.WriteString(w, answer) })
	cfg := Config{Getenv: env("TAVILY_API_KEY="+key, "TAVILY_BASE_URL="+s.URL), Blocklist: Blocklist{Enabled: true, Domains: []string{"bad.example"}}}
	c := client(t, cfg)
	for limit, want := range map[int]int{0: 1, -5: 1, 2: 2, 100: 3, 1 << 40: 3} {
		hits, withheld, err := c.Search(t.Context(), "q", limit)
		if err != nil || len(hits) != want || withheld != min(1, want-1) || hits[0] != (Hit{"a b", "https://a.example/", "x", 1}) {
			t.Errorf("limit %d: %v, %d, %v", limit, hits, withheld, err)
		}
	}
	if c.Search(t.Context(), "q", 100); !strings.Contains(string(body), `"max_results":20`) {
		t.Errorf("asked for %s", body)
	}
	for query, want := range map[string]string{" \n": "The query is empty.", strings.Repeat("q", maxQuery+1): "The query is longer than 4096 bytes."} {
		if _, _, err := c.Search(t.Context(), query, 5); err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	}
	answer = `{"results":[]}`
	if hits, _, err := c.Search(t.Context(), "q", 5); err != nil || hits == nil || len(hits) != 0 {
		t.Errorf("nothing found: %v, %v", hits, err)
	}
	answer = `{}`
	if _, _, err := c.Search(t.Context(), "q", 5); err == nil || err.Error() != `tavily sent an answer without "results".` {
		t.Errorf("no list: %v", err)
	}
}

func extracts() map[string]func(urls []string) string {
	list := func(urls []string, each func(i int, u string) string) string {
		var parts []string
		for i, u := range urls {
			parts = append(parts, each(i, u))
		}
		return strings.Join(parts, ",")
	}
	return map[string]func([]string) string{
		"tavily": func(urls []string) string {
			return `{"results":[` + list(urls[:len(urls)-1], func(i int, u string) string {
				return fmt.Sprintf(`{"url":%q,"title":"T%d","raw_content":"text %d"}`, u, i, i)
			}) + fmt.Sprintf(`],"failed_results":[{"url":%q,"error":"gone, said %s"}]}`, urls[len(urls)-1], key)
		},
		"exa": func(urls []string) string {
			return `{"results":[` + list(urls[:len(urls)-1], func(i int, u string) string {
				return fmt.Sprintf(`{"id":%q,"url":%q,"title":"T%d","text":"text %d"}`, u, u, i, i)
			}) + fmt.Sprintf(`],"statuses":[{"id":%q,"status":"success"},{"id":%q,"status":"error","error":{"tag":"gone, said %s","httpStatusCode":404}}]}`, urls[0], urls[len(urls)-1], key)
		},
		"parallel": func(urls []string) string {
			return `{"extract_id":"x","results":[` + list(urls[:len(urls)-1], func(i int, u string) string {
				return fmt.Sprintf(`{"url":%q,"title":"T%d","full_content":"text %d","excerpts":null}`, u, i, i)
			}) + fmt.Sprintf(`],"errors":[{"url":%q,"error_type":"gone, said %s","http_status_code":404,"content":null}]}`, urls[len(urls)-1], key)
		},
	}
}

func TestExtractServices(t *testing.T) {
	dial := map[string][]string{"a.example": {"8.8.8.8"}, "b.example": {"8.8.4.4"}, "inner.example": {"10.0.0.1"}}
	asked := []string{"https://a.example/1", "https://inner.example/", "https://b.example/2?x=y", "http://127.0.0.1/", "https://a.example/lost"}
	check := func(t *testing.T, c *Client, name string) {
		t.Helper()
		c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, dial)}
		pages, err := c.Extract(t.Context(), asked)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"T0: text 0", private, "T1: text 1", private, "gone, said ***"}
		for i, p := range pages {
			got := reasonOf(p)
			if got == "" {
				got = p.Title + ": " + p.Content
			}
			if !strings.Contains(got, want[i]) || p.URL != asked[i] {
				t.Errorf("%s: page %d: %q, want %q", name, i, got, want[i])
			}
		}
	}
	for name, answer := range extracts() {
		t.Run(name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				var in struct{ URLs []string }
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil || len(in.URLs) != 3 {
					t.Errorf("asked for %v, %v", in.URLs, err)
				}
				io.WriteString(w, answer(in.URLs))
			})
			upper := strings.ToUpper(name)
			check(t, client(t, Config{Getenv: env(upper+"_API_KEY="+key, upper+"_BASE_URL="+s.URL)}), name)
		})
	}
	t.Run("firecrawl", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				URL     string
				Formats []string
			}
			json.NewDecoder(r.Body).Decode(&in)
			i := slices.Index([]string{asked[0], asked[2]}, in.URL)
			if r.URL.Path != "/v2/scrape" || r.Header.Get("Authorization") != "" || !slices.Equal(in.Formats, []string{"markdown"}) {
				t.Errorf("asked %s %v", r.URL, in)
			}
			if i < 0 {
				io.WriteString(w, `{"success":true,"data":{"markdown":"Not Found","metadata":{"statusCode":404,"error":"gone, said ***"}}}`)
				return
			}
			fmt.Fprintf(w, `{"success":true,"data":{"markdown":"text %d","metadata":{"title":["T%d","x"],"sourceURL":%q,"url":%q,"statusCode":200}}}`, i, i, in.URL, in.URL)
		})
		check(t, client(t, Config{Getenv: env("FIRECRAWL_API_URL=" + s.URL)}), "firecrawl")
	})
}

// The blocklist holds whoever fetches. The reference asks it for one service.
func TestBlocklistHoldsForServices(t *testing.T) {
	for name, answer := range extracts() {
		var sent []string
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			var in struct{ URLs []string }
			json.NewDecoder(r.Body).Decode(&in)
			sent = in.URLs
			io.WriteString(w, strings.ReplaceAll(answer(append(in.URLs, "https://x.example/")), "https://moved.example/", "https://www.bad.example/"))
		})
		upper := strings.ToUpper(name)
		c := client(t, Config{Getenv: env(upper+"_API_KEY="+key, upper+"_BASE_URL="+s.URL), Blocklist: Blocklist{Enabled: true, Domains: []string{"bad.example"}}})
		c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"ok.example": {"8.8.8.8"}, "a.bad.example": {"8.8.8.8"}})}
		pages, err := c.Extract(t.Context(), []string{"https://a.bad.example/", "https://ok.example/"})
		if err != nil {
			t.Fatal(err)
		}
		if got := reasonOf(pages[0]); got != "Blocked by website policy: 'a.bad.example' matched rule 'bad.example' from config" || pages[1].Content != "text 0" {
			t.Errorf("%s: %+v", name, pages)
		}
		if !slices.Equal(sent, []string{"https://ok.example/"}) {
			t.Errorf("%s was asked for %v", name, sent)
		}
	}
	// Firecrawl tells where it ended up.
	ends := map[string]string{"https://ok.example/1": "https://www.bad.example/", "https://ok.example/2": "http://10.0.0.1/", "https://ok.example/3": "https://ok.example/4"}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ URL string }
		json.NewDecoder(r.Body).Decode(&in)
		fmt.Fprintf(w, `{"success":true,"data":{"markdown":"text","metadata":{"url":%q}}}`, ends[in.URL])
	})
	c := client(t, Config{Getenv: env("FIRECRAWL_API_URL=" + s.URL), Blocklist: Blocklist{Enabled: true, Domains: []string{"bad.example"}}})
	c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"ok.example": {"8.8.8.8"}})}
	pages, err := c.Extract(t.Context(), slices.Sorted(maps.Keys(ends)))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"Blocked by website policy: 'www.bad.example' matched rule 'bad.example' from config", private, "text"} {
		if got := pages[i].Content + reasonOf(pages[i]); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
	}
}

// What another one fetches is looked at first: strictly, when that one may
// stand in the user's own network.
func TestLookBeforeAsking(t *testing.T) {
	names := map[string][]string{"ok.example": {"8.8.8.8"}, "both.example": {"8.8.8.8,10.0.0.1"}}
	for _, own := range []bool{false, true} {
		c := New(Config{})
		c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, names)}
		for host, want := range map[string]string{
			"ok.example": "", "both.example": private, "intranet": private, "db.corp": private, "nas.home.arpa": private, "printer.local": private,
			"gone.example": map[bool]string{true: "Blocked: gone.example cannot be resolved here, so it may be an internal host"}[own],
		} {
			got := ""
			if err := c.lookPrivate(t.Context(), host, own); err != nil {
				got = err.Error()
			}
			if got != want {
				t.Errorf("%s, own %v: %q, want %q", host, own, got, want)
			}
		}
	}
}

func TestServicesOfOnesOwn(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "u" || password != "hunter22" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		io.WriteString(w, `{"results":[]}`)
	})
	withUser := strings.Replace(s.URL, "http://", "http://u:hunter22@", 1)
	c := client(t, Config{Getenv: env("SEARXNG_URL=" + withUser + "/")})
	if _, _, err := c.Search(t.Context(), "q", 1); err != nil {
		t.Errorf("with a password: %v", err)
	}
	u, _ := url.Parse(withUser)
	s.Close()
	if _, _, err := c.Search(t.Context(), "q", 1); err == nil || strings.Contains(err.Error(), "hunter22") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a service that is down at %s: %v", u.Host, err)
	}
	for _, at := range []string{"http://169.254.169.254", "http://[fd00:ec2::254]", "http://[::ffff:168.63.129.16]:80"} {
		c := client(t, Config{Getenv: env("SEARXNG_URL=" + at)})
		if _, _, err := c.Search(t.Context(), "q", 1); err == nil || !strings.Contains(err.Error(), private) {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestServiceThatStalls(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := client(t, Config{Getenv: env("SEARXNG_URL=" + s.URL)})
	c.callTime = func(time.Duration) time.Duration { return 50 * time.Millisecond }
	if _, _, err := c.Search(t.Context(), "q", 1); err == nil || err.Error() != "searxng: no answer within 50ms" {
		t.Errorf("got %v", err)
	}
	later := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	c = client(t, Config{Getenv: env("SEARXNG_URL=" + later.URL)})
	if _, _, err := c.Search(t.Context(), "q", 1); err == nil || err.Error() != "searxng answered HTTP 429 Too Many Requests" {
		t.Errorf("asked to come back in an hour: %v", err)
	}
}

func TestParallelMode(t *testing.T) {
	var mu sync.Mutex
	var mode string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Mode string }
		json.NewDecoder(r.Body).Decode(&in)
		mu.Lock()
		defer mu.Unlock()
		mode = in.Mode
		io.WriteString(w, `{"results":[]}`)
	})
	for set, want := range map[string]string{"": "agentic", "FAST": "fast", "one-shot": "one-shot", "bad": ""} {
		mode = ""
		c := client(t, Config{Getenv: env("PARALLEL_API_KEY="+key, "PARALLEL_BASE_URL="+s.URL, "PARALLEL_SEARCH_MODE="+set)})
		_, _, err := c.Search(t.Context(), "q", 1)
		if mode != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", set, mode, err)
		}
	}
}
