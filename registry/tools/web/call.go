package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// call is one request to a service. Every one asks and changes nothing, so it
// may be repeated.
type call struct {
	path   string
	query  url.Values        // a GET when there is no body
	header map[string]string // beside the usual ones and the key
	body   any
	limit  time.Duration // for all attempts together; 0 means longCall
}

const (
	longCall  = 60 * time.Second
	shortCall = 15 * time.Second
)

// ask sends a call and reads the answer, one JSON object, into out. A user name
// and a password in the account's address travel as a header, as net/http has it.
func (c *Client) ask(ctx context.Context, a *account, what call, out any) error {
	limit := c.callTime(cmp.Or(what.limit, longCall))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	method, body := http.MethodGet, []byte(nil)
	if what.body != nil {
		var err error
		if body, err = json.Marshal(what.body); err != nil {
			return fmt.Errorf("web: %s: %w", a.name, err)
		}
		method = http.MethodPost
	}
	to := a.url.JoinPath(what.path)
	to.RawQuery = what.query.Encode()
	resp, err := retry(ctx, c.firstWait, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Accept", "application/json")
		req.Header.Set("User-Agent", "hermes-exec")
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		if a.tok != "" {
			req.Header.Set(a.header, a.prefix+a.tok)
		}
		for name, value := range what.header {
			req.Header.Set(name, value)
		}
		return c.calls().Do(req)
	})
	if err != nil {
		return a.trouble(ctx, limit, err)
	}
	defer resp.Body.Close()
	answer, whole, err := readBody(resp.Body)
	switch {
	case err != nil:
		return a.trouble(ctx, limit, err)
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return problem(fmt.Sprintf("%s answered HTTP %d, a redirect, which is not followed: set %s to the final address.", a.name, resp.StatusCode, a.base))
	case resp.StatusCode != http.StatusOK:
		return problem(a.scrub(fmt.Sprintf("%s answered HTTP %d %s%s", a.name, resp.StatusCode, http.StatusText(resp.StatusCode), reason(answer))))
	case !whole:
		return problem(fmt.Sprintf("%s sent more than %d MiB.", a.name, maxBody>>20))
	}
	return a.parse(answer, out)
}

// results is an answer that says nothing without its list, which may be empty.
type results[R any] struct {
	Results *[]R
}

func (r *results[R]) absent() bool { return r.Results == nil }

// askResults is ask for an answer of which results are a part.
func (c *Client) askResults(ctx context.Context, a *account, what call, out interface{ absent() bool }) error {
	if err := c.ask(ctx, a, what, out); err != nil {
		return err
	}
	if out.absent() {
		return missing(a, "results")
	}
	return nil
}

// parse reads exactly one JSON object.
func (a *account) parse(answer []byte, out any) error {
	answer = bytes.TrimSpace(answer)
	if len(answer) == 0 || answer[0] != '{' {
		return problem(a.name + " did not answer with a JSON object.")
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return problem(a.scrub(a.name + " sent an answer that cannot be understood: " + oneLine(err.Error())))
	}
	return nil
}

// trouble is why no answer came. The address stays out of it: it may hold a
// password.
func (a *account) trouble(ctx context.Context, limit time.Duration, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	switch {
	case errors.Is(context.Cause(ctx), errSlow):
		err = fmt.Errorf("no answer within %v", limit)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the answer was cut short")
	}
	return problem(a.scrub(a.name + ": " + oneLine(err.Error())))
}

// scrub takes the account's own secrets out of a text.
func (a *account) scrub(s string) string {
	secrets := []string{a.tok}
	if a.url.User != nil {
		password, _ := a.url.User.Password()
		secrets = append(secrets, password, a.url.User.String())
	}
	for _, secret := range secrets {
		if len(secret) >= 4 {
			for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
				s = strings.ReplaceAll(s, form, "***")
			}
		}
	}
	return s
}

// reason is what a service says about its refusal, wherever it says it.
func reason(answer []byte) string {
	var in map[string]json.RawMessage
	if json.Unmarshal(answer, &in) != nil {
		return ""
	}
	for _, key := range []string{"error", "message", "detail", "details"} {
		for raw := in[key]; raw != nil; {
			var text string
			var inner map[string]json.RawMessage
			if json.Unmarshal(raw, &text) == nil && text != "" {
				if text = oneLine(text); len(text) > 300 {
					text = strings.ToValidUTF8(text[:300], "") + "…"
				}
				return ": " + text
			}
			raw = nil
			if json.Unmarshal(in[key], &inner) == nil {
				for _, k := range []string{"message", "error", "detail"} {
					if json.Unmarshal(inner[k], &text) == nil && text != "" {
						raw, in[key] = inner[k], nil
						break
					}
				}
			}
		}
	}
	return ""
}

// askFor has a service fetch pages, after a look at where they lead.
func (c *Client) askFor(ctx context.Context, who *account, wanted []request, blocked rules) {
	var looks sync.WaitGroup
	for _, r := range wanted {
		looks.Go(func() { r.page.Err = c.lookPrivate(ctx, r.url.Hostname(), who.own) })
	}
	looks.Wait()
	byURL := map[string][]*Page{}
	var urls []string
	for _, r := range wanted {
		if r.page.Err != nil {
			continue
		}
		if name := r.url.String(); byURL[name] == nil {
			urls = append(urls, name)
			byURL[name] = []*Page{r.page}
		} else {
			byURL[name] = append(byURL[name], r.page)
		}
	}
	if len(urls) == 0 {
		return
	}
	found, err := who.extract(ctx, c, who, urls)
	if err == nil && len(found) != len(urls) {
		err = problem(who.name + " did not answer for every URL.")
	}
	for i, name := range urls {
		for _, page := range byURL[name] {
			if err != nil {
				page.Err = err
				continue
			}
			if end, perr := url.Parse(found[i].URL); perr == nil && end.Host != "" { // where it ended up
				if err := c.admissible(end); errors.Is(err, ErrPrivate) {
					page.Err = err
					continue
				}
				if err := blocked.check(strings.TrimSuffix(strings.ToLower(end.Hostname()), ".")); err != nil {
					page.Err = err
					continue
				}
			}
			page.Title, page.Content, page.Err = found[i].Title, found[i].Content, found[i].Err
		}
	}
}

// place puts what a service found in the order of what it was asked for. A
// service may spell an address in its own way.
func place(urls []string, found []Page) []Page {
	key := func(s string) string {
		u, err := url.Parse(s)
		if err != nil {
			return s
		}
		return strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery
	}
	pages := make([]Page, len(urls))
	for i, name := range urls {
		pages[i].Err = problem("Content was inaccessible or not found")
		for _, p := range found {
			if p.URL == name {
				pages[i] = p
				break
			}
			if key(p.URL) == key(name) {
				pages[i] = p
			}
		}
	}
	return pages
}
