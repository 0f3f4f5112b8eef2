package web

import (
	"bytes"
	"strconv"
	"strings"
)

// flush ends the block at hand and writes it out.
func (w *writer) flush() {
	open := len(w.marks)
	var again []mark
	if open > 0 { // marks do not span blocks: end them here, go on in the next
		again = append(again, w.marks...)
		w.closeMarks(0)
	}
	block := w.cur
	if w.pre > 0 {
		block = bytes.TrimRight(block, " \t\r\n")
	} else {
		block = bytes.TrimSpace(block)
	}
	if len(block) > 0 {
		w.block(string(block))
	}
	w.cur = w.cur[:0]
	for _, m := range again {
		m.start = 0
		w.marks = append(w.marks, m)
		if m.tag == "a" {
			w.links++
		}
	}
}

// block writes one block with its marker, prefix and what its kind asks for.
func (w *writer) block(text string) {
	switch {
	case w.pre > 0:
		fence := "```"
		for strings.Contains(text, fence) {
			if fence += "`"; len(fence) > 64 {
				break
			}
		}
		text = fence + w.lang + "\n" + strings.ReplaceAll(text, "\r\n", "\n") + "\n" + fence
	case w.level > 0:
		text = strings.Join(strings.Fields(text), " ")
		if w.level == 1 && w.heading1 == "" {
			w.heading1 = oneLine(text)
		}
		text = strings.Repeat("#", w.level) + " " + text
	}
	first := w.prefix
	item := w.marker != ""
	if item {
		first, w.marker = w.marker, ""
	}
	w.separate(item)
	w.out = append(w.out, first...)
	for i := strings.IndexByte(text, '\n'); i >= 0; i = strings.IndexByte(text, '\n') {
		w.out = append(append(w.out, text[:i+1]...), w.prefix...)
		if text = text[i+1:]; len(w.out) > maxText {
			break
		}
	}
	w.out = append(w.out, text...)
	w.out = append(w.out, '\n')
}

// separate puts a blank line before a block, but for the items of a list.
func (w *writer) separate(item bool) {
	if len(w.out) == 0 {
		return
	}
	if item {
		line := w.out[:len(w.out)-1]
		line = line[bytes.LastIndexByte(line, '\n')+1:]
		if isItem(string(bytes.TrimLeft(line, " >"))) {
			return
		}
	}
	w.out = append(append(w.out, strings.TrimRight(w.prefix, " ")...), '\n')
}

func isItem(line string) bool {
	if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, ": ") {
		return true
	}
	number, _, ok := strings.Cut(line, ". ")
	return ok && len(number) < 10 && strings.Trim(number, "0123456789") == ""
}

// line is a line break within a block.
func (w *writer) line() {
	if w.pre == 0 {
		w.cur = bytes.TrimRight(w.cur, " ")
	}
	if n := len(w.cur); n > 0 && (w.pre > 0 || n < 2 || w.cur[n-1] != '\n' || w.cur[n-2] != '\n') {
		w.cur = append(w.cur, '\n')
	}
}

// openMark begins an inline element.
func (w *writer) openMark(tag string, a *attributes) {
	if w.pre > 0 {
		if tag == "code" && w.lang == "" {
			w.lang = language(a.class)
		}
		if tag != "a" {
			return
		}
	}
	if tag == "a" {
		w.close("a") // links do not nest
	}
	if len(w.marks) == maxMarks {
		return
	}
	m := mark{tag: tag, start: len(w.cur)}
	if tag == "a" {
		m.href = w.link(a.href)
		w.links++
	}
	w.marks = append(w.marks, m)
}

// closeMarks ends inline elements until n are left.
func (w *writer) closeMarks(n int) {
	for len(w.marks) > n {
		m := w.marks[len(w.marks)-1]
		w.marks = w.marks[:len(w.marks)-1]
		if m.tag == "a" {
			w.links--
		}
		w.wrap(m)
	}
}

