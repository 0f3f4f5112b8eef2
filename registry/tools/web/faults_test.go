package web

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hermes-exec/hermes-exec/config"
)

// The reference's faults of web tools, by their numbers: wrong is what it
// answered or did. 50 has more in TestBlocklistHoldsForServices, 51 in
// TestNoRebinding and TestLookBeforeAsking.

// 49: search and extraction chose among the services in two orders.
func TestFault49OneOrder(t *testing.T) {
	services := []string{"TAVILY", "EXA", "PARALLEL", "FIRECRAWL"}
	for mask := range 1 << len(services) {
		var vars []string
		wrong := "" // what the reverse order would choose
		for i, name := range services {
			if mask>>i&1 == 1 {
				vars = append(vars, name+"_API_KEY=k")
				wrong = strings.ToLower(name)
			}
		}
		c := New(Config{Getenv: env(vars...)})
		search, serr := c.searcher()
		extract, eerr := c.extractor()
		switch {
		case len(vars) == 0:
			if serr == nil || eerr != nil || extract != nil {
				t.Errorf("without a key: %v, %v", search, extract)
			}
		case serr != nil || eerr != nil:
			t.Errorf("%v: %v, %v", vars, serr, eerr)
		case search.name != extract.name || len(vars) > 1 && search.name == wrong:
			t.Errorf("%v: %s searches, %s extracts", vars, search.name, extract.name)
		}
	}
}

// 49: a setting that is there without a value raised an error within, and both
// tools were gone.
func TestFault49ANullSettingIsNone(t *testing.T) {
	for _, text := range []string{"web: {backend: null}\n", "web: {backend: , search_backend: ~, extract_backend: null}\n", "web:\n"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		loaded, err := config.Load(config.Options{Home: dir, Environ: []string{}})
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		c := New(Config{Backend: loaded.Web.Backend, SearchBackend: loaded.Web.SearchBackend, ExtractBackend: loaded.Web.ExtractBackend, Getenv: env("EXA_API_KEY=k")})
		for what, choose := range map[string]func() (*account, error){"search": c.searcher, "extract": c.extractor} {
			if who, err := choose(); err != nil || who == nil || who.name != "exa" { // wrong: nobody
				t.Errorf("%q: %s: %v, %v", text, what, who, err)
			}
		}
	}
}

// 50: a blocklist that was once found switched off stayed off, for the whole
// process and for ever.
func TestFault50ABlocklistIsNeverForgotten(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
	list := filepath.Join(t.TempDir(), "list.txt")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(list, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	const wrong = "the page"
	off := client(t, Config{Blocklist: Blocklist{Domains: []string{"site.test"}}}, s)
	if got := one(t, off, at(s, "/")); got.Content != wrong {
		t.Fatalf("switched off: %+v", got)
	}
	on := client(t, Config{Blocklist: Blocklist{Enabled: true, SharedFiles: []string{list}}}, s)
	for i, text := range []string{"site.test\n", "# nothing\n", "*.test\n", "other.test\n", "site.test\n"} {
		write(text)
		got := one(t, on, at(s, "/"))
		blocked := strings.Contains(text, "*.test") || strings.Contains(text, "site.test")
		if blocked && (got.Content == wrong || !strings.HasPrefix(reasonOf(got), "Blocked by website policy: 'site.test'")) || !blocked && got.Content != wrong {
			t.Errorf("step %d, %q: %+v", i, text, got)
		}
	}
	if err := os.Remove(list); err != nil {
		t.Fatal(err)
	}
	if pages, err := on.Extract(t.Context(), []string{at(s, "/")}); err == nil || pages != nil {
		t.Errorf("a list that cannot be read: %+v, %v", pages, err)
	}
}

// 50: one service alone was held to the blocklist. Every one is, in what it is
// asked for and in what it finds.
func TestFault50EveryServiceIsHeldToTheBlocklist(t *testing.T) {
	for _, e := range searches() {
		t.Run(e.backend, func(t *testing.T) {
			c, _ := service(t, e)
			c.blocklist = Blocklist{Enabled: true, Domains: []string{"one.example"}}
			hits, withheld, err := c.Search(t.Context(), "go & rust", 3)
			if err != nil || withheld != 1 || len(hits) != 1 || hits[0].URL != "https://two.example/?a=b" { // wrong: two
				t.Errorf("found %v, %d withheld, %v", hits, withheld, err)
			}
		})
	}
	for _, b := range backends() {
		if b.extract == nil {
			continue
		}
		t.Run(b.name+" pages", func(t *testing.T) {
			var asked atomic.Int64
			s := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
			c := client(t, Config{
				Backend: b.name, Getenv: env(b.key + "=" + key), BaseURLs: map[string]string{b.name: s.URL},
				Blocklist: Blocklist{Enabled: true, Domains: []string{"bad.example"}},
			})
			if got := one(t, c, "https://www.bad.example/"); asked.Load() != 0 || !strings.HasPrefix(reasonOf(got), "Blocked by website policy") {
				t.Errorf("asked %d times, got %+v", asked.Load(), got)
			}
		})
	}
}

// 51: a name was looked up twice, once for the judge and once for the caller.
func TestFault51OneLookupOneAddress(t *testing.T) {
	inner := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the secret") })
	port := inner.URL[strings.LastIndexByte(inner.URL, ':'):]
	const wrong = "the secret"
	for name, answers := range map[string][]string{
		"private at once":   {"127.0.0.1"},
		"private among":     {"192.0.2.1,127.0.0.1"},
		"private at second": {"192.0.2.1", "127.0.0.1"},
	} {
		c := client(t, Config{})
		var dialled atomic.Int64
		c.exempt = func(to netip.AddrPort) bool {
			dialled.Add(1)
			return false
		}
		c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"turn.test": answers})}
		for range 2 { // the second visit sees the second answer
			got := one(t, c, "http://turn.test"+port+"/")
			if got.Content == wrong || reasonOf(got) != private {
				t.Errorf("%s: %+v", name, got)
			}
		}
		if dialled.Load() < 2 {
			t.Errorf("%s: %d addresses were judged when they were dialled", name, dialled.Load())
		}
	}
}
