package web

import "context"

// readPDF turns a PDF into text.
func readPDF(_ context.Context, _ *Page, _ document) error {
	return problem("Unsupported content type: application/pdf")
}
