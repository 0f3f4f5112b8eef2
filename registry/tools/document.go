package tools

import (
	"archive/zip"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry/tools/pdftext"
)

// Bounds on documents: compressed, unpacked, and the text they give. A small
// archive can unpack to anything.
const (
	maxDocument = 32 << 20
	maxUnpacked = 32 << 20
	maxText     = 8 << 20
	maxColumns  = 1024
	maxCell     = 32_767 // characters; Excel's own bound
)

var errDocument = errors.New("not a document that can be read")

func isDocument(ext string) bool { return ext == ".ipynb" || ext == ".docx" || ext == ".xlsx" }

// extractText gives the text of a notebook, a Word or an Excel file.
func extractText(ctx context.Context, ext string, r io.ReaderAt, size int64) (string, error) {
	if size > maxDocument {
		return "", errDocument
	}
	d := &document{ctx: ctx, left: maxUnpacked}
	err := d.extract(ext, r, size)
	return d.out.String(), err
}

func (d *document) extract(ext string, r io.ReaderAt, size int64) (err error) {
	if ext == ".ipynb" {
		return d.notebook(io.NewSectionReader(r, 0, size))
	}
	if d.zip, err = zip.NewReader(r, size); err != nil {
		return err
	}
	if ext == ".docx" {
		return d.word()
	}
	return d.excel()
}

// pdfText gives the text of a PDF, which its first bytes tell. An error is
// in words for the reader.
func pdfText(ctx context.Context, r io.ReaderAt, size int64) (string, error) {
	if size > maxDocument {
		return "", fmt.Errorf("it is a PDF of more than %d MiB", maxDocument>>20)
	}
	data := make([]byte, size)
	n, err := r.ReadAt(data, 0)
	if err != nil && err != io.EOF {
		return "", err
	}
	_, text, err := pdftext.Extract(ctx, data[:n], maxText)
	switch {
	case errors.Is(err, pdftext.ErrEncrypted):
		err = errors.New("it is an encrypted PDF")
	case errors.Is(err, pdftext.ErrFormat):
		err = errors.New("it is a damaged PDF")
	case err == nil && text == "":
		err = errors.New("it is a PDF that holds no text, perhaps pictures of pages")
	}
	return text, err
}

type document struct {
	ctx  context.Context
	zip  *zip.Reader
	left int64 // bytes that may still be unpacked
	out  strings.Builder
}

// put adds text, up to the bound.
func (d *document) put(s string) {
	if room := maxText - d.out.Len(); len(s) > room {
		s = s[:max(room, 0)]
	}
	d.out.WriteString(s)
}

func (d *document) notebook(r io.Reader) error {
	var nb struct {
		Cells []struct {
			Type    string `json:"cell_type"`
			Source  lines  `json:"source"`
			Outputs []struct {
				Text  lines            `json:"text"`
				Data  map[string]lines `json:"data"`
				Name  string           `json:"ename"`
				Value string           `json:"evalue"`
			} `json:"outputs"`
		} `json:"cells"`
	}
	if err := json.NewDecoder(r).Decode(&nb); err != nil {
		return err
	}
	if nb.Cells == nil {
		return errDocument
	}
	for i, c := range nb.Cells {
		if i > 0 {
			d.put("\n")
		}
		d.put(fmt.Sprintf("--- cell %d: %s ---\n%s\n", i+1, c.Type, strings.TrimRight(string(c.Source), "\n")))
		for _, o := range c.Outputs {
			text := string(o.Text)
			if text == "" {
				text = string(o.Data["text/plain"])
			}
			if o.Name != "" {
				text += o.Name + ": " + o.Value
			}
			if text = strings.TrimRight(text, "\n"); text != "" {
				d.put("--- output ---\n" + text + "\n")
			}
		}
	}
	return nil
}

// lines is a string, or the list of strings notebooks write for one; anything
// else (a picture's data) is empty.
type lines string

func (l *lines) UnmarshalJSON(b []byte) error {
	var list []string
	var one string
	if json.Unmarshal(b, &list) == nil {
		*l = lines(strings.Join(list, ""))
	} else if json.Unmarshal(b, &one) == nil {
		*l = lines(one)
	}
	return nil
}

// part calls visit for every start and end of an element and every text in a
// file of the archive.
func (d *document) part(name string, visit func(xml.Token)) error {
	f, err := d.zip.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	dec := xml.NewDecoder(&budget{r: f, left: &d.left})
	for n := 0; ; n++ {
		if n%1024 == 0 && d.ctx.Err() != nil {
			return context.Cause(d.ctx)
		}
		if d.out.Len() >= maxText {
			return nil
		}
		tok, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		visit(tok)
	}
}

