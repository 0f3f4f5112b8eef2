package web

import (
	"context"
	"errors"

	"github.com/hermes-exec/hermes-exec/registry/tools/pdftext"
)

// readPDF turns a PDF into text.
func readPDF(ctx context.Context, page *Page, d document) error {
	if !d.whole {
		return problem("The PDF is larger than 10 MiB")
	}
	title, text, err := pdftext.Extract(ctx, d.body, maxText)
	switch {
	case errors.Is(err, pdftext.ErrEncrypted):
		return problem("The PDF is encrypted: its text cannot be read")
	case errors.Is(err, pdftext.ErrFormat):
		return problem("The PDF is damaged: it cannot be read")
	case err != nil:
		return err
	case text == "":
		return problem("The PDF holds no text: it may be made of pictures of pages")
	}
	page.Title, page.Content = title, text
	return nil
}
