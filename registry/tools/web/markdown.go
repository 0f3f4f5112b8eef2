package web

import (
	"context"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// HTML becomes Markdown in one pass over its tokens, without a tree: a tree of
// hostile HTML can be a thousand times larger than its source. Time and memory
// are linear in the page, nesting is bounded, and every end tag may be missing.

const (
	maxDepth   = 256 // open elements
	maxIndent  = 12  // nested lists and quotations that still indent
	maxMarks   = 16  // nested inline marks
	maxRegions = 50_000
	maxText    = maxBody // bytes of Markdown
)

// markdown is the main content of a page as Markdown, and the page's title.
// Links are absolute. Text is not escaped, but for brackets in links and bars
// in tables.
func markdown(ctx context.Context, source string, base *url.URL) (title, text string, err error) {
	w := newWriter(base, true)
	if err := w.walk(ctx, source); err != nil {
		return "", "", err
	}
	text = w.main()
	if len(text) < 500 { // what looked like boilerplate may have been the page
		all := newWriter(base, false)
		if err := all.walk(ctx, source); err != nil {
			return "", "", err
		}
		if whole := all.main(); text == "" || len(whole) > 4*len(text) && len(whole) > 250 {
			text = whole
		}
	}
	if title = w.title; title == "" {
		title = w.heading1
	}
	if w.full {
		text += "\n\n[The page gives more than 10 MiB of text: the rest was left out.]"
	}
	return title, text, nil
}

// writer turns tokens into Markdown.
type writer struct {
	base   *url.URL
	escape *strings.Replacer // of addresses in links
	strict bool              // leave out what looks like boilerplate

	title, heading1 string

	out    []byte // finished blocks
	cur    []byte // the block at hand
	full   bool
	prefix string // of every line: indentation, quotation marks
	marker string // of the next block's first line, in place of prefix
	level  int    // of the heading at hand; 0 for none
	pre    int    // depth of <pre>
	lang   string // of the code at hand
	links  int    // depth of <a>
	good   int    // bytes of text outside links, so far
	skip   string // the element whose content is left out, until its end tag
	skips  int    // how many of it are open
	stack  []element
	marks  []mark
	table  *table
	region []region
}

// element is an open block element.
type element struct {
	tag    string
	prefix string // to restore
	region int    // -1: none
	item   int    // of an <ol>: the next number
	loose  bool   // an <ul>
	table  *table // of a <table>: the one around it
}

// mark is an open inline element: where its text begins in cur.
type mark struct {
	tag, href string
	start     int
}

// region is a part of out that may be the main content.
type region struct {
	tag              string
	parent           int
	start, end, good int
}

func newWriter(base *url.URL, strict bool) *writer {
	escape := strings.NewReplacer(" ", "%20", "(", "%28", ")", "%29", "<", "%3C", ">", "%3E", "\n", "", "|", "%7C")
	return &writer{base: base, escape: escape, strict: strict, region: []region{{tag: "body", parent: -1}}}
}

func (w *writer) walk(ctx context.Context, source string) error {
	z := html.NewTokenizer(strings.NewReader(source))
	for n := 0; ; n++ {
		if n%4096 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kind := z.Next()
		if kind == html.ErrorToken || len(w.out) > maxText {
			w.full = len(w.out) > maxText
			w.closeTo(0)
			w.flush()
			w.region[0].end, w.region[0].good = len(w.out), w.good
			return nil // a page that ends early is still a page
		}
		switch kind {
		case html.TextToken:
			if w.skip == "" {
				w.text(z.Text())
			} else if w.skip == "title" && w.title == "" {
				w.title = oneLine(html.UnescapeString(string(z.Raw())))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			tag := string(name)
			if w.skip != "" && !endsSkip(w.skip, tag) {
				if tag == w.skip && kind == html.StartTagToken {
					w.skips++
				}
				continue
			}
			w.skip = ""
			var a attributes
			for i := 0; more; i++ {
				var k, v []byte
				if k, v, more = z.TagAttr(); i < 100 {
					a.set(string(k), v)
				}
			}
			w.open(tag, &a)
			if kind == html.SelfClosingTagToken && !void(tag) {
				w.close(tag)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			tag := string(name)
			if w.skip == "" {
				w.close(tag)
			} else if tag == w.skip {
				if w.skips--; w.skips == 0 {
					w.skip = ""
				}
			}
		}
	}
}

// attributes are the ones that matter.
type attributes struct {
	href, src, alt, class, id, role, content, property, style, colspan, rowspan, start string
	hidden                                                                             bool
}

func (a *attributes) set(name string, value []byte) {
	v := string(value)
	switch name {
	case "href":
		a.href = v
	case "src":
		a.src = v
	case "alt":
		a.alt = v
	case "class":
		a.class = v
	case "id":
		a.id = v
	case "role":
		a.role = strings.ToLower(strings.TrimSpace(v))
	case "content":
		a.content = v
	case "property", "name":
		a.property = v
	case "style":
		a.style = v
	case "colspan":
		a.colspan = v
	case "rowspan":
		a.rowspan = v
	case "start":
		a.start = v
	case "hidden":
		a.hidden = !strings.EqualFold(v, "until-found")
	case "aria-hidden":
		a.hidden = a.hidden || v == "true"
	}
}

func void(tag string) bool {
	switch tag {
	case "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr":
		return true
	}
	return false
}

// leave begins to leave out an element's content.
func (w *writer) leave(tag string) { w.skip, w.skips = tag, 1 }

// endsSkip reports whether a start tag ends the element that is left out, whose
// own end tag may be missing.
func endsSkip(skip, tag string) bool {
	switch skip {
	case "li", "dt", "dd", "td", "th", "tr":
		return tag == skip
	case "p":
		switch tag {
		case "p", "div", "ul", "ol", "dl", "table", "section", "article", "main", "pre", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6":
			return true
		}
	}
	return false
}

// within reports whether one of the elements is open.
func (w *writer) within(tags ...string) bool {
	for i := len(w.stack) - 1; i >= 0; i-- {
		for _, tag := range tags {
			if w.stack[i].tag == tag {
				return true
			}
		}
	}
	return false
}

// text adds text to the block at hand.
func (w *writer) text(raw []byte) {
	if w.pre > 0 {
		if len(w.cur) == 0 && len(raw) > 0 && raw[0] == '\n' {
			raw = raw[1:]
		}
		w.cur = append(w.cur, raw...)
		w.good += len(raw)
		return
	}
	for len(raw) > 0 {
		n := 0
		for n < len(raw) && isSpace(raw[n]) {
			n++
		}
		if n > 0 {
			w.space()
			raw = raw[n:]
			continue
		}
		for n < len(raw) && !isSpace(raw[n]) {
			n++
		}
		w.cur = append(w.cur, raw[:n]...)
		if w.links == 0 {
			w.good += n
		}
		raw = raw[n:]
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f' }

// space adds one space where one makes a difference.
func (w *writer) space() {
	if n := len(w.cur); n > 0 && !isSpace(w.cur[n-1]) {
		w.cur = append(w.cur, ' ')
	}
}

// main is the part of the page that holds its content: what the page says is
// main or an article, when most of the text is there; else, starting with all
// of it, the one part within that has nearly all its surroundings have, and so
// on.
func (w *writer) main() string {
	at := 0
	if m := w.heaviest("main", 0, 40); m > 0 {
		if at = m; w.heaviest("article", m, 85) > 0 {
			at = w.heaviest("article", m, 85)
		}
	} else if a := w.heaviest("article", 0, 60); a > 0 {
		at = a
	} else {
		for next := 0; next >= 0 && w.region[at].good >= 250; {
			if next = w.heaviest("", at, 85); next >= 0 {
				at = next
			}
		}
	}
	r := w.region[at]
	end := min(r.end, len(w.out))
	return strings.TrimRight(strings.TrimLeft(string(w.out[min(r.start, end):end]), "\n"), " \n")
}

// heaviest is the region with the most text of its own, but for links, among
// those of a kind within another one, or right beneath it when tag is "". It is
// -1 when that is less than percent of the other one's.
func (w *writer) heaviest(tag string, within, percent int) int {
	outer, best := w.region[within], -1
	for i := within + 1; i < len(w.region); i++ {
		r := &w.region[i]
		if tag == "" && r.parent == within || tag == r.tag && tag != "" && r.end <= outer.end {
			if best < 0 || r.good > w.region[best].good {
				best = i
			}
		}
	}
	if best < 0 || w.region[best].good*100 < outer.good*percent || w.region[best].good == 0 {
		return -1
	}
	return best
}
