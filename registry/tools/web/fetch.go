package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const userAgent = "Mozilla/5.0 (compatible; hermes-exec; web_extract)"

// fetchAll fetches pages from here, all at once: there are MaxURLs at most.
func (c *Client) fetchAll(ctx context.Context, wanted []request, blocked rules) {
	var all sync.WaitGroup
	for _, r := range wanted {
		all.Go(func() {
			defer func() {
				if cause := recover(); cause != nil { // a page must not end the engine
					c.log.Error("web: page broke its reader", "url", r.url.Redacted(), "cause", cause)
					*r.page = Page{URL: r.page.URL, Err: problem("The page could not be read: it is malformed")}
				}
			}()
			ctx, cancel := context.WithTimeoutCause(ctx, c.pageTime, errSlow)
			defer cancel()
			if err := c.fetch(ctx, r, blocked); err != nil {
				r.page.Err = c.explain(ctx, err)
			}
		})
	}
	all.Wait()
}

// fetch visits one page and turns it into text.
func (c *Client) fetch(ctx context.Context, r request, blocked rules) error {
	client := *c.pages()
	client.CheckRedirect = func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return problem(fmt.Sprintf("Too many redirects: more than %d", maxRedirects))
		}
		next.Header.Del("Referer")
		if err := c.admissible(next.URL); err != nil {
			return err
		}
		return blocked.check(next.URL.Hostname())
	}
	resp, err := retry(ctx, c.firstWait, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url.String(), nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("User-Agent", userAgent)
		req.Header.Set("Accept", "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,application/json;q=0.9,application/pdf;q=0.8,*/*;q=0.1")
		req.Header.Set("Accept-Language", "en,*;q=0.5")
		return client.Do(req)
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusNonAuthoritativeInfo {
		return problem(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	}
	kind, params := mediaType(resp.Header.Get("Content-Type"))
	if !readable(kind) {
		return problem("Unsupported content type: " + kind)
	}
	body, whole, err := readBody(resp.Body)
	if err != nil {
		return err
	}
	select { // pages take memory while they are read: few at a time
	case c.parsing <- struct{}{}:
		defer func() { <-c.parsing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return c.read(ctx, r.page, document{kind: kind, charset: params, base: resp.Request.URL, body: body, whole: whole})
}

// readBody reads up to the bound and says whether that was everything.
func readBody(r io.Reader) (body []byte, whole bool, err error) {
	body, err = io.ReadAll(io.LimitReader(r, maxBody+1))
	if err != nil {
		return nil, false, err
	}
	if len(body) > maxBody {
		return body[:maxBody], false, nil
	}
	return body, true, nil
}

// explain puts an error of the network into words for the caller. What is ours
// already is.
func (c *Client) explain(ctx context.Context, err error) error {
	var blocked *Blocked
	var ours problem
	var dns *net.DNSError
	var wrapped *url.Error
	switch {
	case errors.As(err, &blocked):
		return blocked
	case errors.As(err, &ours):
		return ours
	case errors.Is(context.Cause(ctx), errSlow):
		return problem(fmt.Sprintf("Timed out after %v", c.pageTime.Round(time.Millisecond)))
	case ctx.Err() != nil:
		return problem("Cancelled: " + context.Cause(ctx).Error())
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem("The connection ended before the whole page had arrived")
	case errors.As(err, &dns):
		return problem("Could not resolve host: " + dns.Name)
	case errors.As(err, &wrapped):
		err = wrapped.Err
	}
	return problem("Fetch failed: " + strings.ToValidUTF8(oneLine(err.Error()), ""))
}
