package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestFetch(t *testing.T) {
	page := "<html><head><title>A  page</title></head><body><nav>menu</nav><h1>Head</h1><p>Text with a <a href='/b'>link</a>.</p></body></html>"
	pdf := "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R/Resources<</Font<</F<</Subtype/Type1>>>>>>>>endobj\n" +
		"2 0 obj<<>>stream\nBT /F 12 Tf (In a PDF) Tj ET\nendstream endobj\ntrailer<</Root 9 0 R/Info<</Title(Paper)>>>>\n"
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/html":
			if r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" || !strings.Contains(r.UserAgent(), "hermes-exec") {
				t.Errorf("headers: %v", r.Header)
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, page)
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"a": [1, 2]}`)
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "plain <b>text</b>\n")
		case "/sniff":
			w.Header().Set("Content-Type", "application/octet-stream")
			io.WriteString(w, page)
		case "/png":
			w.Header().Set("Content-Type", "image/png")
			io.WriteString(w, "\x89PNG\r\n\x1a\n")
		case "/pdf":
			w.Header().Set("Content-Type", "application/pdf")
			io.WriteString(w, pdf)
		case "/pdf-untold":
			io.WriteString(w, pdf)
		case "/pdf-broken":
			w.Header().Set("Content-Type", "application/pdf")
			io.WriteString(w, "%PDF-1.4\nnothing")
		case "/pdf-locked":
			w.Header().Set("Content-Type", "application/pdf")
			io.WriteString(w, pdf+"trailer<</Encrypt 9 0 R>>")
		case "/pdf-empty":
			w.Header().Set("Content-Type", "application/pdf")
			io.WriteString(w, strings.ReplaceAll(pdf, " Tj", " no"))
		case "/zip":
			w.Header().Set("Content-Type", "application/octet-stream")
			io.WriteString(w, "PK\x03\x04aaaaaaaaaaaaaa")
		case "/lie":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "\x7fELF\x02\x01\x00\x00\x00")
		case "/empty":
			w.Header().Set("Content-Type", "text/html")
		case "/missing":
			http.Error(w, "nothing", http.StatusNotFound)
		case "/r1":
			http.Redirect(w, r, "/r2", http.StatusFound)
		case "/r2":
			http.Redirect(w, r, "/html", http.StatusMovedPermanently)
		}
	})
	c := client(t, Config{}, s)
	markdown := "# Head\n\nText with a [link](" + at(s, "/b") + ")."
	for path, want := range map[string]Page{
		"/html":       {Title: "A page", Content: markdown},
		"/json":       {Content: `{"a": [1, 2]}`},
		"/text":       {Content: "plain <b>text</b>\n"},
		"/sniff":      {Title: "A page", Content: markdown},
		"/r1":         {Title: "A page", Content: markdown},
		"/pdf":        {Title: "Paper", Content: "In a PDF"},
		"/pdf-untold": {Title: "Paper", Content: "In a PDF"},
		"/pdf-broken": {Err: problem("The PDF is damaged: it cannot be read")},
		"/pdf-locked": {Err: problem("The PDF is encrypted: its text cannot be read")},
		"/pdf-empty":  {Err: problem("The PDF holds no text: it may be made of pictures of pages")},
		"/png":        {Err: problem("Unsupported content type: image/png")},
		"/zip":        {Err: problem("Unsupported content type: application/zip")},
		"/lie":        {Err: problem("Unsupported content type: binary data that is served as text/plain")},
		"/empty":      {Err: problem("Content was inaccessible or not found")},
		"/missing":    {Err: problem("HTTP 404 Not Found")},
	} {
		want.URL = at(s, path)
		if got := one(t, c, want.URL); got != want {
			t.Errorf("%s:\n got %+v\nwant %+v", path, got, want)
		}
	}
}

// Pages come back in the order they were asked for, and what is too many or
// refused says so in its place.
func TestExtractKeepsOrder(t *testing.T) {
	var open, most atomic.Int32
	gate := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if n := open.Add(1); n == 4 {
			close(gate) // every fetch is under way: they run side by side
		} else {
			most.Store(max(most.Load(), n))
		}
		<-gate
		fmt.Fprintf(w, "page %s", r.URL.Path)
	})
	c := client(t, Config{}, s)
	pages, err := c.Extract(t.Context(), []string{at(s, "/1"), at(s, "/2"), "http://127.0.0.1/x", at(s, "/4"), at(s, "/5"), at(s, "/6"), "::"})
	if err != nil {
		t.Fatal(err)
	}
	tooMany := "Not fetched: one call takes at most 5 URLs"
	for i, want := range []string{"page /1", "page /2", private, "page /4", "page /5", tooMany, tooMany} {
		if got := pages[i].Content + reasonOf(pages[i]); got != want {
			t.Errorf("%d: got %q, want %q", i, got, want)
		}
	}
}

func TestNothingPrivateIsDialled(t *testing.T) {
	var hits atomic.Int32
	s := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	c := client(t, Config{}, s)
	c.exempt = nil
	c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{
		"loop.test": {"127.0.0.1"}, "lan.test": {"10.1.2.3"}, "meta.test": {"169.254.169.254"}, "both.test": {"10.0.0.1,127.0.0.1"}, "zero.test": {"0.0.0.0"},
	})}
	for _, host := range []string{"loop.test", "lan.test", "meta.test", "both.test", "zero.test"} {
		if got := reasonOf(one(t, c, "http://"+host+port+"/")); got != private {
			t.Errorf("%s: %q", host, got)
		}
	}
	if got := reasonOf(one(t, c, "http://gone.test"+port+"/")); got != "Could not resolve host: gone.test" {
		t.Errorf("an unknown host: %q", got)
	}
	if hits.Load() > 0 {
		t.Error("a private server was reached")
	}
	// The same server, with private networks open: the twin of the above.
	open := client(t, Config{AllowPrivate: true})
	open.exempt, open.resolver = nil, c.resolver
	if got := reasonOf(one(t, open, s.URL+"/")); got != "Content was inaccessible or not found" || hits.Load() != 1 {
		t.Errorf("an opened server: %q, %d requests", got, hits.Load())
	}
	if got := reasonOf(one(t, open, "http://meta.test/")); got != private {
		t.Errorf("the metadata service: %q", got)
	}
}

// The reference resolves a name, finds it public, and connects by name: the
// second answer can be another. Here the address that is dialled is the one
// that is judged, on each redirect anew.
func TestNoRebinding(t *testing.T) {
	inner := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the secret") })
	outer := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://turn.test"+inner.URL[strings.LastIndexByte(inner.URL, ':'):]+"/", http.StatusFound)
	})
	c := client(t, Config{}, outer)
	c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"turn.test": {"127.0.0.1", "127.0.0.1"}})}
	got := one(t, c, "http://turn.test"+outer.URL[strings.LastIndexByte(outer.URL, ':'):]+"/")
	if reasonOf(got) != private || got.Content != "" {
		t.Errorf("got %+v", got)
	}
}

func TestRedirects(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		to := map[string]string{
			"/meta": "http://169.254.169.254/latest", "/loop": "/loop", "/file": "file:///etc/passwd", "/ftp": "ftp://example.com/",
			"/user": "http://u:p@site.test/", "/num": "http://2130706433/", "/blocked": "http://sub.bad.test/x", "/port": "http://example.com:22/",
			"/six": "/5", "/5": "/4", "/4": "/3", "/3": "/2", "/2": "/1", "/1": "/0", "/bare": "",
		}[r.URL.Path]
		if r.Header.Get("Referer") != "" {
			t.Errorf("a redirect told where it came from: %q", r.Header.Get("Referer"))
		}
		if r.URL.Path == "/0" {
			io.WriteString(w, "end")
			return
		}
		if to != "" {
			w.Header().Set("Location", to)
		}
		w.WriteHeader(http.StatusFound)
	})
	c := client(t, Config{Blocklist: Blocklist{Enabled: true, Domains: []string{"bad.test"}}}, s)
	for path, want := range map[string]string{
		"/meta": private, "/loop": "Too many redirects: more than 5", "/six": "Too many redirects: more than 5",
		"/file": "Invalid URL: only http:// and https:// addresses can be fetched", "/ftp": "Invalid URL: only http:// and https:// addresses can be fetched",
		"/user": "Invalid URL: it must not contain a user name or a password", "/num": private, "/port": "Blocked: port 22 does not belong to a web server",
		"/blocked": "Blocked by website policy: 'sub.bad.test' matched rule 'bad.test' from config",
		"/5":       "", "/bare": "HTTP 302 Found",
	} {
		got := one(t, c, at(s, path))
		if reasonOf(got) != want || want == "" && got.Content != "end" {
			t.Errorf("%s: %+v", path, got)
		}
		var b *Blocked
		if errors.As(got.Err, &b) != (path == "/blocked") {
			t.Errorf("%s: blocked by policy: %v", path, b)
		}
	}
}

func TestHostileServers(t *testing.T) {
	gone := make(chan struct{})
	defer close(gone)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		flush := http.NewResponseController(w).Flush
		w.Header().Set("Content-Type", "text/plain")
		switch r.URL.Path {
		case "/drip":
			for {
				io.WriteString(w, "x")
				flush()
				select {
				case <-r.Context().Done():
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		case "/silent":
			<-r.Context().Done()
		case "/endless":
			line := bytes.Repeat([]byte("endless "), 8<<10)
			for r.Context().Err() == nil {
				if _, err := w.Write(line); err != nil {
					return
				}
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			zeros := bytes.Repeat([]byte("0"), 1<<20)
			for range 1 << 10 { // a gigabyte, should anybody want it
				if _, err := z.Write(zeros); err != nil {
					return
				}
			}
			z.Close()
		case "/badgzip":
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, "this is not gzip")
		case "/short":
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, "short")
			flush()
			conn, _, _ := http.NewResponseController(w).Hijack()
			if conn != nil {
				conn.Close()
			}
		case "/headers":
			for i := range 1000 {
				w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("h", 1000))
			}
			io.WriteString(w, "ok")
		}
	})
	c := client(t, Config{}, s)
	for path, want := range map[string]string{
		"/short": "The connection ended before the whole page had arrived", "/badgzip": "Fetch failed: gzip: invalid header",
	} {
		if got := reasonOf(one(t, c, at(s, path))); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := reasonOf(one(t, c, at(s, "/headers"))); !strings.Contains(got, "exceeded") {
		t.Errorf("/headers: %q", got)
	}
	for path, start := range map[string]string{"/endless": "endless ", "/bomb": "0000"} {
		got := one(t, c, at(s, path))
		if len(got.Content) != maxBody+len(notWhole) || !strings.HasPrefix(got.Content, start) || !strings.HasSuffix(got.Content, notWhole) {
			t.Errorf("%s: %d bytes, %v", path, len(got.Content), got.Err)
		}
	}
	c.pageTime = 200 * time.Millisecond
	for _, path := range []string{"/drip", "/silent"} {
		if got := reasonOf(one(t, c, at(s, path))); got != "Timed out after 200ms" {
			t.Errorf("%s: %q", path, got)
		}
	}
	c.pageTime = time.Minute
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(errors.New("the run is over")) })
	pages, err := c.Extract(ctx, []string{at(s, "/silent"), at(s, "/drip")})
	if err != nil || reasonOf(pages[0]) != "Cancelled: the run is over" || reasonOf(pages[1]) != "Cancelled: the run is over" {
		t.Errorf("after cancelling: %v, %v", pages, err)
	}
}

func TestTLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "safe") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are what is tested
	s.StartTLS()
	defer s.Close()
	c := client(t, Config{}, s)
	c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"example.com": {"127.0.0.1"}, "site.test": {"127.0.0.1"}})}
	port := s.URL[strings.LastIndexByte(s.URL, ':'):]
	if got := one(t, c, "https://example.com"+port); got.Content != "safe" { // the name in the certificate
		t.Errorf("got %+v", got)
	}
	if got := reasonOf(one(t, c, "https://site.test"+port)); !strings.Contains(got, "certificate") {
		t.Errorf("another name: %q", got)
	}
	if got := reasonOf(one(t, c, "http://example.com"+port)); got != "HTTP 400 Bad Request" {
		t.Errorf("without TLS: %q", got)
	}
}

func TestFetchTriesAgain(t *testing.T) {
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/never", n.Add(1) < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			io.WriteString(w, "at last")
		}
	})
	c := client(t, Config{}, s)
	if got := one(t, c, at(s, "/")); got.Content != "at last" || n.Load() != 3 {
		t.Errorf("got %+v after %d tries", got, n.Load())
	}
	if got := reasonOf(one(t, c, at(s, "/never"))); got != "HTTP 503 Service Unavailable" {
		t.Errorf("got %q", got)
	}
}

// A proxy of the environment would dial for us, and judge nothing.
func TestNoProxyForPages(t *testing.T) {
	var asked atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "direct") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	c := client(t, Config{Getenv: func(name string) string {
		if name == "HTTP_PROXY" {
			return proxy.URL
		}
		return ""
	}}, s, proxy)
	if got := one(t, c, at(s, "/")); got.Content != "direct" || asked.Load() > 0 {
		t.Errorf("got %+v, the proxy was asked %d times", got, asked.Load())
	}
}
