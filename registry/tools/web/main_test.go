package web

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// No test leaves the machine: nothing but what a test exempts is dialled.
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		os.Unsetenv(name)
	}
	goleak.VerifyTestMain(m)
}

// serve starts a server on loopback.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// client reaches just the named servers, in spite of where they are.
func client(t *testing.T, cfg Config, servers ...*httptest.Server) *Client {
	t.Helper()
	c := New(cfg)
	open := map[netip.AddrPort]bool{}
	pool := x509.NewCertPool()
	for _, s := range servers {
		open[netip.MustParseAddrPort(s.Listener.Addr().String())] = true
		if cert := s.Certificate(); cert != nil {
			pool.AddCert(cert)
		}
	}
	c.exempt = func(to netip.AddrPort) bool { return open[to] }
	c.tls = &tls.Config{RootCAs: pool}
	c.firstWait = time.Millisecond
	c.resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, map[string][]string{"site.test": {"127.0.0.1"}})}
	return c
}

// at is a page of a server under a name that resolves to it.
func at(s *httptest.Server, path string) string {
	u, err := url.Parse(s.URL)
	if err != nil {
		panic(err)
	}
	return u.Scheme + "://site.test:" + u.Port() + path
}

// one extracts one page.
func one(t *testing.T, c *Client, raw string) Page {
	t.Helper()
	pages, err := c.Extract(t.Context(), []string{raw})
	if err != nil || len(pages) != 1 {
		t.Fatalf("%s: %v, %v", raw, pages, err)
	}
	return pages[0]
}

func reasonOf(p Page) string {
	if p.Err == nil {
		return ""
	}
	return p.Err.Error()
}
