package tools

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"

	"github.com/hermes-exec/hermes-exec/registry/tools/patchtext"
)

// edit changes the text of a file as read_file shows it: what is not UTF-8 is
// decoded, changed and encoded again. Bytes outside the change stay as they
// are, because an encoding that does not give back exactly the bytes it was
// read from is not used: then the change is made to the bytes themselves, as
// far as that is safe.
func edit(raw string, change func(text string) (string, patchtext.Strategy, error)) (string, patchtext.Strategy, error) {
	form := formOfText(raw)
	if form.codec == nil || form.codec == encoding.Nop {
		return change(raw)
	}
	text, err := form.codec.NewDecoder().String(raw)
	if back, berr := form.codec.NewEncoder().String(text); err != nil || berr != nil || back != raw {
		if strings.HasPrefix(form.name, "utf-") { // 8-bit text put into it would shift all that follows
			return "", "", fmt.Errorf("the file looks like %s but is not valid as such; convert it first, or write it whole", form.name)
		}
		return change(raw)
	}
	text, how, err := change(text)
	if err != nil {
		return "", "", err
	}
	out, err := form.codec.NewEncoder().String(text)
	if err != nil {
		return "", "", fmt.Errorf("the new text has characters that %s, the encoding of the file, cannot hold; convert the file first", form.name)
	}
	return out, how, nil
}

// formOfText judges a whole file as read_file does.
func formOfText(raw string) textForm {
	form := sniff([]byte(raw[:min(len(raw), sniffSize)]))
	if form.codec != nil || form.binary || utf8.ValidString(raw) {
		return form
	}
	bad := 0
	for i, r := range raw {
		if _, n := utf8.DecodeRuneInString(raw[i:]); r == utf8.RuneError && n == 1 {
			bad = i
			break
		}
	}
	bad -= bad % chunkSize
	return legacy([]byte(raw[bad:min(len(raw), bad+sniffSize)]))
}
