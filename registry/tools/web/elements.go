package web

import (
	"strconv"
	"strings"
)

// open acts on a start tag.
func (w *writer) open(tag string, a *attributes) {
	switch tag {
	case "script", "style", "noscript", "template", "svg", "canvas", "iframe", "object", "video", "audio", "noframes", "noembed", "title":
		w.leave(tag)
		return
	case "meta":
		if w.title == "" && a.property == "og:title" {
			w.title = oneLine(a.content)
		}
		return
	case "base":
		if u, err := w.base.Parse(strings.TrimSpace(a.href)); err == nil && a.href != "" && (u.Scheme == "http" || u.Scheme == "https") {
			w.base = u
		}
		return
	case "br":
		w.line()
		return
	case "hr":
		w.flush()
		w.cur = append(w.cur, "---"...)
		w.flush()
		return
	case "wbr":
		return
	case "img":
		w.image(a)
		return
	case "a", "b", "strong", "i", "em", "code", "kbd", "samp", "tt", "del", "s", "strike", "sup", "sub", "q":
		w.openMark(tag, a)
		return
	}
	if void(tag) {
		return
	}
	if w.strict && w.boilerplate(tag, a) {
		w.flush()
		w.leave(tag)
		return
	}
	switch tag {
	case "span", "font", "small", "big", "u", "label", "abbr", "cite", "time", "mark", "ins", "bdi", "bdo", "data", "dfn", "var",
		"html", "form", "picture", "ruby", "rt", "rp", "center", "output", "nobr", "acronym":
		return // text like any other
	}
	w.openBlock(tag, a)
}

// boilerplate recognises what stands around the content of a page.
func (w *writer) boilerplate(tag string, a *attributes) bool {
	switch tag {
	case "nav", "aside", "button", "select", "textarea", "datalist", "dialog":
		return true
	case "header", "footer":
		return !w.within("article", "main", "section")
	case "html", "body", "main", "article":
		return false
	}
	if a.hidden {
		return true
	}
	if style := strings.ReplaceAll(strings.ToLower(a.style), " ", ""); strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden") {
		return true
	}
	switch a.role {
	case "navigation", "banner", "contentinfo", "search", "complementary", "dialog", "alertdialog", "menu", "menubar":
		return true
	}
	for name := range strings.FieldsSeq(strings.ToLower(a.class + " " + a.id)) {
		switch strings.ReplaceAll(name, "_", "-") {
		case "nav", "navbar", "sidebar", "breadcrumb", "breadcrumbs", "cookie-banner", "cookie-consent", "cookie-notice", "newsletter",
			"newsletter-signup", "advert", "advertisement", "ads", "skip-link", "skip-to-content", "social-share", "share-buttons",
			"site-header", "site-footer", "site-nav", "main-nav", "mw-editsection", "noprint", "sr-only", "visually-hidden", "screen-reader-text":
			return true
		}
	}
	return false
}

func (w *writer) openBlock(tag string, a *attributes) {
	w.imply(tag)
	w.flush()
	e := element{tag: tag, prefix: w.prefix, region: -1}
	if len(w.stack) == maxDepth {
		return
	}
	deep := len(w.prefix) >= 4*maxIndent
	switch tag {
	case "div", "main", "article", "section", "td":
		if len(w.region) < maxRegions {
			e.region = len(w.region)
			w.region = append(w.region, region{tag: tag, parent: w.inRegion(), start: len(w.out), good: w.good})
		}
	case "h1", "h2", "h3", "h4", "h5", "h6":
		w.level = int(tag[1] - '0')
	case "pre", "listing", "xmp", "plaintext":
		w.pre++
		w.lang = language(a.class)
	case "blockquote":
		if !deep {
			w.prefix += "> "
		}
	case "ul", "menu", "dir":
		e.loose = true
	case "ol":
		e.item = 1
		if n, err := strconv.Atoi(a.start); err == nil && n >= 0 && n < 1e9 {
			e.item = n
		}
	case "li":
		marker := "- "
		for i := len(w.stack) - 1; i >= 0; i-- {
			if list := &w.stack[i]; list.item > 0 {
				marker = strconv.Itoa(list.item) + ". "
				list.item++
				break
			} else if list.loose {
				break
			}
		}
		if !deep {
			w.marker = w.prefix + marker
			w.prefix += strings.Repeat(" ", len(marker))
		}
	case "dd":
		if !deep {
			w.marker = w.prefix + ": "
			w.prefix += "  "
		}
	case "table":
		e.table = w.table
		w.openTable(a)
	case "tr":
		if w.table != nil {
			w.table.row()
		}
	}
	if tag == "td" || tag == "th" {
		w.openCell(a)
	}
	w.stack = append(w.stack, e)
}

