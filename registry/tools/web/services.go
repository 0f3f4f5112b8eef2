package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// missing is the answer that lacks what it is about.
func missing(a *account, field string) error {
	return problem(fmt.Sprintf("%s sent an answer without %q.", a.name, field))
}

// failure is a service's word on a page it did not get.
func failure(a *account, parts ...string) error {
	text := "Content was inaccessible or not found"
	if why := oneLine(strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")); why != "" {
		text = a.name + " could not fetch it: " + a.scrub(why)
	}
	return problem(text)
}

// hitsOf turns what a service found into hits.
func hitsOf[R any](found []R, hit func(R) Hit) []Hit {
	hits := make([]Hit, len(found))
	for i, r := range found {
		hits[i] = hit(r)
	}
	return hits
}

type tavilyResult struct {
	Title, URL, Content string
	Raw                 string `json:"raw_content"`
}

func tavilySearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out results[tavilyResult]
	err := c.askResults(ctx, a, call{path: "search", body: map[string]any{
		"query": query, "max_results": min(limit, 20), "include_raw_content": false, "include_images": false,
	}}, &out)
	if err != nil {
		return nil, err
	}
	return hitsOf(*out.Results, func(r tavilyResult) Hit { return Hit{Title: r.Title, URL: r.URL, Description: r.Content} }), nil
}

func tavilyExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		results[tavilyResult]
		Failed []struct{ URL, Error string } `json:"failed_results"`
	}
	err := c.askResults(ctx, a, call{path: "extract", body: map[string]any{
		"urls": urls, "include_images": false, "format": "markdown",
	}}, &out)
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		found = append(found, Page{URL: r.URL, Title: r.Title, Content: cmp.Or(r.Raw, r.Content)})
	}
	for _, f := range out.Failed {
		found = append(found, Page{URL: f.URL, Err: failure(a, f.Error)})
	}
	return place(urls, found), nil
}

type exaResult struct {
	ID, Title, URL, Text string
	Highlights           []string
}

func exaSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out results[exaResult]
	err := c.askResults(ctx, a, call{path: "search", body: map[string]any{
		"query": query, "numResults": limit, "contents": map[string]any{"highlights": true},
	}}, &out)
	if err != nil {
		return nil, err
	}
	return hitsOf(*out.Results, func(r exaResult) Hit {
		return Hit{Title: r.Title, URL: r.URL, Description: cmp.Or(strings.Join(r.Highlights, " "), r.Text)}
	}), nil
}

func exaExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		results[exaResult]
		Statuses []struct {
			ID, Status string
			Error      struct {
				Tag  string
				Code int `json:"httpStatusCode"`
			}
		}
	}
	err := c.askResults(ctx, a, call{path: "contents", body: map[string]any{"urls": urls, "text": true}}, &out)
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		p := Page{URL: r.URL, Title: r.Title, Content: r.Text}
		if slices.Contains(urls, r.ID) { // asked for under this name
			p.URL = r.ID
		}
		found = append(found, p)
	}
	for _, s := range out.Statuses {
		if s.Status == "error" {
			code := ""
			if s.Error.Code != 0 {
				code = "HTTP " + strconv.Itoa(s.Error.Code)
			}
			found = append(found, Page{URL: s.ID, Err: failure(a, s.Error.Tag, code)})
		}
	}
	return place(urls, found), nil
}

// parallelHeader names the version of the interface that the requests are for.
func parallelHeader() map[string]string {
	return map[string]string{"Parallel-Beta": "search-extract-2025-10-10"}
}

type parallelResult struct {
	Title, URL string
	Full       string `json:"full_content"`
	Excerpts   []string
}

func parallelSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	mode := cmp.Or(strings.ToLower(c.env(searchMode)), "agentic")
	if !slices.Contains([]string{"agentic", "one-shot", "fast"}, mode) {
		return nil, problem(fmt.Sprintf("%s is %q; it can be agentic, one-shot or fast.", searchMode, oneLine(mode)))
	}
	var out results[parallelResult]
	err := c.askResults(ctx, a, call{path: "v1beta/search", header: parallelHeader(), body: map[string]any{
		"objective": query, "search_queries": []string{query}, "mode": mode, "max_results": min(limit, 20),
	}}, &out)
	if err != nil {
		return nil, err
	}
	return hitsOf(*out.Results, func(r parallelResult) Hit {
		return Hit{Title: r.Title, URL: r.URL, Description: strings.Join(r.Excerpts, " ")}
	}), nil
}

func parallelExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		results[parallelResult]
		Errors []struct {
			URL, Content string
			Type         string `json:"error_type"`
		}
	}
	err := c.askResults(ctx, a, call{path: "v1beta/extract", header: parallelHeader(), body: map[string]any{
		"urls": urls, "full_content": true, "excerpts": false,
	}}, &out)
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		found = append(found, Page{URL: r.URL, Title: r.Title, Content: cmp.Or(r.Full, strings.Join(r.Excerpts, "\n\n"))})
	}
	for _, e := range out.Errors {
		found = append(found, Page{URL: e.URL, Err: failure(a, e.Type, e.Content)})
	}
	return place(urls, found), nil
}

// described is a hit as several services name its parts.
type described struct{ Title, URL, Description string }

func (d described) hit() Hit { return Hit{Title: d.Title, URL: d.URL, Description: d.Description} }

func firecrawlSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Success bool
		Error   string
		Data    json.RawMessage
	}
	err := c.ask(ctx, a, call{path: "v2/search", body: map[string]any{"query": query, "limit": limit}}, &out)
	if err != nil {
		return nil, err
	}
	if !out.Success {
		return nil, problem(a.scrub(strings.TrimSpace(a.name + " failed: " + oneLine(out.Error))))
	}
	var data struct{ Web []described }
	if list := []described(nil); json.Unmarshal(out.Data, &list) == nil { // as version 1 has it
		data.Web = list
	} else if err := a.parse(out.Data, &data); err != nil {
		return nil, err
	}
	return hitsOf(data.Web, described.hit), nil
}

// firecrawlExtract asks for each page by itself, all at once.
func firecrawlExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	pages := make([]Page, len(urls))
	var all sync.WaitGroup
	for i, name := range urls {
		all.Go(func() {
			if err := c.firecrawlScrape(ctx, a, name, &pages[i]); err != nil {
				pages[i] = Page{URL: name, Err: err}
			}
		})
	}
	all.Wait()
	return pages, nil
}

func (c *Client) firecrawlScrape(ctx context.Context, a *account, name string, page *Page) error {
	var out struct {
		Success bool
		Error   string
		Data    *struct {
			Markdown string
			Metadata struct {
				Title      any // a string, or a list of them
				URL, Error string
				SourceURL  string
				StatusCode int
			}
		}
	}
	err := c.ask(ctx, a, call{path: "v2/scrape", body: map[string]any{
		"url": name, "formats": []string{"markdown"},
	}}, &out)
	switch {
	case err != nil:
		return err
	case !out.Success:
		return failure(a, out.Error)
	case out.Data == nil:
		return missing(a, "data")
	}
	meta := out.Data.Metadata
	if meta.StatusCode >= 400 {
		return failure(a, "HTTP "+strconv.Itoa(meta.StatusCode)+" "+http.StatusText(meta.StatusCode), meta.Error)
	}
	*page = Page{URL: cmp.Or(meta.URL, meta.SourceURL, name), Content: out.Data.Markdown}
	switch title := meta.Title.(type) {
	case string:
		page.Title = title
	case []any:
		if len(title) > 0 {
			page.Title, _ = title[0].(string)
		}
	}
	return nil
}

type searxngResult struct {
	Title, URL, Content string
	Score               float64
}

func searxngSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out results[searxngResult]
	err := c.askResults(ctx, a, call{path: "search", limit: shortCall, query: url.Values{
		"q": {query}, "format": {"json"}, "pageno": {"1"},
	}}, &out)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(*out.Results, func(x, y searxngResult) int { return cmp.Compare(y.Score, x.Score) })
	return hitsOf(*out.Results, func(r searxngResult) Hit { return Hit{Title: r.Title, URL: r.URL, Description: r.Content} }), nil
}

func braveSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Web struct{ Results []described }
	}
	err := c.ask(ctx, a, call{path: "res/v1/web/search", limit: shortCall, query: url.Values{
		"q": {query}, "count": {strconv.Itoa(min(limit, 20))}, "text_decorations": {"false"},
	}}, &out)
	if err != nil {
		return nil, err
	}
	return hitsOf(out.Web.Results, func(r described) Hit {
		return Hit{Title: html.UnescapeString(r.Title), URL: r.URL, Description: html.UnescapeString(r.Description)}
	}), nil
}