// budget fails when more is read than all parts together may hold.
type budget struct {
	r    io.Reader
	left *int64
}

func (b *budget) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if *b.left -= int64(n); *b.left < 0 {
		return 0, errDocument
	}
	return n, err
}

func (d *document) word() error {
	inText, cells := false, 0
	return d.part("word/document.xml", func(tok xml.Token) {
		switch t := tok.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "t":
				inText = true
			case "tab":
				d.put("\t")
			case "br", "cr":
				d.put("\n")
			case "tr":
				cells = 0
			case "tc":
				if cells++; cells > 1 {
					d.put("\t")
				}
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "t":
				inText = false
			case "p":
				if cells == 0 {
					d.put("\n")
				}
			case "tr":
				d.put("\n")
				cells = 0
			}
		case xml.CharData:
			if inText {
				d.put(string(t))
			}
		}
	})
}

// excel gives every sheet's cells as rows of tab-separated values.
func (d *document) excel() error {
	shared, err := d.sharedStrings()
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a workbook of numbers has none
		return err
	}
	sheets, err := d.sheets()
	if err != nil {
		return err
	}
	for i, s := range sheets {
		if i > 0 {
			d.put("\n")
		}
		d.put("--- sheet: " + s.name + " ---\n")
		if err := d.sheet(s.part, shared); err != nil {
			return err
		}
	}
	return nil
}

// sharedStrings is the table most cells with text refer to.
func (d *document) sharedStrings() (table []string, err error) {
	var text strings.Builder
	inText := false
	err = d.part("xl/sharedStrings.xml", func(tok xml.Token) {
		switch t := tok.(type) {
		case xml.StartElement:
			inText = t.Name.Local == "t"
		case xml.EndElement:
			inText = false
			if t.Name.Local == "si" {
				table = append(table, cutRunes(text.String(), maxCell))
				text.Reset()
			}
		case xml.CharData:
			if inText {
				text.Write(t)
			}
		}
	})
	return table, err
}

type sheet struct{ name, part string }

// sheets are the workbook's, in its order.
func (d *document) sheets() (list []sheet, err error) {
	parts := map[string]string{}
	err = d.part("xl/_rels/workbook.xml.rels", func(tok xml.Token) {
		if t, ok := tok.(xml.StartElement); ok && t.Name.Local == "Relationship" {
			target := attr(t, "Target")
			if !path.IsAbs(target) {
				target = path.Join("xl", target)
			}
			parts[attr(t, "Id")] = strings.TrimPrefix(path.Clean(target), "/")
		}
	})
	if err != nil {
		return nil, err
	}
	err = d.part("xl/workbook.xml", func(tok xml.Token) {
		if t, ok := tok.(xml.StartElement); ok && t.Name.Local == "sheet" {
			list = append(list, sheet{attr(t, "name"), parts[attr(t, "id")]})
		}
	})
	return list, err
}

func (d *document) sheet(part string, shared []string) error {
	var kind string // of the cell
	var value strings.Builder
	inValue, column, at := false, 0, 0 // column of the cell; columns written in this row
	return d.part(part, func(tok xml.Token) {
		switch t := tok.(type) {
		case xml.StartElement:
			switch t.Name.Local {
			case "row":
				at, column = 0, 0
			case "c":
				kind = attr(t, "t")
				value.Reset()
				if column = columnOf(attr(t, "r")); column == 0 {
					column = at + 1
				}
			case "v", "t":
				inValue = true
			}
		case xml.EndElement:
			switch t.Name.Local {
			case "v", "t":
				inValue = false
			case "c":
				text := value.String()
				if i, err := strconv.Atoi(text); kind == "s" && err == nil && i >= 0 && i < len(shared) {
					text = shared[i]
				}
				if gap := min(column, maxColumns) - max(at, 1); gap > 0 {
					d.put(strings.Repeat("\t", gap))
				}
				at = max(at, min(column, maxColumns))
				d.put(strings.ReplaceAll(text, "\n", " "))
			case "row":
				d.put("\n")
			}
		case xml.CharData:
			if inValue {
				value.Write(t)
			}
		}
	})
}

// columnOf is 1 for "A7", 28 for "AB7", 0 for what is no cell.
func columnOf(ref string) int {
	n := 0
	for _, c := range ref {
		if c < 'A' || c > 'Z' || n > maxColumns {
			break
		}
		n = n*26 + int(c-'A') + 1
	}
	return n
}

func attr(t xml.StartElement, name string) string {
	for _, a := range t.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
