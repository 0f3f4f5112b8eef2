package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Config says who answers and what must not be reached. The zero value is
// usable: no search, and pages fetched from here, from the public internet.
type Config struct {
	// Backend, SearchBackend and ExtractBackend name who answers; "" leaves it
	// to the environment. See the package comment for the order.
	Backend, SearchBackend, ExtractBackend string

	// Getenv looks variables up where keys and addresses of services are: in
	// the engine's environment and its .env. nil finds nothing.
	Getenv func(string) string
	// BaseURLs are addresses of services by backend name. They win over the
	// environment's.
	BaseURLs map[string]string

	// AllowPrivate opens private networks, though never metadata services.
	AllowPrivate bool
	Blocklist    Blocklist
	// Home is what "~" means in the names of blocklist files, ListDir where
	// relative ones lie.
	Home, ListDir string

	// Secret reports whether text holds a credential; nil finds none.
	Secret func(string) bool
	// Log gets what a caller need not know; nil drops it.
	Log *slog.Logger
}

// Bounds on what is fetched and how long it takes.
const (
	maxBody      = 10 << 20 // bytes of a page or an answer, unpacked
	maxHeader    = 256 << 10
	maxRedirects = 5
	MaxURLs      = 5 // of one Extract that are fetched

	dialTime   = 10 * time.Second
	lookupTime = 5 * time.Second
	pageTime   = 60 * time.Second // one page: every redirect, retry and byte
)

// Client searches and fetches. It is safe for concurrent use and holds no
// connection between calls.
type Client struct {
	backend, searchBackend, extractBackend string

	getenv       func(string) string
	baseURLs     map[string]string
	allowPrivate bool
	blocklist    Blocklist
	home         string
	listDir      string
	secret       func(string) bool
	log          *slog.Logger

	// What tests replace. exempt lets the dialler reach one address in spite
	// of its class; everything else about it stays checked.
	exempt    func(netip.AddrPort) bool
	resolver  *net.Resolver
	tls       *tls.Config
	pageTime  time.Duration
	callTime  func(time.Duration) time.Duration
	firstWait time.Duration

	parsing chan struct{} // who holds a place turns a page into text
	pages   func() *http.Client
	calls   func() *http.Client
}

