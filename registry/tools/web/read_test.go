package web

import (
	"net/url"
	"strings"
	"testing"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"
)

func TestDecode(t *testing.T) {
	encode := func(e interface{ String(string) (string, error) }, s string) string {
		out, err := e.String(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	latin := encode(charmap.ISO8859_1.NewEncoder(), "naïve café")
	russian := "Сегодня президент подписал указ о том, что в стране будет проведена реформа образования. Она начнется уже в следующем году."
	cp1251 := encode(charmap.Windows1251.NewEncoder(), russian)
	sjis := encode(japanese.ShiftJIS.NewEncoder(), "日本語のページ")
	jis := encode(japanese.ISO2022JP.NewEncoder(), "日本語")
	utf16 := encode(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder(), "wide ü")
	for name, c := range map[string]struct{ body, header, want string }{
		"ascii":                   {"plain", "text/html", "plain"},
		"utf-8":                   {"naïve", "text/html", "naïve"},
		"utf-8, declared":         {"naïve", "text/html; charset=UTF-8", "naïve"},
		"utf-8, declared latin":   {"naïve", "text/html; charset=iso-8859-1", "naïve"},
		"latin, declared":         {latin, "text/html; charset=iso-8859-1", "naïve café"},
		"latin, undeclared":       {latin, "text/html", "naïve café"},
		"latin, declared as none": {latin, "text/html; charset=nonsense", "naïve café"},
		"cyrillic, declared":      {cp1251, "text/html; charset=windows-1251", russian},
		"cyrillic, meta":          {"<meta charset=windows-1251>" + cp1251, "text/html", "<meta charset=windows-1251>" + russian},
		"cyrillic, undeclared":    {strings.Repeat(cp1251, 3), "text/html", strings.Repeat(russian, 3)},
		"shift-jis, declared":     {sjis, "text/html; charset=shift_jis", "日本語のページ"},
		"iso-2022-jp, declared":   {jis, "text/html; charset=iso-2022-jp", "日本語"},
		"utf-16, marked":          {utf16, "text/plain", "wide ü"},
		"utf-8, marked":           {"\xef\xbb\xbfx", "text/plain", "x"},
		"utf-8, damaged":          {"ok \xff\xfe ok ünd", "text/plain; charset=utf-8", "ok \uFFFD\uFFFD ok ünd"},
	} {
		if got := decode(document{charset: c.header, body: []byte(c.body), whole: true}); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	if got := decode(document{body: []byte("naï")[:3], whole: false}); got != "na" {
		t.Errorf("a letter cut in two: %q", got)
	}
}

func TestMediaTypes(t *testing.T) {
	for header, want := range map[string]bool{
		"text/html": true, "TEXT/HTML; charset=x": true, "application/xhtml+xml": true, "text/plain": true, "text/csv": true, "application/json": true,
		"application/ld+json": true, "application/atom+xml": true, "application/pdf": true, "": true, "application/octet-stream": true, "text/html; bad; =": true,
		"image/png": false, "image/svg+xml": false, "video/mp4": false, "application/zip": false, "font/woff2": false, "application/wasm": false, "application/x-tar": false,
	} {
		kind, _ := mediaType(header)
		if got := readable(kind); got != want {
			t.Errorf("%q: %v", header, got)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("text/html", []byte("<p>x"))
	f.Add("application/pdf", []byte("%PDF-1.4 1 0 obj<</Type/Page>>endobj"))
	f.Add("", []byte("\xff\xfea\x00"))
	f.Add("text/plain; charset=utf-16", []byte("abc"))
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		kind, charset := mediaType(header)
		var page Page
		New(Config{}).read(t.Context(), &page, document{kind: kind, charset: charset, base: &url.URL{Scheme: "http", Host: "x"}, body: body, whole: true})
	})
}
