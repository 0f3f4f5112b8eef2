package tools

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools/web"
)

const webExtractDoc = `Read web pages. Returns dict with "results": [{"url", "title", "content", "error"}, …], in the order of urls.
The content is the main text of a page as Markdown (of a PDF, JSON or plain text: its text). A page that failed has an "error" and no content; the others are unaffected. Only public http:// and https:// addresses are fetched.`

// maxExtractURLs is how many addresses one call may name at all. Those after
// the first web.MaxURLs are answered, not fetched.
const maxExtractURLs = 100

// maxExtractScript bounds what a script gets of all pages together, in
// characters.
const maxExtractScript = 10 << 20

type webExtractArgs struct {
	URLs []string `json:"urls" doc:"Addresses to read, 5 at most" maxitems:"5" required:"true"`
}

// webExtractResult is what web_extract returns: results, or why there are none.
type webExtractResult struct {
	Success *bool       `json:"success,omitempty"` // false, when the whole call was refused
	Results []webResult `json:"results,omitempty"`
	Error   string      `json:"error,omitempty"`
}

type webResult struct {
	URL     string       `json:"url"`
	Title   string       `json:"title"`
	Content string       `json:"content"`
	Error   *string      `json:"error"`
	Blocked *web.Blocked `json:"blocked_by_policy,omitempty"`
}

func (w *webSession) extract(ctx context.Context, caller registry.Caller, in webExtractArgs) (webExtractResult, error) {
	if w.box == nil {
		return webExtractResult{}, ErrNoSandbox
	}
	refused := new(bool)
	if len(in.URLs) > maxExtractURLs {
		return webExtractResult{Success: refused, Error: fmt.Sprintf("web_extract takes at most %d URLs, got %d.", web.MaxURLs, len(in.URLs))}, nil
	}
	pages, err := w.client.Extract(ctx, in.URLs)
	if err != nil {
		return webExtractResult{Success: refused, Error: err.Error()}, nil
	}
	if len(pages) == 0 {
		return webExtractResult{Error: "Content was inaccessible or not found"}, nil
	}
	budget, note := w.cfg.MaxReadChars, "\n\n[Content truncated: %d of %d characters shown. A script gets all of it.]"
	if caller.IsScript() {
		budget, note = maxExtractScript, "\n\n[Content truncated: %d of %d characters. Read fewer pages at once.]"
	}
	shares := fairShares(len(pages), budget, func(i int) int { return runes(pages[i].Content) })
	results := make([]webResult, len(pages))
	for i, p := range pages {
		r := webResult{URL: p.URL, Title: p.Title, Content: p.Content}
		if p.Err != nil {
			text := p.Err.Error()
			r.Error = &text
			errors.As(p.Err, &r.Blocked)
		} else if whole := runes(p.Content); whole > shares[i] {
			r.Content = cutRunes(p.Content, shares[i]) + fmt.Sprintf(note, shares[i], whole)
		}
		results[i] = r
	}
	return webExtractResult{Results: results}, nil
}

func runes(s string) int { return utf8.RuneCountInString(s) }

// fairShares divides a budget among n parts of given sizes: a part that needs
// less than its share leaves the rest to the others.
func fairShares(n, budget int, size func(int) int) []int {
	shares := make([]int, n)
	for open := n; open > 0; {
		share, settled := budget/open, 0
		for i := range shares {
			if s := size(i); shares[i] == 0 && s <= share {
				shares[i], budget, settled = max(s, 1), budget-s, settled+1
			}
		}
		if settled == 0 {
			for i := range shares {
				if shares[i] == 0 {
					shares[i] = share
				}
			}
			break
		}
		open -= settled
	}
	return shares
}
