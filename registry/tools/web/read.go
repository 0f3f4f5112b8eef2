package web

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/saintfish/chardet"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// document is a page as it arrived.
type document struct {
	kind    string // media type
	charset string // the whole Content-Type, which may name a charset
	base    *url.URL
	body    []byte
	whole   bool // not cut at maxBody
}

const notWhole = "\n\n[The page is larger than 10 MiB: the rest was not read.]"

// mediaType is the plain media type of a Content-Type, and the header as it
// came.
func mediaType(header string) (kind, whole string) {
	kind, _, err := mime.ParseMediaType(header)
	if err != nil {
		kind, _, _ = strings.Cut(header, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return oneLine(kind), header
}

func isHTML(kind string) bool { return kind == "text/html" || kind == "application/xhtml+xml" }

func isText(kind string) bool {
	switch kind {
	case "application/json", "application/xml", "application/javascript", "application/ecmascript", "application/x-javascript",
		"application/x-ndjson", "application/ndjson", "application/jsonl", "application/yaml", "application/x-yaml", "application/toml",
		"application/sql", "application/x-sh", "application/graphql", "application/rtf", "application/x-tex", "application/x-httpd-php",
		"application/x-subrip", "application/mbox", "message/rfc822":
		return true
	}
	return strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "+json") || strings.HasSuffix(kind, "+xml") && kind != "image/svg+xml" ||
		strings.HasSuffix(kind, "+yaml")
}

func isPDF(kind string) bool { return kind == "application/pdf" || kind == "application/x-pdf" }

// isUntold marks types that say nothing: the content has to.
func isUntold(kind string) bool {
	return kind == "" || kind == "application/octet-stream" || kind == "binary/octet-stream" || kind == "application/x-download" ||
		kind == "application/force-download" || kind == "unknown/unknown"
}

// readable reports whether a page of this type can become text.
func readable(kind string) bool { return isHTML(kind) || isText(kind) || isPDF(kind) || isUntold(kind) }

// read turns a page into text.
func (c *Client) read(ctx context.Context, page *Page, d document) error {
	if isUntold(d.kind) || isText(d.kind) && bytes.HasPrefix(d.body, []byte("%PDF-")) {
		if d.kind, _ = mediaType(http.DetectContentType(d.body)); !readable(d.kind) || isUntold(d.kind) {
			return problem("Unsupported content type: " + d.kind)
		}
	}
	switch {
	case isPDF(d.kind):
		return readPDF(ctx, page, d)
	case isHTML(d.kind):
		title, text, err := markdown(ctx, decode(d), d.base)
		if err != nil {
			return err
		}
		page.Title, page.Content = title, text
	default:
		if bytes.IndexByte(d.body[:min(len(d.body), 8<<10)], 0) >= 0 && !hasWideMark(d.body) {
			return problem("Unsupported content type: binary data that is served as " + d.kind)
		}
		page.Content = decode(d)
	}
	if !d.whole {
		page.Content += notWhole
	}
	return nil
}

func hasWideMark(b []byte) bool {
	return bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff})
}

// decode makes text of bytes: by byte order mark, else as UTF-8 if it is that,
// else as declared by header or document, else as it looks.
func decode(d document) string {
	body := d.body
	if !d.whole { // a cut letter does not make it another charset
		for n := len(body); n > len(body)-utf8.UTFMax && n > 0; n-- {
			if utf8.RuneStart(body[n-1]) {
				if !utf8.FullRune(body[n-1:]) {
					body = body[:n-1]
				}
				break
			}
		}
	}
	enc, name, certain := charset.DetermineEncoding(body, d.charset)
	wide := strings.HasPrefix(name, "utf-16") && hasWideMark(body)
	if !wide && utf8.Valid(body) && (!certain || hasHigh(body) || name == "windows-1252") {
		return strings.TrimPrefix(string(body), "\ufeff")
	}
	if !certain {
		enc = guess(body[:min(len(body), 64<<10)], isHTML(d.kind), enc)
	}
	text, err := enc.NewDecoder().Bytes(body)
	if err != nil {
		text = bytes.ToValidUTF8(body, []byte("\uFFFD"))
	}
	return strings.TrimPrefix(strings.ToValidUTF8(string(text), "\uFFFD"), "\ufeff")
}

// guess is the encoding that undeclared text is likely in. Letters beyond ASCII
// that stand alone are accents of western Europe, in which the detector sees
// anything; its own certainty is otherwise low, but mostly right.
func guess(sample []byte, isHTML bool, fallback encoding.Encoding) encoding.Encoding {
	high, alone := 0, 0
	for i, c := range sample {
		if c >= utf8.RuneSelf {
			if high++; (i == 0 || sample[i-1] < utf8.RuneSelf) && (i == len(sample)-1 || sample[i+1] < utf8.RuneSelf) {
				alone++
			}
		}
	}
	if alone*4 >= high*3 {
		return fallback
	}
	detector := chardet.NewTextDetector()
	if isHTML {
		detector = chardet.NewHtmlDetector()
	}
	best, err := detector.DetectBest(sample)
	if err != nil || best.Confidence < 15 {
		return fallback
	}
	if enc, err := htmlindex.Get(strings.Replace(best.Charset, "GB-18030", "gb18030", 1)); err == nil {
		return enc
	}
	return fallback
}

func hasHigh(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return true
		}
	}
	return false
}
