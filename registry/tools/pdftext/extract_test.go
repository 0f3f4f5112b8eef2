package pdftext

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/ascii85"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// builder writes a PDF. Objects are numbered from 1 in the order of add.
type builder struct {
	bytes.Buffer
	n int
}

func newBuilder() *builder {
	b := &builder{}
	b.WriteString("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
	return b
}

func (b *builder) add(object string) int {
	b.n++
	fmt.Fprintf(b, "%d 0 obj\n%s\nendobj\n", b.n, object)
	return b.n
}

func (b *builder) stream(dict, data string) int {
	return b.add(fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", dict, len(data), data))
}

func deflate(s string) string {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write([]byte(s))
	z.Close()
	return b.String()
}

const helvetica = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"

// onePage is a PDF with one page of content in fonts /F1, /F2 …
func onePage(content string, fonts ...string) []byte {
	if len(fonts) == 0 {
		fonts = []string{helvetica}
	}
	b := newBuilder()
	b.add("<</Type/Catalog/Pages 2 0 R>>")
	b.add("<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<<" + fontNames(len(fonts)) + ">>>>>>")
	b.add("<</Type/Page/Parent 2 0 R/Contents 4 0 R>>")
	b.stream("/Filter/FlateDecode", deflate(content))
	b.n = 9
	for _, f := range fonts {
		b.add(f)
	}
	b.WriteString("trailer<</Root 1 0 R>>\n%%EOF")
	return b.Bytes()
}

func fontNames(n int) string {
	var s strings.Builder
	for i := range n {
		fmt.Fprintf(&s, "/F%d %d 0 R", i+1, 10+i)
	}
	return s.String()
}

func read(t testing.TB, data []byte) string {
	t.Helper()
	_, text, err := Extract(t.Context(), data, 1<<20)
	if err != nil {
		t.Fatalf("%v in %.300q", err, data)
	}
	return text
}

func TestContent(t *testing.T) {
	toUnicode := func(program string) string {
		return fmt.Sprintf("<</Length %d>>\nstream\n%s\nendstream", len(program), program)
	}
	for name, c := range map[string]struct {
		content string
		fonts   []string
		want    string
	}{
		"strings":     {`BT /F1 12 Tf 72 700 Td (Hello \(big\) w\366rld\041\\) Tj ET`, nil, `Hello (big) wörld!\`},
		"hex":         {`BT /F1 12 Tf <48 65 6C6c6F2> Tj ET`, nil, "Hello"},
		"lines":       {`BT /F1 12 Tf 14 TL 72 700 Td (one) Tj T* (two) Tj (three) ' 1 2 (four) " 0 -14 Td (five) Tj 0 -40 TD (six) Tj ET`, nil, "one\ntwo\nthree\nfour\nfive\n\nsix"},
		"kerning":     {`BT /F1 12 Tf [(W) 80 (or) -20 (d) -600 (next) ( one)] TJ ET`, nil, "Word next one"},
		"positions":   {`BT /F1 10 Tf 1 0 0 1 72 700 Tm (left) Tj 1 0 0 1 300 700 Tm (right) Tj 1 0 0 1 72 688 Tm (below) Tj ET`, nil, "left right\nbelow"},
		"joined":      {`BT /F1 10 Tf 0 0 Td (ab) Tj ET BT /F1 10 Tf 10 0 Td (cd) Tj ET`, nil, "abcd"},
		"scaled":      {`q .1 0 0 .1 0 0 cm BT /F1 100 Tf 0 7000 Td (one) Tj 0 -120 Td (two) Tj ET Q`, nil, "one\ntwo"},
		"turned":      {`BT /F1 10 Tf 0 1 -1 0 100 100 Tm (up) Tj 0 1 -1 0 112 100 Tm (again) Tj ET`, nil, "up\nagain"},
		"comments":    {"BT % (no)\n/F1 12 Tf (yes) Tj % no\nET", nil, "yes"},
		"image":       {"BT /F1 12 Tf (a) Tj ET BI /W 1 /H 1 ID (((BT (no) Tj\x00 EI BT /F1 12 Tf (b) Tj ET", nil, "ab"},
		"differences": {`BT /F1 12 Tf (abcd\001) Tj ET`, []string{"<</Subtype/Type1/Encoding<</Differences[97/fi/eacute 99/uni20AC/germandbls 1/space.x]>>>>"}, "fié€ß"},
		"macroman":    {"BT /F1 12 Tf (\x8a\xd2) Tj ET", []string{"<</Subtype/Type1/Encoding/MacRomanEncoding>>"}, "ä“"},
		"standard":    {"BT /F1 12 Tf (`x'\xae) Tj ET", []string{"<</Subtype/Type1>>"}, "‘x’fi"},
		"to unicode": {"BT /F1 12 Tf (AB\x10\x11\x12) Tj ET", []string{"<</Subtype/TrueType/ToUnicode 11 0 R>>", toUnicode(
			"1 begincodespacerange <00><ff> endcodespacerange 1 beginbfchar <41><0058> endbfchar 2 beginbfrange <10><11><D83DDE00> <12><12>[<006600660069>] endbfrange")}, "XB😀😁ffi"},
		"composite": {"BT /F1 12 Tf <000300040005> Tj [<0003> -900 <0004>] TJ ET", []string{"<</Subtype/Type0/Encoding/Identity-H/ToUnicode 11 0 R/DescendantFonts[<</DW 500/W[3[600 600] 5 9 700]>>]>>", toUnicode(
			"beginbfrange <0003><0005><0041> endbfrange")}, "ABCA B"},
		"utf-16":      {"BT /F1 12 Tf <65e5672c> Tj ET", []string{"<</Subtype/Type0/Encoding/UniJIS-UTF16-H>>"}, "日本"},
		"unknown":     {"BT /F1 12 Tf <00030004> Tj ET BT /F2 1 Tf (x) Tj ET", []string{"<</Subtype/Type0/Encoding/Identity-H>>", helvetica}, "x"},
		"no font":     {"BT (x) Tj /F9 12 Tf (y) Tj ET", nil, "y"},
		"stray":       {"] ) >> } Q Q ET Tj TJ Td Tf cm Do ' \" BT /F1 12 Tf (ok) Tj", nil, "ok"},
		"unfinished":  {"BT /F1 12 Tf (ok) Tj (never", nil, "ok"},
		"soft hyphen": {"BT /F1 12 Tf (so\xadft\xa0x) Tj ET", nil, "soft x"},
	} {
		if got := read(t, onePage(c.content, c.fonts...)); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

func TestFiles(t *testing.T) {
	const hello = "BT /F1 12 Tf (Hello) Tj ET"
	plain := onePage(hello)
	if got := read(t, plain); got != "Hello" {
		t.Fatalf("got %q", got)
	}

	// Objects in streams, filters in a row, a predictor, lengths told elsewhere.
	b := newBuilder()
	b.n = 5
	inner := "1 0 2 30 3 70 7 120\n"
	objects := fmt.Sprintf("%-30s%-40s%-50s%s", "<</Type/Catalog/Pages 2 0 R>>", "<</Kids[3 0 R]/MediaBox[0 0 9 9]>>", "<</Contents[8 0 R 9 0 R]/Resources 7 0 R>>", "<</Font<</F1 10 0 R>>>>")
	rows := ""
	for _, part := range splitRows(inner+objects, 16) {
		rows += "\x01" + subtract(part)
	}
	b.stream(fmt.Sprintf("/Type/ObjStm/N 4/First %d/Filter[/FlateDecode]/DecodeParms[<</Predictor 12/Columns 16>>]", len(inner)), deflate(rows))
	var a85 bytes.Buffer
	w := ascii85.NewEncoder(&a85)
	w.Write([]byte(deflate("BT /F1 12 Tf (Packed")))
	w.Close()
	b.n = 7
	b.add("<</Length 99 0 R/Filter[/A85/Fl]>>\nstream\r\n" + a85.String() + "~>\nendstream")
	b.stream("/Filter/ASCIIHexDecode", fmt.Sprintf("%X>", " well) Tj ET"))
	b.add(helvetica)
	b.WriteString("11 0 obj<</Type/XRef/Root 1 0 R/Info<</Title<FEFF00540069>>>/W[1 2 1]/Length 0>>stream\nendstream endobj startxref 0 %%EOF")
	title, text, err := Extract(t.Context(), b.Bytes(), 1<<20)
	if title != "Ti" || text != "Packed\n well" && text != "Packed well" || err != nil {
		t.Errorf("packed: %q, %q, %v", title, text, err)
	}

	// Forms, inherited resources, several pages, an empty one.
	b = newBuilder()
	b.add("<</Pages 2 0 R>>")
	b.add("<</Kids[3 0 R 4 0 R 5 0 R 3 0 R]/Resources<</Font<</F1 8 0 R>>/XObject<</X 7 0 R>>>>>>")
	b.add("<</Contents 6 0 R>>")
	b.add("<</Contents 99 0 R>>")
	b.add("<</Kids[<</Contents 6 0 R>>]>>")
	b.stream("", "BT /F1 9 Tf (page) Tj ET /X Do /Y Do")
	b.stream("/Subtype/Form/Matrix[1 0 0 1 0 -20]", "BT /F1 9 Tf (form) Tj ET /X Do")
	b.add(helvetica)
	b.WriteString("trailer<</Root 1 0 R>>")
	if got := read(t, b.Bytes()); !strings.HasPrefix(got, "page\n\nform\n") || strings.Count(got, "page") != 2 || strings.Count(got, "form") != 2*maxForms {
		t.Errorf("forms: %q", got)
	}

	for name, c := range map[string]struct {
		data []byte
		want string
		err  error
	}{
		"cut off":      {plain[:bytes.Index(plain, []byte("trailer"))], "Hello", nil},
		"no tree":      {bytes.ReplaceAll(plain, []byte("/Kids"), []byte("/Nids")), "", nil},
		"lost tree":    {bytes.ReplaceAll(bytes.ReplaceAll(plain, []byte("/Pages 2"), []byte("/Pages 7")), []byte("/Contents"), []byte("/Resources<</Font<</F1 10 0 R>>>>/Contents")), "Hello", nil},
		"wrong length": {bytes.ReplaceAll(plain, []byte("/Length "), []byte("/Length 9")), "Hello", nil},
		"junk before":  {append([]byte("junk\n"), plain...), "Hello", nil},
		"a later one":  {append(bytes.Clone(plain), "4 0 obj<</Length 29>>stream\nBT /F1 12 Tf (Changed) Tj ET \nendstream endobj"...), "Changed", nil},
		"encrypted":    {bytes.ReplaceAll(plain, []byte("/Root"), []byte("/Encrypt 9 0 R/Root")), "", ErrEncrypted},
		"no PDF":       {[]byte("hello"), "", ErrFormat},
		"nothing":      {nil, "", ErrFormat},
		"no pages":     {[]byte("%PDF-1.4\n1 0 obj 5 endobj"), "", ErrFormat},
	} {
		_, got, err := Extract(t.Context(), c.data, 1<<20)
		if !errors.Is(err, c.err) || got != c.want && name != "cut off" && name != "lost tree" || (name == "cut off" || name == "lost tree") && err == nil && got != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	_, text, err = Extract(t.Context(), onePage("BT /F1 9 Tf "+strings.Repeat("(0123456789) Tj ", 100)), 55)
	if err != nil || !strings.HasPrefix(text, "0123456789") || !strings.HasSuffix(text, "\n\n[The PDF is too large: the rest, from page 1 of 1 on, was not read.]") || len(text) > 200 {
		t.Errorf("limited: %q, %v", text, err)
	}
}

func splitRows(s string, n int) (rows []string) {
	for s += strings.Repeat(" ", (n-len(s)%n)%n); s != ""; s = s[n:] {
		rows = append(rows, s[:n])
	}
	return rows
}

// subtract is the PNG filter "sub" for rows of one-byte pixels.
func subtract(row string) string {
	out := []byte(row)
	for i := len(out) - 1; i > 0; i-- {
		out[i] -= out[i-1]
	}
	return string(out)
}

// Files that want all time and all memory.
func TestHostileFiles(t *testing.T) {
	const size = 512 << 10
	times := func(s string) string { return strings.Repeat(s, size/len(s)) }
	numbered := func(format string) string {
		var b strings.Builder
		for i := 1; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i, i+1)
		}
		return b.String()
	}
	bomb := strings.Repeat("\x00", 80<<20)
	nested := deflate(deflate(bomb))
	page := func(extra string) string { return string(onePage("BT /F1 12 Tf (x) Tj ET")) + extra }
	fonts := func(font string) string { return string(onePage(times("/F1 1 Tf (x) Tj "), font)) }
	for name, data := range map[string]string{
		"arrays":        page("\n7 0 obj " + times("[")),
		"dictionaries":  page("\n1 0 obj " + times("<</a")),
		"overlapping":   "%PDF-1.4\n" + numbered("%d 0 obj(%d") + times("x"),
		"one comment":   "%PDF-1.4\n" + numbered("%d 0 obj %% %d "),
		"chain":         "%PDF-1.4\ntrailer<</Root 1 0 R>>" + numbered("%d 0 obj %d 0 R endobj "),
		"one's own":     "%PDF-1.4\ntrailer<</Root 1 0 R>> 1 0 obj 1 0 R endobj",
		"trailers":      "%PDF-1.4\n" + times("trailer "),
		"long trailers": "%PDF-1.4\n" + times("trailer[[") + times("1 "),
		"kids":          "%PDF-1.4\ntrailer<</Root<</Pages 1 0 R>>>> 1 0 obj<</Kids 2 0 R>>endobj 2 0 obj[" + times("1 0 R ") + "]",
		"tree":          "%PDF-1.4\ntrailer<</Root<</Pages 1 0 R>>>>" + numbered("%d 0 obj<</Kids[%d 0 R]>>endobj "),
		"wide tree":     "%PDF-1.4\ntrailer<</Root<</Pages 1 0 R>>>> 900000 0 obj[" + strings.Repeat("2 0 R 3 0 R ", 1000) + "]endobj " + numbered("%d 0 obj<</Kids 900000 0 R/x %d>>endobj "),
		"bomb":          strings.Replace(page(""), "/Filter/FlateDecode", "/Filter[/FlateDecode/FlateDecode/FlateDecode/FlateDecode]", 1),
		"bombs":         "%PDF-1.4\n1 0 obj<</Type/Page/Contents[" + strings.Repeat("2 0 R ", 1000) + "]>>endobj 2 0 obj<</Filter[/Fl/Fl]>>stream\n" + nested + "endstream",
		"object stream": "%PDF-1.4\n1 0 obj<</Type/ObjStm/N 99999999/First 9999/Filter[/Fl/Fl]>>stream\n" + nested + "endstream",
		"same stream":   "%PDF-1.4\n1 0 obj<</Type/Page/Contents[" + times("2 0 R ") + "]>>endobj 2 0 obj<<>>stream\n" + times("q "),
		"fonts":         fonts("<</Subtype/Type1/Widths[" + strings.Repeat("1 ", 100_000) + "]>>"),
		"mapping":       fonts("<</Subtype/Type1/ToUnicode 11 0 R>>") + "\n11 0 obj<<>>stream\n" + times("<0000><ffff><0041> endbfrange ") + "endstream",
		"widths":        fonts("<</Subtype/Type0/DescendantFonts[<</W[" + strings.Repeat("0 65535 1 ", 10_000) + "]>>]>>"),
		"forms": string(onePage("/X Do")) + "\n2 0 obj<</Kids[3 0 R]/Resources<</XObject<</X 20 0 R>>>>>>endobj 20 0 obj<</Subtype/Form>>stream\n" +
			strings.Repeat("/X Do ", 1000) + "endstream",
		"saves":  string(onePage(times("q "))),
		"images": string(onePage(times("BI "))),
		"args":   string(onePage(times("1 "))),
		"names":  string(onePage("/" + times("a"))),
		"spaces": string(onePage("BT /F1 12 Tf " + times("1 0 Td (x) Tj "))),
		"predicted": "%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R>>endobj 2 0 obj<</Filter/Fl/DecodeParms<</Predictor 15/Columns 1>>>>stream\n" +
			deflate(bomb) + "endstream",
	} {
		start := time.Now()
		_, text, err := Extract(t.Context(), []byte(data), 1<<20)
		if took := time.Since(start); took > time.Minute || len(text) > 2<<20 || err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v, %d bytes, %v", name, took, len(text), err)
		} else if took > time.Second {
			t.Logf("%s took %v", name, took)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	cancel(why)
	if _, _, err := Extract(ctx, onePage("BT /F1 12 Tf (x) Tj ET"), 1<<20); !errors.Is(err, why) {
		t.Errorf("after cancelling: %v", err)
	}
}

func FuzzExtract(f *testing.F) {
	f.Add(onePage("BT /F1 12 Tf 72 700 Td [(He) -20 <6c6c6f>] TJ T* (x) ' ET"))
	f.Add([]byte("%PDF-1.4\n1 0 obj<</Type/Page/Contents 2 0 R/Resources<</Font<</F 3 0 R>>>>>>endobj 2 0 obj<<>>stream\nBT /F 9 Tf (abc) Tj ET\nendstream 3 0 obj<</Subtype/Type0/ToUnicode 4 0 R/DescendantFonts[<</W[0 9 1 5[3]]>>]>> 4 0 obj<<>>stream\n<41><0042>endbfchar<00><ff><0000>endbfrange\nendstream"))
	f.Add([]byte("%PDF-1.4\n5 0 obj<</Type/ObjStm/N 2/First 8>>stream\n1 0 2 9 <</Kids[]>> [1 0 R]\nendstream trailer<</Root 1 0 R/Info<</Title(x)>>>>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		title, text, err := Extract(t.Context(), data, 1<<16)
		if err == nil && (!utf8.ValidString(text) || !utf8.ValidString(title) || len(text) > 1<<17) {
			t.Fatalf("%q: %q, %q", data, title, text)
		}
	})
}

func ExampleExtract() {
	_, text, err := Extract(context.Background(), onePage("BT /F1 12 Tf 72 700 Td (Hello,) Tj 0 -14 Td (reader.) Tj ET"), 1<<20)
	fmt.Println(text, err)
	// Output:
	// Hello,
	// reader. <nil>
}
