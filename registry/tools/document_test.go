package tools

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

func zipped(t *testing.T, parts map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, text := range parts {
		f, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(f, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func workbook(sheet, shared string) map[string]string {
	return map[string]string{
		"xl/workbook.xml":            `<workbook xmlns:r="x"><sheets><sheet name="Data" sheetId="1" r:id="rId7"/></sheets></workbook>`,
		"xl/_rels/workbook.xml.rels": `<Relationships><Relationship Id="rId7" Target="worksheets/sheet1.xml"/></Relationships>`,
		"xl/worksheets/sheet1.xml":   sheet,
		"xl/sharedStrings.xml":       shared,
	}
}

func TestReadDocuments(t *testing.T) {
	b := setup(t, nil)
	shell := registry.Caller{Kind: registry.Shell}
	b.file("n.ipynb", `{"cells":[{"cell_type":"markdown","source":["# Title\n","text"]},
		{"cell_type":"code","source":"1+1","outputs":[{"data":{"text/plain":["2"],"image/png":"iVBOR"}},{"ename":"E","evalue":"bad"}]}],"nbformat":4}`)
	b.file("d.docx", zipped(t, map[string]string{"word/document.xml": `<?xml version="1.0"?><w:document xmlns:w="x"><w:body>
		<w:p><w:r><w:t>Hello</w:t></w:r><w:r><w:tab/><w:t xml:space="preserve"> world &amp; all</w:t></w:r></w:p>
		<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
		<w:p><w:r><w:t>end</w:t></w:r></w:p></w:body></w:document>`}))
	b.file("s.xlsx", zipped(t, workbook(`<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>1</v></c><c r="C1"><v>3.5</v></c></row>
		<row r="2"><c r="B2" t="inlineStr"><is><t>in</t></is></c></row><row><c><v>1</v></c><c t="s"><v>0</v></c></row></sheetData></worksheet>`,
		`<sst><si><t>zero</t></si><si><r><t>o</t></r><r><t>ne</t></r></si></sst>`)))
	for name, want := range map[string]string{
		"n.ipynb": "1|--- cell 1: markdown ---\n2|# Title\n3|text\n4|\n5|--- cell 2: code ---\n6|1+1\n7|--- output ---\n8|2\n9|--- output ---\n10|E: bad",
		"d.docx":  "1|Hello\t world & all\n2|a\tb\n3|end",
		"s.xlsx":  "1|--- sheet: Data ---\n2|one\t\t3.5\n3|\tin\n4|1\tzero",
	} {
		got := b.call(shell, "read_file", args{"path": name})
		matches(t, name, got, args{"content": want, "extracted_document": true, "total_lines": strings.Count(want, "\n") + 1, "error": nil})
		matches(t, name+" paged", b.call(shell, "read_file", args{"path": name, "offset": 2, "limit": 1}), args{"truncated": true})
		// A script gets the file.
		if raw := b.call(script, "read_file", args{"path": name, "limit": 0}); name != "n.ipynb" {
			matches(t, name+" raw", raw, args{"encoding": "base64", "extracted_document": nil})
		} else {
			matches(t, name+" raw", raw, args{"content": b.disk(name)})
		}
	}
	// What only bears the name is judged by its bytes.
	b.file("no.ipynb", "plain\n")
	matches(t, "no.ipynb", b.call(shell, "read_file", args{"path": "no.ipynb"}), args{"content": "1|plain", "extracted_document": nil})
	b.file("no.docx", zipped(t, map[string]string{"x": "y"}))
	matches(t, "no.docx", b.call(shell, "read_file", args{"path": "no.docx"}), args{"content": "", "error": "Binary file - cannot display as text…"})
}

// pdfOf is a PDF of one page, drawn by content; more goes into its trailer.
func pdfOf(content, more string) string {
	return fmt.Sprintf("%%PDF-1.7\n1 0 obj\n<</Type/Catalog/Pages 2 0 R>>\nendobj\n"+
		"2 0 obj\n<</Type/Pages/Kids[3 0 R]/Count 1/Resources<</Font<</F 5 0 R>>>>>>\nendobj\n3 0 obj\n<</Type/Page/Parent 2 0 R/Contents 4 0 R>>\nendobj\n"+
		"4 0 obj\n<</Length %d>>\nstream\n%s\nendstream\nendobj\n5 0 obj\n<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>\nendobj\n"+
		"trailer<</Root 1 0 R%s>>\n%%%%EOF\n", len(content), content, more)
}

func TestReadPDF(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter22", "***") }
	})
	shell := registry.Caller{Kind: registry.Shell}
	page := pdfOf("BT /F 12 Tf 72 700 Td (Hello) Tj 0 -20 Td (of hunter22) Tj 0 -20 Td (the end) Tj ET", "")
	for _, name := range []string{"p.pdf", "named.txt"} { // its bytes tell
		b.file(name, page)
		matches(t, name, b.call(shell, "read_file", args{"path": name}),
			args{"content": "1|Hello\n2|of ***\n3|the end", "total_lines": 3, "file_size": len(page), "extracted_document": true, "is_binary": false, "error": nil})
		matches(t, name+" paged", b.call(shell, "read_file", args{"path": name, "offset": 2, "limit": 1}),
			args{"content": "2|of ***", "truncated": true, "total_lines": 3})
	}
	// A script gets the file.
	matches(t, "raw", b.call(script, "read_file", args{"path": "p.pdf", "limit": 0}), args{"content": page, "extracted_document": nil})
	// A model is told once.
	b.call(model, "read_file", args{"path": "p.pdf"})
	matches(t, "again", b.call(model, "read_file", args{"path": "p.pdf"}), args{"status": "unchanged"})
	for name, tt := range map[string]struct{ text, want string }{
		"damaged.pdf":   {"%PDF-1.7\n...", "it is a damaged PDF."},
		"encrypted.pdf": {pdfOf("BT /F 12 Tf (x) Tj ET", "/Encrypt<</Filter/Standard>>"), "it is an encrypted PDF."},
		"blank.pdf":     {pdfOf("0 0 m 5 5 l S", ""), "it is a PDF that holds no text, perhaps pictures of pages."},
	} {
		b.file(name, tt.text)
		matches(t, name, b.call(shell, "read_file", args{"path": name}),
			args{"content": "", "file_size": len(tt.text), "is_binary": true, "extracted_document": nil, "error": "Cannot read '" + name + "' as text: " + tt.want})
	}
	b.file("large.pdf", page)
	if err := os.Truncate(b.path("large.pdf"), maxDocument+1); err != nil {
		t.Fatal(err)
	}
	matches(t, "large.pdf", b.call(shell, "read_file", args{"path": "large.pdf"}), args{"error": "Cannot read 'large.pdf' as text: it is a PDF of more than 32 MiB."})
}

// TestReadPDFBombs: a small PDF gives a bounded text, in bounded memory.
func TestReadPDFBombs(t *testing.T) {
	page := "BT /F 12 Tf (" + strings.Repeat("a", 1000) + ") Tj ET\n"
	bomb := pdfOf(strings.Repeat(page, 12_000), "")
	text, err := pdfText(t.Context(), strings.NewReader(bomb), int64(len(bomb)))
	if err != nil || len(text) > maxText+100 || !strings.Contains(text, "[The PDF is too large: the rest, from page 1 of 1 on, was not read.]") {
		t.Errorf("%d bytes of text, %v", len(text), err)
	}
	b := setup(t, nil)
	b.file("bomb.pdf", bomb)
	matches(t, "bomb.pdf", b.call(model, "read_file", args{"path": "bomb.pdf"}), args{"extracted_document": true, "total_lines": 3, "error": nil, "content": "1|" + strings.Repeat("a", 1000) + "…"})
}

// TestReadDocumentBombs: a small archive cannot make us unpack or build much.
func TestReadDocumentBombs(t *testing.T) {
	for name, tt := range map[string]struct {
		ext   string
		parts map[string]string
		err   error
	}{
		"long":   {".docx", map[string]string{"word/document.xml": "<d><p><t>" + strings.Repeat("a", 2<<20) + "</t></p></d>"}, errDocument},
		"shared": {".xlsx", workbook("<w/>", "<sst>"+strings.Repeat("<si/>", 1<<19)+"</sst>"), errDocument},
		// These unpack to little and repeat it.
		"copies": {".xlsx", workbook("<w><row>"+strings.Repeat(`<c t="s"><v>0</v></c>`, 20_000)+"</row></w>", "<sst><si><t>"+strings.Repeat("b", 400_000)+"</t></si></sst>"), nil},
		"far":    {".xlsx", workbook("<w>"+strings.Repeat(`<row><c r="XFD1"><v>1</v></c></row>`, 20_000)+"</w>", "<sst/>"), nil},
	} {
		archive := zipped(t, tt.parts)
		d := &document{ctx: t.Context(), left: 1 << 20}
		if err := d.extract(tt.ext, strings.NewReader(archive), int64(len(archive))); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", name, err, tt.err)
		}
		if d.out.Len() > maxText {
			t.Errorf("%s: a text of %d bytes", name, d.out.Len())
		}
	}
}
