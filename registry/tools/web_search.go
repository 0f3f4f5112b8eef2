package tools

import (
	"context"
	"fmt"
	"math"

	"github.com/hermes-exec/hermes-exec/output"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools/web"
)

// WebConfig chooses who searches and fetches, and what must not be visited.
// Where Home, ListDir and Secret are unset, webTools fills them in.
type WebConfig = web.Config

const webSearchDoc = `Search the web. Returns dict with "data": {"web": [{"title", "url", "description", "position"}, …]}, best first.
"success" is False, and "error" says why, when the search failed. Descriptions are excerpts: use web_extract to read a page.`

type webSearchArgs struct {
	Query string `json:"query" doc:"What to look for, as typed into a search engine"`
	Limit any    `json:"limit" doc:"Results wanted, 1 to 100; some services give at most 20" type:"integer" default:"5" min:"1" max:"100"`
}

// webSearchResult is what web_search returns, in this order of keys.
type webSearchResult struct {
	Success bool          `json:"success"`
	Data    *webSearchHit `json:"data,omitempty"`
	Note    string        `json:"note,omitempty"`
	Error   string        `json:"error,omitempty"`
}

type webSearchHit struct {
	Web []web.Hit `json:"web"`
}

// webTools are the tools that reach the web. They share one client, act from
// the engine's machine and keep its keys to themselves.
func webTools(s *session) []registry.Tool {
	cfg := s.cfg.Web
	if cfg.Home == "" {
		cfg.Home = s.cfg.Home
	}
	if cfg.ListDir == "" {
		cfg.ListDir = s.cfg.HermesHome
	}
	if cfg.Secret == nil {
		redactor := output.NewRedactor()
		cfg.Secret = func(text string) bool { return redactor.Redact(text) != text }
	}
	w := &webSession{session: s, client: web.New(cfg)}

	search := registry.New("web_search", "web", webSearchDoc, w.search)
	search.Emoji = "🔍"
	search.RequiresEnv = web.EnvNames()
	search.Check = func(context.Context) error { return w.client.CheckSearch() }

	extract := registry.New("web_extract", "web", webExtractDoc, w.extract)
	extract.Emoji = "📄"
	extract.RequiresEnv = web.EnvNames()
	return []registry.Tool{search, extract}
}

type webSession struct {
	*session
	client *web.Client
}

func (w *webSession) search(ctx context.Context, caller registry.Caller, in webSearchArgs) (webSearchResult, error) {
	if w.box == nil {
		return webSearchResult{}, ErrNoSandbox
	}
	hits, withheld, err := w.client.Search(ctx, in.Query, searchLimit(in.Limit))
	if err != nil {
		return webSearchResult{Error: err.Error()}, nil
	}
	if !caller.IsScript() {
		shares := fairShares(len(hits), w.cfg.MaxReadChars, func(i int) int { return runes(hits[i].Description) })
		for i := range hits {
			hits[i].Description = cutRunes(hits[i].Description, shares[i])
		}
	}
	result := webSearchResult{Success: true, Data: &webSearchHit{Web: hits}}
	if withheld > 0 {
		result.Note = fmt.Sprintf("%d results on sites that the website policy blocks were left out.", withheld)
	}
	return result, nil
}

// searchLimit is the number a caller asked for; what is none means the default.
func searchLimit(v any) int {
	n, ok := v.(float64)
	if !ok || n != math.Trunc(n) {
		return 5
	}
	return int(min(max(n, 1), 100))
}