// imply closes what a start tag closes without saying so.
func (w *writer) imply(tag string) {
	var ends, until string
	switch tag {
	case "li":
		ends, until = " li ", " ul ol menu dir table "
	case "dt", "dd":
		ends, until = " dt dd ", " dl table "
	case "tr":
		ends, until = " tr td th ", " table "
	case "td", "th":
		ends, until = " td th ", " tr table "
	case "thead", "tbody", "tfoot":
		ends, until = " thead tbody tfoot tr td th caption ", " table "
	default:
		if n := len(w.stack); n > 0 && w.stack[n-1].tag == "p" {
			w.closeTo(n - 1) // no block lives in a paragraph
		}
		return
	}
	to := len(w.stack)
	for i := len(w.stack) - 1; i >= 0; i-- {
		name := " " + w.stack[i].tag + " "
		if strings.Contains(until, name) {
			break
		}
		if strings.Contains(ends, name) {
			to = i
		}
	}
	w.closeTo(to)
}

// close acts on an end tag: it ends the innermost such element and what is
// open within. One that was never begun means nothing.
func (w *writer) close(tag string) {
	for i := len(w.marks) - 1; i >= 0; i-- {
		if w.marks[i].tag == tag {
			w.closeMarks(i)
			return
		}
	}
	if tag == "p" || tag == "br" {
		w.flush()
	}
	for i := len(w.stack) - 1; i >= 0; i-- {
		if w.stack[i].tag == tag {
			w.closeTo(i)
			return
		}
		if w.stack[i].tag == "table" && tag != "table" {
			return // a cell's end tags end nothing outside
		}
	}
}

// closeTo ends open elements until n are left.
func (w *writer) closeTo(n int) {
	for len(w.stack) > n {
		w.flush()
		e := w.stack[len(w.stack)-1]
		w.stack = w.stack[:len(w.stack)-1]
		switch e.tag {
		case "pre", "listing", "xmp", "plaintext":
			w.pre--
		case "h1", "h2", "h3", "h4", "h5", "h6":
			w.level = 0
		case "td", "th":
			w.closeCell()
		case "table":
			w.closeTable()
			w.table = e.table
		}
		if e.region >= 0 && e.region < len(w.region) {
			r := &w.region[e.region]
			r.end, r.good = len(w.out), w.good-r.good
		}
		w.prefix = e.prefix
		if e.tag == "li" || e.tag == "dd" || e.tag == "td" || e.tag == "th" {
			w.marker = ""
		}
	}
}

// inRegion is the innermost open region.
func (w *writer) inRegion() int {
	for i := len(w.stack) - 1; i >= 0; i-- {
		if w.stack[i].region >= 0 {
			return w.stack[i].region
		}
	}
	return 0
}

// language is what a class says about the language of code.
func language(class string) string {
	for name := range strings.FieldsSeq(class) {
		for _, mark := range []string{"language-", "lang-", "highlight-source-", "brush:"} {
			if rest, ok := strings.CutPrefix(name, mark); ok && len(rest) < 30 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+#-_.") == "" {
				return rest
			}
		}
	}
	return ""
}

// link makes an address absolute; "" for what leads nowhere.
func (w *writer) link(href string) string {
	href = strings.TrimSpace(href)
	if href == "" || href[0] == '#' || len(href) > 2000 {
		return ""
	}
	u, err := w.base.Parse(href)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "mailto" {
		return ""
	}
	return w.escape.Replace(u.String())
}

func (w *writer) image(a *attributes) {
	alt := oneLine(a.alt)
	if alt == "" || w.pre > 0 {
		return
	}
	alt = strings.NewReplacer("[", "(", "]", ")").Replace(alt)
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(a.src)), "data:") {
		w.cur = append(w.cur, "!["+alt+"][BASE64_IMAGE_REMOVED]"...)
	} else if to := w.link(a.src); to != "" {
		w.cur = append(w.cur, "!["+alt+"]("+to+")"...)
	}
}
