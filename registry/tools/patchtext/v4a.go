package patchtext

import (
	"fmt"
	"strings"
)

// The headers of the V4A format, as header normalises them.
const (
	beginPatch = "begin patch"
	endPatch   = "end patch"
	endOfFile  = "end of file"
	addFile    = "add file"
	updateFile = "update file"
	deleteFile = "delete file"
	moveFile   = "move file"
	moveTo     = "move to"
)

// header recognises a header line, whatever its case and spacing, and returns
// which one it is and what follows its colon.
func header(l string) (name, arg string, ok bool) {
	rest, ok := strings.CutPrefix(l, "***")
	if !ok {
		return "", "", false
	}
	rest = strings.TrimLeft(rest, "*")
	name, arg, colon := strings.Cut(rest, ":")
	name = strings.ToLower(spaced(strings.TrimRight(name, " \t\r*")))
	switch name {
	case beginPatch, endPatch, endOfFile:
		return name, "", strings.TrimSpace(arg) == ""
	case addFile, updateFile, deleteFile, moveFile, moveTo:
		return name, strings.TrimSpace(arg), colon
	}
	return "", "", false
}

// v4a reads a patch line by line into operations.
type v4a struct {
	ops  []Op
	op   *Op   // the one being read, nil between operations
	hunk *Hunk // the one being read, nil before the first
	end  bool  // after *** End Patch

	text    strings.Builder // the content of an Add
	pending int             // blank lines of it seen, not yet known to be content
	open    bool            // it ends without a line break
}

func parseV4A(src []string) ([]Op, error) {
	var p v4a
	// A patch whose first header ends with CRLF was sent so; one where only
	// the lines of a file do means the file's.
	crlf := false
	for _, l := range src {
		if _, _, ok := header(l); ok {
			crlf = strings.HasSuffix(l, "\r")
			break
		}
	}
	begun := false
	for i, l := range src {
		if crlf {
			l = strings.TrimSuffix(l, "\r")
		}
		name, arg, ok := header(l)
		if !begun && !ok && !(strings.HasPrefix(l, "***") && strings.Contains(l, ":")) {
			continue // prose before the first header; but nothing that may be meant as one
		}
		begun = true
		var err error
		switch {
		case ok:
			err = p.header(name, arg, i+1)
		case p.op == nil:
			if strings.HasPrefix(l, "***") {
				err = fmt.Errorf("unknown header %q", clip(l))
			} else if !p.end && strings.TrimSpace(l) != "" {
				err = fmt.Errorf("%q belongs to no file: a *** Update File: or *** Add File: header is missing", clip(l))
			}
		case p.op.Kind == Add:
			err = p.content(l)
		default:
			err = p.change(l, i+1)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if len(p.ops) > maxOps {
			return nil, fmt.Errorf("more than %d operations in one patch", maxOps)
		}
	}
	p.finish()
	return p.ops, nil
}

func (p *v4a) header(name, arg string, n int) error {
	begin := func(kind Kind) error {
		p.finish()
		if p.end {
			return fmt.Errorf("an operation after *** End Patch")
		}
		p.op = &Op{Kind: kind, Path: arg, Line: n}
		return nil
	}
	switch name {
	case beginPatch:
		p.finish()
		p.end = false
	case endPatch:
		p.finish()
		p.end = true
	case addFile:
		return begin(Add)
	case updateFile:
		return begin(Update)
	case deleteFile:
		return begin(Delete)
	case moveFile:
		from, to, ok := strings.Cut(arg, " -> ")
		if !ok {
			from, to, ok = strings.Cut(arg, "->")
		}
		if !ok {
			// The target may follow as *** Move to:.
			return begin(Move)
		}
		err := begin(Move)
		if err == nil {
			p.op.Path, p.op.To = strings.TrimSpace(from), strings.TrimSpace(to)
		}
		return err
	case moveTo:
		if p.op == nil || p.op.Kind != Update && p.op.Kind != Move || p.op.To != "" || p.hunk != nil {
			return fmt.Errorf("*** Move to: must follow an *** Update File: header")
		}
		p.op.Kind, p.op.To = Move, arg
	case endOfFile:
		if p.op == nil {
			return fmt.Errorf("*** End of File outside of a file")
		}
		if p.hunk != nil {
			p.hunk.AtEnd = true
			p.flush()
		}
	}
	return nil
}

// content reads a line of an added file.
func (p *v4a) content(l string) error {
	switch {
	case strings.HasPrefix(l, "+"):
		for ; p.pending > 0; p.pending-- {
			p.text.WriteByte('\n')
		}
		p.text.WriteString(l[1:])
		p.text.WriteByte('\n')
	case strings.TrimSpace(l) == "":
		p.pending++
	case strings.HasPrefix(l, `\`):
		p.open = true
	default:
		return fmt.Errorf("%s: every line of an added file begins with +, not %q", p.op.Path, clip(l))
	}
	return nil
}

// change reads a line of an update.
func (p *v4a) change(l string, n int) error {
	if p.op.Kind == Delete {
		if strings.TrimSpace(l) == "" {
			return nil
		}
		return fmt.Errorf("%s: a deletion has no lines, not %q", p.op.Path, clip(l))
	}
	if rest, ok := strings.CutPrefix(l, "@@"); ok {
		if p.hunk == nil || len(p.hunk.Lines) > 0 {
			p.flush()
			p.hunk = &Hunk{Line: n}
		}
		if at, _, ok := hunkHeader(l); ok {
			p.hunk.Numbered, p.hunk.At = true, at
			return nil
		}
		hint := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "@@"))
		if hint != "" {
			p.hunk.Hints = append(p.hunk.Hints, hint)
		}
		return nil
	}
	if strings.HasPrefix(l, "***") {
		return fmt.Errorf("unknown header %q (a line of the file needs a ' ', '-' or '+' in front)", clip(l))
	}
	if p.hunk == nil {
		if strings.TrimSpace(l) == "" {
			return nil
		}
		p.hunk = &Hunk{Line: n}
	}
	p.hunk.add(l)
	return nil
}

// add reads a line of a hunk. One without a known first character is context.
func (h *Hunk) add(l string) {
	switch {
	case strings.TrimRight(l, "\r") == "":
		h.Lines = append(h.Lines, HunkLine{Kind: ' ', bare: true})
	case l[0] == ' ' || l[0] == '-' || l[0] == '+':
		h.Lines = append(h.Lines, HunkLine{Kind: l[0], Text: l[1:]})
	case l[0] == '\\':
		if n := len(h.Lines); n > 0 {
			h.OldOpen = h.OldOpen || h.Lines[n-1].Kind != '+'
			h.NewOpen = h.NewOpen || h.Lines[n-1].Kind != '-'
		}
	default:
		h.Lines = append(h.Lines, HunkLine{Kind: ' ', Text: l})
	}
}

// flush ends the hunk being read.
func (p *v4a) flush() {
	if p.hunk != nil && len(p.hunk.Lines) > 0 {
		p.op.Hunks = append(p.op.Hunks, *p.hunk)
	}
	p.hunk = nil
}

// finish ends the operation being read.
func (p *v4a) finish() {
	if p.op == nil {
		return
	}
	p.flush()
	p.op.Content = p.text.String()
	if p.open {
		p.op.Content = strings.TrimSuffix(p.op.Content, "\n")
	}
	p.ops = append(p.ops, *p.op)
	p.text.Reset()
	p.op, p.pending, p.open = nil, 0, false
}