// New makes a client. A mistake in cfg is reported by the call it concerns.
func New(cfg Config) *Client {
	name := func(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
	c := &Client{
		backend: name(cfg.Backend), searchBackend: name(cfg.SearchBackend), extractBackend: name(cfg.ExtractBackend),
		getenv: cfg.Getenv, baseURLs: cfg.BaseURLs, allowPrivate: cfg.AllowPrivate, blocklist: cfg.Blocklist,
		home: cfg.Home, listDir: cfg.ListDir, secret: cfg.Secret, log: cfg.Log,
		pageTime: pageTime, firstWait: 500 * time.Millisecond,
		callTime: func(d time.Duration) time.Duration { return d },
		parsing:  make(chan struct{}, 2),
	}
	if c.getenv == nil {
		c.getenv = func(string) string { return "" }
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.pages, c.calls = sync.OnceValue(c.pageClient), sync.OnceValue(c.callClient)
	return c
}

// Hit is one result of a search.
type Hit struct {
	Title       string `json:"title"`
	URL         string `json:"url"`
	Description string `json:"description"`
	Position    int    `json:"position"` // from 1
}

// Search asks the chosen backend. limit is brought into 1 to 100; a backend
// may have a lower bound of its own. withheld counts results on blocked sites.
func (c *Client) Search(ctx context.Context, query string, limit int) (hits []Hit, withheld int, err error) {
	if query = strings.TrimSpace(query); query == "" {
		return nil, 0, problem("The query is empty.")
	}
	if len(query) > maxQuery {
		return nil, 0, problem(fmt.Sprintf("The query is longer than %d bytes.", maxQuery))
	}
	who, err := c.searcher()
	if err != nil {
		return nil, 0, err
	}
	blocked, err := c.loadRules()
	if err != nil {
		return nil, 0, err
	}
	limit = min(max(limit, 1), 100)
	found, err := who.search(ctx, c, who, query, limit)
	if err != nil {
		return nil, 0, err
	}
	hits = []Hit{}
	for _, hit := range found {
		if len(hits) == limit {
			break
		}
		u, err := url.Parse(strings.TrimSpace(hit.URL))
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue
		}
		if host, err := plainHost(u.Hostname()); err == nil && blocked.check(host) != nil {
			withheld++
			continue
		}
		hits = append(hits, Hit{oneLine(hit.Title), u.String(), strings.TrimSpace(hit.Description), len(hits) + 1})
	}
	return hits, withheld, nil
}

const maxQuery = 4 << 10

// CheckSearch reports why Search cannot work, nil when it can. It asks nobody.
func (c *Client) CheckSearch() error {
	_, err := c.searcher()
	return err
}

// Page is what became of one address.
type Page struct {
	URL     string
	Title   string
	Content string // Markdown or plain text, "" when Err is set
	Err     error  // *Blocked when the blocklist forbids it
}

// Extract fetches pages, several at once, and returns as many as there are
// urls, in their order. Only the first MaxURLs are fetched; each other says so.
// The error is for what concerns the whole call.
func (c *Client) Extract(ctx context.Context, urls []string) ([]Page, error) {
	for _, raw := range urls {
		if holdsSecret(raw, c.secret) {
			return nil, ErrSecret
		}
	}
	who, err := c.extractor()
	if err != nil {
		return nil, err
	}
	blocked, err := c.loadRules()
	if err != nil {
		return nil, err
	}
	pages := make([]Page, len(urls))
	var wanted []request
	for i, raw := range urls {
		pages[i].URL = raw
		if i >= MaxURLs {
			pages[i].Err = problem(fmt.Sprintf("Not fetched: one call takes at most %d URLs", MaxURLs))
			continue
		}
		u, err := c.target(raw)
		if err == nil {
			err = blocked.check(u.Hostname())
		}
		if err != nil {
			pages[i].Err = err
			continue
		}
		wanted = append(wanted, request{u, &pages[i]})
	}
	if who == nil {
		c.fetchAll(ctx, wanted, blocked)
	} else {
		c.askFor(ctx, who, wanted, blocked)
	}
	for i := range pages {
		if p := &pages[i]; p.Err == nil && strings.TrimSpace(p.Content) == "" {
			p.Content, p.Err = "", problem("Content was inaccessible or not found")
		} else if p.Err == nil {
			p.Title, p.Content = oneLine(dropImages(p.Title)), dropImages(p.Content)
		} else {
			p.Content = ""
		}
	}
	return pages, nil
}

// request is a page on its way: where it is, and where the outcome goes.
type request struct {
	url  *url.URL
	page *Page
}

// oneLine is text without line breaks and runs of spaces, of bounded length.
func oneLine(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
	if len(s) > 1000 {
		s = strings.ToValidUTF8(s[:1000], "") + "…"
	}
	return s
}

// dropImages replaces pictures written into the text as base64: they say
// nothing to a reader and fill everything.
func dropImages(s string) string {
	const start, removed = "data:image/", "[BASE64_IMAGE_REMOVED]"
	var b strings.Builder
	for {
		at := indexFold(s, start)
		if at < 0 {
			break
		}
		end := at + len(start)
		for end < len(s) && end-at < 200 && strings.IndexByte(";,)\"' \n<>", s[end]) < 0 {
			end++
		}
		for end < len(s) && s[end] == ';' && !strings.HasPrefix(strings.ToLower(s[end:min(end+8, len(s))]), ";base64,") {
			end++
			for end < len(s) && end-at < 400 && strings.IndexByte(";,)\"' \n<>", s[end]) < 0 {
				end++
			}
		}
		if end+8 > len(s) || !strings.EqualFold(s[end:end+8], ";base64,") {
			b.WriteString(s[:end])
			s = s[end:]
			continue
		}
		end += 8
		for end < len(s) && isBase64(s[end]) {
			end++
		}
		if at > 0 && s[at-1] == '(' && end < len(s) && s[end] == ')' {
			at, end = at-1, end+1
		}
		b.WriteString(s[:at])
		b.WriteString(removed)
		s = s[end:]
	}
	if b.Len() == 0 {
		return s
	}
	b.WriteString(s)
	return b.String()
}

func isBase64(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("+/=-_%", c) >= 0
}

// indexFold finds ASCII text whatever its case; the first letter is a "d".
func indexFold(s, lower string) int {
	for from := 0; ; {
		at := strings.IndexAny(s[from:], "dD")
		if at < 0 || from+at+len(lower) > len(s) {
			return -1
		}
		from += at
		if strings.EqualFold(s[from:from+len(lower)], lower) {
			return from
		}
		from++
	}
}