// wrap puts the signs of an inline element around its text. Spaces at its ends
// stay outside.
func (w *writer) wrap(m mark) {
	if w.pre > 0 || m.start >= len(w.cur) {
		return
	}
	whole := string(w.cur[m.start:])
	text := strings.Trim(whole, " \n")
	if text == "" {
		return
	}
	lead := whole[:len(whole)-len(strings.TrimLeft(whole, " \n"))]
	trail := whole[len(lead)+len(text):]
	w.cur = append(w.cur[:m.start], lead...)
	switch m.tag {
	case "a":
		if m.href == "" && (text == "¶" || text == "#" || text == "§") {
			text = "" // the anchor of a heading
		} else if m.href != "" {
			text = "[" + strings.ReplaceAll(strings.ReplaceAll(text, "[", "\\["), "]", "\\]") + "](" + m.href + ")"
			if strings.Contains(text, "![") || strings.Contains(text, "!\\[") { // a picture within is one, brackets and all
				text = "[" + strings.NewReplacer("\\[", "[", "\\]", "]").Replace(text[1:strings.LastIndex(text, "](")]) + "](" + m.href + ")"
			}
		}
	case "b", "strong":
		if w.level == 0 && !strings.Contains(text, "\n") {
			text = "**" + text + "**"
		}
	case "i", "em":
		if !strings.Contains(text, "\n") {
			text = "*" + text + "*"
		}
	case "del", "s", "strike":
		text = "~~" + text + "~~"
	case "q":
		text = "“" + text + "”"
	case "code", "kbd", "samp", "tt":
		if !strings.Contains(text, "`") {
			text = "`" + text + "`"
		} else if !strings.Contains(text, "``") {
			text = "`` " + text + " ``"
		}
	case "sup":
		text = "^" + text
	}
	w.cur = append(append(w.cur, text...), trail...)
}

// table collects the cells of an open table. Whether it is one of data or of
// layout shows at its end.
type table struct {
	start   int // in out
	regions int // how many there were
	rows    [][]cell
	carry   []int // rows that a cell of this column still reaches down
	cells   int
	layout  bool
	inCell  bool
}

type cell struct{ start, end int }

const (
	maxColumns  = 64
	maxCells    = 50_000
	maxCellText = 2000
)

func (w *writer) openTable(a *attributes) {
	if w.table != nil {
		w.table.layout = true // tables in tables are layout
	}
	w.table = &table{start: len(w.out), regions: len(w.region), layout: a.role == "presentation" || a.role == "none"}
}

func (t *table) row() {
	if t.layout = t.layout || len(t.rows) == maxCells; !t.layout || len(t.rows) == 0 {
		t.rows = append(t.rows, nil)
	}
}

func (w *writer) openCell(a *attributes) {
	t := w.table
	if t == nil {
		return
	}
	w.prefix, w.marker = "", ""
	if t.layout {
		return
	}
	if len(t.rows) == 0 {
		t.row()
	}
	t.inCell = true
	row := &t.rows[len(t.rows)-1]
	for len(*row) < len(t.carry) && t.carry[len(*row)] > 0 {
		t.carry[len(*row)]--
		*row = append(*row, cell{})
	}
	down := span(a.rowspan, 1000) - 1
	for i := range span(a.colspan, maxColumns) {
		if t.cells++; len(*row) == maxColumns || t.cells > maxCells {
			t.layout = true
			return
		}
		for len(t.carry) <= len(*row) {
			t.carry = append(t.carry, 0)
		}
		t.carry[len(*row)] = down
		c := cell{}
		if i == 0 {
			c = cell{len(w.out), -1}
		}
		*row = append(*row, c)
	}
}

func span(s string, most int) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 1
	}
	return min(max(n, 1), most)
}

func (w *writer) closeCell() {
	t := w.table
	if t == nil || !t.inCell {
		return
	}
	t.inCell = false
	row := t.rows[len(t.rows)-1]
	for i := len(row) - 1; i >= 0; i-- {
		if row[i].end < 0 {
			row[i].end = len(w.out)
			return
		}
	}
}

// closeTable writes a table of data as one. A table of layout stays what its
// cells wrote.
func (w *writer) closeTable() {
	t := w.table
	if t == nil || t.layout {
		return
	}
	columns := 0
	for _, row := range t.rows {
		columns = max(columns, len(row))
		for _, c := range row {
			if c.end < c.start || c.end-c.start > maxCellText || bytes.Count(w.out[c.start:c.end], []byte("\n")) > 20 {
				return
			}
		}
	}
	if columns < 2 {
		return
	}
	var lines []string
	for _, row := range t.rows {
		if len(row) == 0 {
			continue
		}
		var b strings.Builder
		for i := range columns {
			text := ""
			if i < len(row) {
				text = strings.ReplaceAll(oneLine(string(w.out[row[i].start:row[i].end])), "|", "\\|")
			}
			b.WriteString("| " + text + " ")
		}
		lines = append(lines, b.String()+"|")
		if len(lines) == 1 {
			lines = append(lines, strings.Repeat("| --- ", columns)+"|")
		}
	}
	caption := ""
	if first := t.firstCell(); first > t.start {
		caption = strings.TrimSpace(string(w.out[t.start:first]))
	}
	w.out, w.region = w.out[:t.start], w.region[:t.regions]
	if caption != "" {
		w.block(caption)
	}
	w.block(strings.Join(lines, "\n"))
}

// firstCell is where the first cell begins.
func (t *table) firstCell() int {
	for _, row := range t.rows {
		for _, c := range row {
			if c != (cell{}) {
				return c.start
			}
		}
	}
	return t.start
}
