package web

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// backend is somebody who answers searches or fetches pages.
type backend struct {
	name string
	// key and base name the variables of its key and its address; home is the
	// address without one. Either may be "".
	key, base, home string
	// keyless says that an address alone will do.
	keyless bool
	// header carries the key, behind prefix.
	header, prefix string
	search         func(context.Context, *Client, *account, string, int) ([]Hit, error)
	extract        func(context.Context, *Client, *account, []string) ([]Page, error) // nil: it cannot
}

// backends are in the order in which the environment chooses.
func backends() []backend {
	return []backend{
		{
			name: "tavily", key: "TAVILY_API_KEY", base: "TAVILY_BASE_URL", home: "https://api.tavily.com",
			header: "Authorization", prefix: "Bearer ", search: tavilySearch, extract: tavilyExtract,
		},
		{
			name: "exa", key: "EXA_API_KEY", base: "EXA_BASE_URL", home: "https://api.exa.ai",
			header: "X-Api-Key", search: exaSearch, extract: exaExtract,
		},
		{
			name: "parallel", key: "PARALLEL_API_KEY", base: "PARALLEL_BASE_URL", home: "https://api.parallel.ai",
			header: "X-Api-Key", search: parallelSearch, extract: parallelExtract,
		},
		{
			name: "firecrawl", key: "FIRECRAWL_API_KEY", base: "FIRECRAWL_API_URL", home: "https://api.firecrawl.dev", keyless: true,
			header: "Authorization", prefix: "Bearer ", search: firecrawlSearch, extract: firecrawlExtract,
		},
		{name: "searxng", base: "SEARXNG_URL", keyless: true, search: searxngSearch},
		{
			name: "brave-free", key: "BRAVE_SEARCH_API_KEY", base: "BRAVE_SEARCH_BASE_URL", home: "https://api.search.brave.com",
			header: "X-Subscription-Token", search: braveSearch,
		},
	}
}

const (
	local      = "local" // fetches from here; it cannot search
	searchMode = "PARALLEL_SEARCH_MODE"
)

// EnvNames are the variables this package reads keys, addresses and modes
// from. No script may see them.
func EnvNames() []string {
	names := []string{searchMode}
	for _, b := range backends() {
		for _, name := range []string{b.key, b.base} {
			if name != "" {
				names = append(names, name)
			}
		}
	}
	return names
}

// account is a backend with what it takes to ask it.
type account struct {
	backend
	url *url.URL // where it is
	own bool     // not at its makers' address: it may stand in the user's network
	tok string   // its key
}

// searcher chooses who searches.
func (c *Client) searcher() (*account, error) {
	b, setting, err := c.named("web.search_backend", c.searchBackend)
	switch {
	case err != nil:
		return nil, err
	case b.name == local:
		return nil, problem(fmt.Sprintf("`%s` is an extract-only backend and cannot search. Set web.search_backend to tavily, exa, parallel, firecrawl, searxng, or brave-free.", local))
	case b.name != "":
		return c.account(b, setting)
	}
	for _, b := range backends() {
		if c.configured(b) {
			return c.account(b, b.name)
		}
	}
	return nil, problem("No web search backend is configured. Set one of TAVILY_API_KEY, EXA_API_KEY, PARALLEL_API_KEY, " +
		"FIRECRAWL_API_KEY (or FIRECRAWL_API_URL), SEARXNG_URL or BRAVE_SEARCH_API_KEY in the environment or in $HERMES_HOME/.env.")
}

// extractor chooses who fetches pages; nil means this package itself.
func (c *Client) extractor() (*account, error) {
	b, setting, err := c.named("web.extract_backend", c.extractBackend)
	switch {
	case err != nil:
		return nil, err
	case b.name == local:
		return nil, nil
	case b.name != "" && b.extract == nil:
		return nil, problem(fmt.Sprintf("`%s` is a search-only backend and cannot extract URL content. Set web.extract_backend to firecrawl, tavily, exa, or parallel.", b.name))
	case b.name != "":
		return c.account(b, setting)
	}
	for _, b := range backends() {
		if b.extract != nil && c.configured(b) {
			return c.account(b, b.name)
		}
	}
	return nil, nil
}

// named is the backend that the configuration names: own is the capability's
// own setting, called setting. Without a name it is the zero backend.
func (c *Client) named(setting, own string) (backend, string, error) {
	if own == "" {
		setting, own = "web.backend", c.backend
	}
	switch own {
	case "":
		return backend{}, "", nil
	case local:
		return backend{name: local}, setting, nil
	case "brave":
		own = "brave-free"
	}
	known := []string{}
	for _, b := range backends() {
		if b.name == own {
			return b, setting, nil
		}
		known = append(known, b.name)
	}
	return backend{}, "", problem(fmt.Sprintf("%s: unknown backend %q; known are %s and %s", setting, oneLine(own), strings.Join(known, ", "), local))
}

func (c *Client) env(name string) string {
	if name == "" {
		return ""
	}
	return strings.TrimSpace(c.getenv(name))
}

// baseURL is the address that was given for a backend, "" for none.
func (c *Client) baseURL(b backend) string {
	if s := c.baseURLs[b.name]; s != "" {
		return s
	}
	return c.env(b.base)
}

func (c *Client) configured(b backend) bool {
	return c.env(b.key) != "" || b.keyless && c.baseURL(b) != ""
}

// account checks that a backend has what it needs. who is what to blame.
func (c *Client) account(b backend, who string) (*account, error) {
	a := &account{backend: b, tok: c.env(b.key)}
	if !c.configured(b) {
		need := b.key
		if need == "" {
			need = b.base
		} else if b.keyless {
			need += " or " + b.base
		}
		return nil, problem(fmt.Sprintf("%s: %s needs %s in the environment or in $HERMES_HOME/.env.", who, b.name, need))
	}
	base := c.baseURL(b)
	if a.own = base != ""; !a.own {
		base = b.home
	}
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, problem(fmt.Sprintf("%s: the address of %s (%s) is not an http:// or https:// address.", who, b.name, b.base))
	}
	if strings.ContainsAny(a.tok, "\r\n\x00") {
		return nil, problem(fmt.Sprintf("%s: %s holds a line break.", who, b.key))
	}
	a.url = u
	return a, nil
}
