package web

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestBlocklistMatches(t *testing.T) {
	c := New(Config{Blocklist: Blocklist{Enabled: true, Domains: []string{
		"example.com", "*.wild.example", "https://Shop.Example.NET:8443/path", "www.site.example", "bücher.example", "  # nothing", "", "8.8.8.8", "2606:4700::1111", "dot.example.",
	}}})
	r, err := c.loadRules()
	if err != nil {
		t.Fatal(err)
	}
	for host, rule := range map[string]string{
		"example.com": "example.com", "a.example.com": "example.com", "a.b.example.com": "example.com",
		"notexample.com": "", "example.com.evil.net": "", "xexample.com": "", "com": "", "example": "",
		"wild.example": "", "a.wild.example": "*.wild.example", "a.b.wild.example": "*.wild.example", "notwild.example": "",
		"shop.example.net": "shop.example.net", "example.net": "",
		"www.site.example": "www.site.example", "site.example": "www.site.example", "a.site.example": "",
		"xn--bcher-kva.example": "xn--bcher-kva.example", "dot.example": "dot.example",
		"8.8.8.8": "8.8.8.8", "8.8.4.4": "", "1.8.8.8.8": "8.8.8.8", "2606:4700::1111": "2606:4700::1111",
	} {
		got := ""
		var b *Blocked
		if errors.As(r.check(host), &b) {
			got = b.Rule
		}
		if got != rule {
			t.Errorf("%s: blocked by %q, want %q", host, got, rule)
		}
	}
	want := "Blocked by website policy: 'a.example.com' matched rule 'example.com' from config"
	if err := r.check("a.example.com"); err.Error() != want {
		t.Errorf("got %q", err)
	}
	if r, err := New(Config{Blocklist: Blocklist{Domains: []string{"example.com", "not a domain"}}}).loadRules(); err != nil || r.check("example.com") != nil {
		t.Error("a list that is not enabled blocks")
	}
}

func TestBlocklistFiles(t *testing.T) {
	dir := t.TempDir()
	list := filepath.Join(dir, "list.txt")
	if err := os.WriteFile(list, []byte("\ufeff# head\r\n\r\nads.example # why\r\n*.track.example\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{list, "list.txt", "~/list.txt"} {
		c := New(Config{Home: dir, ListDir: dir, Blocklist: Blocklist{Enabled: true, SharedFiles: []string{name}}})
		r, err := c.loadRules()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var b *Blocked
		if !errors.As(r.check("x.ads.example"), &b) || b.Source != list {
			t.Errorf("%s: got %+v", name, b)
		}
	}
	// The reference goes on without a list it cannot read, and keeps one that
	// was once switched off switched off.
	c := New(Config{Blocklist: Blocklist{Enabled: true, SharedFiles: []string{list}}})
	if err := os.WriteFile(list, []byte("other.example\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := c.loadRules(); err != nil || r.check("other.example") == nil || r.check("ads.example") != nil {
		t.Errorf("an edit was not seen: %v %v", r, err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.txt")
	if err := os.WriteFile(bad, []byte("ok.example\nnot a domain\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, why := range map[string]string{
		filepath.Join(dir, "missing"): "no such file", dir: "not a regular file", fifo: "not a regular file", bad: "bad.txt:2: \"not a domain\" is not a domain",
	} {
		c := New(Config{Blocklist: Blocklist{Enabled: true, SharedFiles: []string{name}}})
		_, err := c.Extract(t.Context(), []string{"https://example.com/"})
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "security.website_blocklist.shared_files") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzBlocklist(f *testing.F) {
	f.Add("*.example.com # x", "a.example.com")
	f.Add("http://[::1]/", "::1")
	f.Fuzz(func(t *testing.T, entry, host string) {
		r := rules{}
		if r.add(entry, "config") != nil {
			return
		}
		_ = r.check(host)
		for rule := range r {
			if rest, ok := strings.CutPrefix(rule, "*."); ok {
				rule = "x." + rest
			}
			if r.check(rule) == nil {
				t.Fatalf("%q does not block %q", entry, rule)
			}
		}
	})
}
