package web

import (
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

func bearer(a *account) map[string]string {
	return map[string]string{"Authorization": "Bearer " + a.tok}
}

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

func tavilySearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Results *[]struct{ Title, URL, Content string }
	}
	err := c.ask(ctx, a, call{path: "search", header: bearer(a), limit: longCall, body: map[string]any{
		"query": query, "max_results": min(limit, 20), "include_raw_content": false, "include_images": false,
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range *out.Results {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Description: r.Content})
	}
	return hits, nil
}

func tavilyExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		Results *[]struct {
			Title, URL, Content string
			Raw                 string `json:"raw_content"`
		}
		Failed []struct{ URL, Error string } `json:"failed_results"`
	}
	err := c.ask(ctx, a, call{path: "extract", header: bearer(a), limit: longCall, body: map[string]any{
		"urls": urls, "include_images": false, "format": "markdown",
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		if r.Raw == "" {
			r.Raw = r.Content
		}
		found = append(found, Page{URL: r.URL, Title: r.Title, Content: r.Raw})
	}
	for _, f := range out.Failed {
		found = append(found, Page{URL: f.URL, Err: failure(a, f.Error)})
	}
	return place(urls, found), nil
}

func exaSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Results *[]struct {
			Title, URL, Text string
			Highlights       []string
		}
	}
	err := c.ask(ctx, a, call{path: "search", header: map[string]string{"X-Api-Key": a.tok}, limit: longCall, body: map[string]any{
		"query": query, "numResults": limit, "contents": map[string]any{"highlights": true},
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range *out.Results {
		about := strings.Join(r.Highlights, " ")
		if about == "" {
			about = r.Text
		}
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Description: about})
	}
	return hits, nil
}

func exaExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		Results  *[]struct{ ID, URL, Title, Text string }
		Statuses []struct {
			ID, Status string
			Error      struct {
				Tag  string
				Code int `json:"httpStatusCode"`
			}
		}
	}
	err := c.ask(ctx, a, call{path: "contents", header: map[string]string{"X-Api-Key": a.tok}, limit: longCall, body: map[string]any{
		"urls": urls, "text": true,
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		p := Page{URL: r.URL, Title: r.Title, Content: r.Text}
		if slices.Contains(urls, r.ID) && r.ID != r.URL { // asked for under this name
			found = append(found, Page{URL: r.ID, Title: p.Title, Content: p.Content})
			continue
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
func parallelHeader(a *account) map[string]string {
	return map[string]string{"X-Api-Key": a.tok, "Parallel-Beta": "search-extract-2025-10-10"}
}

func parallelSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	mode := strings.ToLower(c.env(searchMode))
	if mode == "" {
		mode = "agentic"
	}
	if !slices.Contains([]string{"agentic", "one-shot", "fast"}, mode) {
		return nil, problem(fmt.Sprintf("%s is %q; it can be agentic, one-shot or fast.", searchMode, oneLine(mode)))
	}
	var out struct {
		Results *[]struct {
			Title, URL string
			Excerpts   []string
		}
	}
	err := c.ask(ctx, a, call{path: "v1beta/search", header: parallelHeader(a), limit: longCall, body: map[string]any{
		"objective": query, "search_queries": []string{query}, "mode": mode, "max_results": min(limit, 20),
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range *out.Results {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Description: strings.Join(r.Excerpts, " ")})
	}
	return hits, nil
}

func parallelExtract(ctx context.Context, c *Client, a *account, urls []string) ([]Page, error) {
	var out struct {
		Results *[]struct {
			Title, URL string
			Full       string `json:"full_content"`
			Excerpts   []string
		}
		Errors []struct {
			URL, Content string
			Type         string `json:"error_type"`
		}
	}
	err := c.ask(ctx, a, call{path: "v1beta/extract", header: parallelHeader(a), limit: longCall, body: map[string]any{
		"urls": urls, "full_content": true, "excerpts": false,
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, err
	}
	var found []Page
	for _, r := range *out.Results {
		if r.Full == "" {
			r.Full = strings.Join(r.Excerpts, "\n\n")
		}
		found = append(found, Page{URL: r.URL, Title: r.Title, Content: r.Full})
	}
	for _, e := range out.Errors {
		found = append(found, Page{URL: e.URL, Err: failure(a, e.Type, e.Content)})
	}
	return place(urls, found), nil
}

func firecrawlHeader(a *account) map[string]string {
	if a.tok == "" { // one's own needs none
		return nil
	}
	return bearer(a)
}

func firecrawlSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Success bool
		Error   string
		Data    json.RawMessage
	}
	err := c.ask(ctx, a, call{path: "v2/search", header: firecrawlHeader(a), limit: longCall, body: map[string]any{
		"query": query, "limit": limit,
	}}, &out)
	if err != nil {
		return nil, err
	}
	if !out.Success {
		return nil, problem(a.scrub(strings.TrimSpace(a.name + " failed: " + oneLine(out.Error))))
	}
	type result struct{ Title, URL, Description string }
	var data struct{ Web []result }
	if list := []result(nil); json.Unmarshal(out.Data, &list) == nil { // as version 1 has it
		data.Web = list
	} else if err := a.parse(out.Data, &data); err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range data.Web {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Description: r.Description})
	}
	return hits, nil
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
	err := c.ask(ctx, a, call{path: "v2/scrape", header: firecrawlHeader(a), limit: longCall, body: map[string]any{
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
	*page = Page{URL: name, Content: out.Data.Markdown}
	for _, end := range []string{meta.URL, meta.SourceURL} {
		if end != "" {
			page.URL = end
			break
		}
	}
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

func searxngSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Results *[]struct {
			Title, URL, Content string
			Score               float64
		}
	}
	header := map[string]string{}
	if a.url.User != nil { // a user name and a password travel as a header
		password, _ := a.url.User.Password()
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth(a.url.User.Username(), password)
		header["Authorization"] = req.Header.Get("Authorization")
	}
	bare := *a
	plain := *a.url
	plain.User = nil
	bare.url = &plain
	err := c.ask(ctx, &bare, call{path: "search", header: header, limit: shortCall, query: url.Values{
		"q": {query}, "format": {"json"}, "pageno": {"1"},
	}}, &out)
	if err == nil && out.Results == nil {
		err = missing(a, "results")
	}
	if err != nil {
		return nil, problem(a.scrub(err.Error()))
	}
	found := *out.Results
	slices.SortStableFunc(found, func(x, y struct {
		Title, URL, Content string
		Score               float64
	}) int {
		switch {
		case x.Score > y.Score:
			return -1
		case x.Score < y.Score:
			return 1
		}
		return 0
	})
	var hits []Hit
	for _, r := range found {
		hits = append(hits, Hit{Title: r.Title, URL: r.URL, Description: r.Content})
	}
	return hits, nil
}

func braveSearch(ctx context.Context, c *Client, a *account, query string, limit int) ([]Hit, error) {
	var out struct {
		Web struct {
			Results []struct{ Title, URL, Description string }
		}
	}
	err := c.ask(ctx, a, call{path: "res/v1/web/search", header: map[string]string{"X-Subscription-Token": a.tok}, limit: shortCall, query: url.Values{
		"q": {query}, "count": {strconv.Itoa(min(limit, 20))}, "text_decorations": {"false"},
	}}, &out)
	if err != nil {
		return nil, err
	}
	var hits []Hit
	for _, r := range out.Web.Results {
		hits = append(hits, Hit{Title: html.UnescapeString(r.Title), URL: r.URL, Description: html.UnescapeString(r.Description)})
	}
	return hits, nil
}
