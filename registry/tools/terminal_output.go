package tools

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/output"
)

// A script's view of an output is data: the exact text, up to maxScriptOutput
// bytes and up to maxScriptJSON bytes as JSON, so that it fits a frame.
const (
	maxScriptOutput = 10 << 20
	maxScriptJSON   = 14 << 20
)

// capture takes a command's output. Its memory is bounded whatever the command
// prints.
type capture interface {
	io.Writer
	// text is the output as the caller gets it, and what to tell about what
	// is missing. redact may be nil.
	text(redact func(string) string) (text, note string)
}

func newCapture(script bool, limit int) capture {
	if script {
		return &rawCapture{limited{limit: maxScriptOutput}}
	}
	head := limit * 2 / 5
	return &viewCapture{output.NewWindow(head, limit-head)}
}

// viewCapture is for readers: the beginning and the end of a long output,
// without control sequences and secrets.
type viewCapture struct{ *output.Window }

func (v *viewCapture) text(redact func(string) string) (string, string) {
	var r *output.Redactor
	if redact != nil {
		r = output.NewRedactor() // sees beyond the cuts, which redact cannot
	}
	text, _ := v.Render(r)
	if redact != nil {
		text = redact(text)
	}
	return text, ""
}

// rawCapture is for programs: everything as it came, from the beginning.
type rawCapture struct{ limited }

func (r *rawCapture) text(func(string) string) (string, string) {
	keep := jsonPrefix(r.data, maxScriptJSON)
	if int64(keep) == r.total {
		return string(r.data), ""
	}
	for cut := keep; cut > max(keep-utf8.UTFMax, 0); cut-- { // not inside a character
		if utf8.RuneStart(r.data[cut-1]) {
			if !utf8.FullRune(r.data[cut-1 : keep]) {
				keep = cut - 1
			}
			break
		}
	}
	return string(r.data[:keep]), fmt.Sprintf("The output is cut: these are the first %d of %d bytes.", keep, r.total)
}

// jsonPrefix is how much of data takes at most limit bytes in a JSON string.
func jsonPrefix(data []byte, limit int) int {
	if len(data)*6 <= limit {
		return len(data)
	}
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t':
			limit -= 2
		case r < 0x20 || r == 0x7f || r == '\u2028' || r == '\u2029' || r == utf8.RuneError:
			limit -= 6
		default:
			limit -= size
		}
		if limit < 0 {
			return i
		}
		i += size
	}
	return len(data)
}
