package pdftext

import (
	"context"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

const (
	maxForms  = 8 // forms drawn within forms
	maxDraws  = 1 << 18
	maxStates = 64   // saved graphics states
	maxArgs   = 1024 // of one operator
)

// Extract is the text of a PDF, page by page, and its title. The text is cut at
// limit bytes, about, and ends in a note when there was more. data is
// only read. An error is ErrFormat, ErrEncrypted or ctx's cause.
func Extract(ctx context.Context, data []byte, limit int) (title, body string, err error) {
	f, err := open(ctx, data)
	if err != nil {
		return "", "", err
	}
	pages := f.pages()
	if len(pages) == 0 {
		return "", "", ErrFormat
	}
	if t, is := f.follow(f.dict(f.info)["Title"]).(text); is {
		title = documentText(t)
	}
	var out strings.Builder
	for i, p := range pages {
		if ctx.Err() != nil {
			return "", "", context.Cause(ctx)
		}
		w := writer{file: f, room: limit - out.Len()}
		w.run(f.content(p.dict["Contents"]), p.resources, 0)
		if s := strings.TrimSpace(strings.ToValidUTF8(w.out.String(), "")); s != "" {
			if out.Len() > 0 {
				out.WriteString("\n\n")
			}
			out.WriteString(s)
		}
		if w.room <= 0 || f.room <= 0 {
			fmt.Fprintf(&out, "\n\n[The PDF is too large: the rest, from page %d of %d on, was not read.]", i+1, len(pages))
			break
		}
	}
	if ctx.Err() != nil {
		return "", "", context.Cause(ctx)
	}
	return title, out.String(), nil
}

// documentText is text outside of pages: UTF-16 with a mark, UTF-8 with a mark,
// or nearly Latin-1.
func documentText(t text) string {
	s := string(t)
	switch {
	case strings.HasPrefix(s, "\xfe\xff"):
		return utf16Text(t[2:])
	case strings.HasPrefix(s, "\xef\xbb\xbf"):
		return strings.ToValidUTF8(s[3:], "\uFFFD")
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// content is what draws a page: one stream, or several that belong together.
func (f *file) content(o object) []byte {
	if _, data, ok := f.stream(o); ok {
		return data
	}
	var all []byte
	for _, part := range f.array(o) {
		if f.room <= 0 {
			break
		}
		if _, data, ok := f.stream(part); ok {
			all = append(append(all, data...), '\n')
		}
	}
	return all
}

type matrix [6]float64

func (m matrix) times(n matrix) matrix {
	return matrix{
		m[0]*n[0] + m[1]*n[2], m[0]*n[1] + m[1]*n[3], m[2]*n[0] + m[3]*n[2], m[2]*n[1] + m[3]*n[3],
		m[4]*n[0] + m[5]*n[2] + n[4], m[4]*n[1] + m[5]*n[3] + n[5],
	}
}

func identity() matrix { return matrix{1, 0, 0, 1, 0, 0} }

// state is what q saves and Q restores, as far as text goes.
type state struct {
	page                                     matrix
	font                                     *font
	size, spacing, wordSpacing, scale, leads float64
}

// writer draws text into lines.
type writer struct {
	file *file
	out  strings.Builder
	room int

	state
	saved      []state
	text, line matrix
	steps      int

	drawn      bool // something, so that there is an end of it:
	endX, endY float64
}

// run executes a page's content, or a form's.
func (w *writer) run(content []byte, resources dict, depth int) {
	if depth == 0 {
		w.page, w.scale = identity(), 1
	}
	w.text, w.line = identity(), identity()
	l := lexer{b: content, operators: true}
	var args []object
	for w.room > 0 && w.file.room > 0 {
		if w.steps++; w.steps%4096 == 0 && w.file.ctx.Err() != nil {
			return
		}
		o, ok := l.next(0)
		if !ok {
			return
		}
		op, is := o.(word)
		if !is {
			if len(args) < maxArgs {
				args = append(args, o)
			}
			continue
		}
		if op == "BI" {
			skipImage(&l)
		} else {
			w.do(string(op), args, resources, depth)
		}
		args = args[:0]
	}
}

// skipImage passes over an inline image, whose bytes mean nothing here.
func skipImage(l *lexer) {
	for p := l.pos; p+3 < len(l.b); p++ {
		if l.b[p+1] == 'E' && l.b[p+2] == 'I' && isSpace(l.b[p]) && isSpace(l.b[p+3]) {
			l.pos = p + 3
			return
		}
	}
	l.pos = len(l.b)
}

func (w *writer) do(op string, args []object, resources dict, depth int) {
	n := func(i int) float64 { // counted from the last
		if i = len(args) - i; i < 0 || i >= len(args) {
			return 0
		}
		return number64(args[i])
	}
	last := func() object {
		if len(args) == 0 {
			return nil
		}
		return args[len(args)-1]
	}
	switch op {
	case "q":
		if len(w.saved) < maxStates {
			w.saved = append(w.saved, w.state)
		}
	case "Q":
		if k := len(w.saved); k > 0 {
			w.state, w.saved = w.saved[k-1], w.saved[:k-1]
		}
	case "cm":
		w.page = matrix{n(6), n(5), n(4), n(3), n(2), n(1)}.times(w.page)
	case "BT":
		w.text, w.line = identity(), identity()
	case "Tf":
		if len(args) >= 2 {
			if key, is := args[len(args)-2].(name); is {
				w.font = w.file.font(w.file.dict(resources["Font"])[key])
			}
		}
		w.size = n(1)
	case "Tc":
		w.spacing = n(1)
	case "Tw":
		w.wordSpacing = n(1)
	case "Tz":
		w.scale = n(1) / 100
	case "TL":
		w.leads = n(1)
	case "Tm":
		w.line = matrix{n(6), n(5), n(4), n(3), n(2), n(1)}
		w.text = w.line
	case "Td":
		w.move(n(2), n(1))
	case "TD":
		w.leads = -n(1)
		w.move(n(2), n(1))
	case "T*":
		w.move(0, -w.leads)
	case "'":
		w.move(0, -w.leads)
		w.show(last())
	case "\"":
		w.wordSpacing, w.spacing = n(3), n(2)
		w.move(0, -w.leads)
		w.show(last())
	case "Tj":
		w.show(last())
	case "TJ":
		parts, _ := last().(array)
		for _, part := range parts {
			if by, is := part.(float64); is {
				w.text = matrix{1, 0, 0, 1, -by / 1000 * w.size * w.scale, 0}.times(w.text)
			} else {
				w.show(part)
			}
		}
	case "Do":
		if w.file.draws++; w.file.draws > maxDraws {
			return
		}
		key, _ := last().(name)
		form := w.file.dict(resources["XObject"])[key]
		if d := w.file.dict(form); d["Subtype"] == name("Form") && depth < maxForms {
			w.form(form, resources, depth)
		}
	}
}

// form draws a piece of content that stands by itself.
func (w *writer) form(o object, resources dict, depth int) {
	d, data, ok := w.file.stream(o)
	if !ok {
		return
	}
	if own := w.file.dict(d["Resources"]); own != nil {
		resources = own
	}
	before, saved, text, line := w.state, w.saved, w.text, w.line
	if m := w.file.array(d["Matrix"]); len(m) == 6 {
		var by matrix
		for i, o := range m {
			by[i] = number64(w.file.follow(o))
		}
		w.page = by.times(w.page)
	}
	w.saved = nil
	w.run(data, resources, depth+1)
	w.state, w.saved, w.text, w.line = before, saved, text, line
}

func (w *writer) move(x, y float64) {
	w.line = matrix{1, 0, 0, 1, x, y}.times(w.line)
	w.text = w.line
}

// show draws a string.
func (w *writer) show(o object) {
	t, is := o.(text)
	if !is || w.font == nil || len(t) == 0 || w.room <= 0 {
		return
	}
	before := w.out.Len()
	w.place()
	w.room -= w.out.Len() - before
	w.font.each(t, func(s string, width float64, space bool) {
		if w.room -= len(s); w.room < 0 {
			return
		}
		w.emit(s)
		by := width/1000*w.size + w.spacing
		if space {
			by += w.wordSpacing
		}
		w.text = matrix{1, 0, 0, 1, by * w.scale, 0}.times(w.text)
	})
	at := w.text.times(w.page)
	w.endX, w.endY, w.drawn = at[4], at[5], true
}

// emit writes a character in its plain form.
func (w *writer) emit(s string) {
	for _, r := range s {
		switch {
		case r == '\u00a0' || r == '\t':
			r = ' '
		case r < ' ' || r == utf8.RuneError || r >= 0xe000 && r <= 0xf8ff || r == '\u00ad':
			continue
		}
		w.out.WriteRune(r)
	}
}

// place puts a space or a line break where the next string is drawn apart from
// the last.
func (w *writer) place() {
	at := w.text.times(w.page)
	along := math.Hypot(at[0], at[1])
	height := math.Abs(w.size) * math.Hypot(at[2], at[3])
	if !w.drawn || height == 0 || along == 0 {
		return
	}
	dx, dy := at[4]-w.endX, at[5]-w.endY
	forward := (dx*at[0] + dy*at[1]) / along
	down := math.Abs(dx*at[1]-dy*at[0]) / along
	ended := strings.HasSuffix(w.out.String()[max(0, w.out.Len()-1):], "\n")
	switch {
	case math.IsNaN(forward) || math.IsNaN(down):
	case down > 1.9*height && !ended:
		w.out.WriteString("\n\n")
	case down > 0.5*height && !ended:
		w.out.WriteString("\n")
	case (forward > 0.18*height || forward < -height) && !ended && !strings.HasSuffix(w.out.String()[max(0, w.out.Len()-1):], " "):
		w.out.WriteString(" ")
	}
}
