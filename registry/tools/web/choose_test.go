package web

import (
	"slices"
	"strings"
	"testing"
)

func env(vars ...string) func(string) string {
	return func(name string) string {
		for _, v := range vars {
			if key, value, _ := strings.Cut(v, "="); key == name {
				return value
			}
		}
		return ""
	}
}

// One order for both capabilities. The reference has two that differ.
func TestOrderOfChoice(t *testing.T) {
	all := []string{"TAVILY_API_KEY=k", "EXA_API_KEY=k", "PARALLEL_API_KEY=k", "FIRECRAWL_API_KEY=k", "SEARXNG_URL=http://x", "BRAVE_SEARCH_API_KEY=k"}
	const (
		none       = "No web search backend is configured. Set one of TAVILY_API_KEY, EXA_API_KEY, PARALLEL_API_KEY, FIRECRAWL_API_KEY (or FIRECRAWL_API_URL), SEARXNG_URL or BRAVE_SEARCH_API_KEY in the environment or in $HERMES_HOME/.env."
		searchOnly = " is a search-only backend and cannot extract URL content. Set web.extract_backend to firecrawl, tavily, exa, or parallel."
	)
	for _, c := range []struct {
		backend, search, extract string
		env                      []string
		searcher, extractor      string
	}{
		{"", "", "", nil, none, "local"},
		{"", "", "", all, "tavily", "tavily"},
		{"", "", "", all[1:], "exa", "exa"},
		{"", "", "", all[2:], "parallel", "parallel"},
		{"", "", "", all[3:], "firecrawl", "firecrawl"},
		{"", "", "", all[4:], "searxng", "local"},
		{"", "", "", all[5:], "brave-free", "local"},
		{"", "", "", []string{"FIRECRAWL_API_URL=http://x", "TAVILY_BASE_URL=http://x"}, "firecrawl", "firecrawl"},
		{"", "", "", []string{"TAVILY_API_KEY= "}, none, "local"},
		{"exa", "", "", all, "exa", "exa"},
		{" EXA ", "", "", all, "exa", "exa"},
		{"brave", "", "", all, "brave-free", "`brave-free`" + searchOnly},
		{"brave-free", "", "", all, "brave-free", "`brave-free`" + searchOnly},
		{"searxng", "", "exa", all, "searxng", "exa"},
		{"searxng", "", "local", all, "searxng", "local"},
		{"searxng", "exa", "", all, "exa", "`searxng`" + searchOnly},
		{"local", "tavily", "", all, "tavily", "local"},
		{"local", "", "", all, "`local` is an extract-only backend and cannot search. Set web.search_backend to tavily, exa, parallel, firecrawl, searxng, or brave-free.", "local"},
		{"exa", "", "", nil, "web.backend: exa needs EXA_API_KEY in the environment or in $HERMES_HOME/.env.", "web.backend: exa needs EXA_API_KEY in the environment or in $HERMES_HOME/.env."},
		{"", "searxng", "firecrawl", nil, "web.search_backend: searxng needs SEARXNG_URL in the environment or in $HERMES_HOME/.env.",
			"web.extract_backend: firecrawl needs FIRECRAWL_API_KEY or FIRECRAWL_API_URL in the environment or in $HERMES_HOME/.env."},
		{"gogle", "", "", all, `web.backend: unknown backend "gogle"; known are tavily, exa, parallel, firecrawl, searxng, brave-free and local`, `web.backend: unknown backend "gogle"; known are tavily, exa, parallel, firecrawl, searxng, brave-free and local`},
		{"exa", "gogle", "", all, `web.search_backend: unknown backend "gogle"; known are tavily, exa, parallel, firecrawl, searxng, brave-free and local`, "exa"},
		{"", "", "", []string{"SEARXNG_URL=ftp://x"}, "searxng: the address of searxng (SEARXNG_URL) is not an http:// or https:// address.", "local"},
		{"", "", "", []string{"EXA_API_KEY=a\r\nX-Evil: 1"}, "exa: EXA_API_KEY holds a line break.", "exa: EXA_API_KEY holds a line break."},
	} {
		client := New(Config{Backend: c.backend, SearchBackend: c.search, ExtractBackend: c.extract, Getenv: env(c.env...)})
		show := func(a *account, err error) string {
			switch {
			case err != nil:
				return err.Error()
			case a == nil:
				return local
			}
			return a.name
		}
		if got := show(client.searcher()); got != c.searcher {
			t.Errorf("%+v searches with\n%s, want\n%s", c, got, c.searcher)
		}
		if got := show(client.extractor()); got != c.extractor {
			t.Errorf("%+v extracts with\n%s, want\n%s", c, got, c.extractor)
		}
		if (client.CheckSearch() == nil) == strings.Contains(c.searcher, " ") {
			t.Errorf("%+v: CheckSearch says %v", c, client.CheckSearch())
		}
	}
}

func TestEnvNames(t *testing.T) {
	names := EnvNames()
	for _, want := range []string{"TAVILY_API_KEY", "EXA_API_KEY", "PARALLEL_API_KEY", "FIRECRAWL_API_KEY", "FIRECRAWL_API_URL", "SEARXNG_URL", "BRAVE_SEARCH_API_KEY", "PARALLEL_SEARCH_MODE", "TAVILY_BASE_URL"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not declared", want)
		}
	}
	if slices.Contains(names, "") {
		t.Error("an empty name is declared")
	}
}
