package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// pageClient fetches pages. The address is judged when it is dialled, which is
// after the last DNS answer: there is no gap for another one. Connections are
// not kept, so every hop is judged.
func (c *Client) pageClient() *http.Client {
	d := net.Dialer{Timeout: dialTime, Resolver: c.resolver, ControlContext: c.control(c.admitAddress)}
	return &http.Client{Transport: &http.Transport{
		Proxy: nil, DialContext: d.DialContext, TLSClientConfig: c.tls, DisableKeepAlives: true,
		TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: 30 * time.Second, MaxResponseHeaderBytes: maxHeader,
	}}
}

// callClient talks to services. Their addresses are the user's word, so private
// ones are fine; redirects are not, for they would carry the key elsewhere.
func (c *Client) callClient() *http.Client {
	d := net.Dialer{Timeout: dialTime, Resolver: c.resolver, ControlContext: c.control(func(ip netip.Addr) error {
		if class, _ := classOf(ip); class == "metadata service" {
			return ErrPrivate
		}
		return nil
	})}
	env := func(name string) string {
		if v := c.getenv(name); v != "" {
			return v
		}
		return c.getenv(strings.ToLower(name))
	}
	proxy := (&httpproxy.Config{HTTPProxy: env("HTTP_PROXY"), HTTPSProxy: env("HTTPS_PROXY"), NoProxy: env("NO_PROXY")}).ProxyFunc()
	return &http.Client{
		Transport: &http.Transport{
			Proxy:       func(r *http.Request) (*url.URL, error) { return proxy(r.URL) },
			DialContext: d.DialContext, TLSClientConfig: c.tls, DisableKeepAlives: true,
			TLSHandshakeTimeout: dialTime, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// control turns a judgement into the dialler's last word.
func (c *Client) control(admit func(netip.Addr) error) func(context.Context, string, string, syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			return ErrPrivate // nothing that could be judged
		}
		if c.exempt != nil && c.exempt(to) {
			return nil
		}
		if err := admit(to.Addr()); err != nil {
			class, _ := classOf(to.Addr())
			c.log.Warn("web: connection refused", "address", to.String(), "class", class)
			return err
		}
		return nil
	}
}

// lookPrivate resolves a host that somebody else will fetch, and refuses it
// when any of its addresses is private. A host that cannot be resolved here
// passes only when strict is not set.
func (c *Client) lookPrivate(ctx context.Context, host string, strict bool) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil // judged by its text
	}
	if !c.allowPrivate && internalName(host) {
		return ErrPrivate
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lookupTime, errSlow)
	defer cancel()
	resolver := c.resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	ips, err := resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		if strict {
			return problem("Blocked: " + host + " cannot be resolved here, so it may be an internal host")
		}
		return nil
	}
	for _, ip := range ips {
		if err := c.admitAddress(ip); err != nil {
			return err
		}
	}
	return nil
}

// internalName knows names that mean something in private networks only.
func internalName(host string) bool {
	dot := strings.LastIndexByte(host, '.')
	switch host[dot+1:] {
	case "local", "internal", "intranet", "lan", "corp", "home", "private", "localdomain":
		return true
	}
	return dot < 0 || strings.HasSuffix(host, ".home.arpa")
}

var errSlow = errors.New("it took too long")
