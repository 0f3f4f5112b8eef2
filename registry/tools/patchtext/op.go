package patchtext

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says what an operation does to a file.
type Kind string

// The kinds of operations.
const (
	Add    Kind = "add"
	Update Kind = "update"
	Delete Kind = "delete"
	Move   Kind = "move"
)

// Op is one operation of a patch. Paths are as the patch spells them.
type Op struct {
	Kind    Kind
	Path    string
	To      string // Move: where to
	Content string // Add
	Hunks   []Hunk // Update, Move; for Delete what the file must consist of, if known
	Exec    bool   // Add: an executable file
	Line    int    // of the patch, from 1
}

// Hunk is one change within a file.
type Hunk struct {
	Hints    []string // lines that stand above it, outermost first
	Numbered bool     // At is known
	At       int      // line of the old file it begins at, from 1; after it, if Lines are additions only
	Lines    []HunkLine
	AtEnd    bool // its last line is the file's

	// OldOpen and NewOpen say that the last old and the last new line end
	// without a line break.
	OldOpen, NewOpen bool
	Line             int // of the patch, from 1
}

// HunkLine is one line of a hunk, without its line break.
type HunkLine struct {
	Kind byte // ' ' there before and after, '-' before, '+' after
	Text string
	bare bool // a blank line that was written without the ' '
}

// ErrNoOperations is returned for a patch without any.
var ErrNoOperations = errors.New("no operations found: expected *** Update File:, *** Add File:, *** Delete File: or *** Move File: headers, or a unified diff with --- and +++ lines")

// maxOps bounds the operations of one patch.
const maxOps = 1000

// Parse reads a patch in the V4A format ("*** Begin Patch") or a unified diff;
// the first header decides. What it returns is all that the patch asks for:
// headers are recognised in any case and spacing, and text that might be meant
// as an instruction and is not understood is an error.
func Parse(patch string) ([]Op, error) {
	src := strings.Split(patch, "\n")
	if src[len(src)-1] == "" {
		src = src[:len(src)-1]
	}
	var ops []Op
	var err error
	switch format(src) {
	case "v4a":
		ops, err = parseV4A(src)
	case "unified":
		ops, err = parseUnified(src)
	default:
		return nil, ErrNoOperations
	}
	if err == nil && len(ops) == 0 {
		err = ErrNoOperations
	}
	if err != nil {
		return nil, err
	}
	for _, op := range ops {
		if err := op.check(); err != nil {
			return nil, err
		}
	}
	return ops, nil
}

func format(src []string) string {
	for i, l := range src {
		if _, _, ok := header(l); ok {
			return "v4a"
		}
		if strings.HasPrefix(l, "diff --git ") || isFileHeader(src, i) {
			return "unified"
		}
	}
	return ""
}

func (op Op) check() error {
	fail := func(format string, a ...any) error {
		return fmt.Errorf("line %d: %s", op.Line, fmt.Sprintf(format, a...))
	}
	for _, p := range []string{op.Path, op.To} {
		if strings.ContainsRune(p, 0) {
			return fail("a path contains a NUL byte")
		}
	}
	switch {
	case op.Path == "":
		return fail("a header without a path")
	case op.Kind == Move && op.To == "":
		return fail("%s: no path to move to", op.Path)
	case op.Kind == Update && !op.changes():
		return fail("%s: the update changes nothing: no line begins with + or -", op.Path)
	}
	return nil
}

func (op Op) changes() bool {
	for _, h := range op.Hunks {
		if h.OldOpen != h.NewOpen {
			return true
		}
		for _, l := range h.Lines {
			if l.Kind != ' ' {
				return true
			}
		}
	}
	return false
}

// sides returns the old and the new lines, and for each new line the old line
// it is, or -1.
func (h Hunk) sides() (old, new []string, kept []int) {
	for _, l := range h.Lines {
		if l.Kind != '+' {
			old = append(old, l.Text)
		}
		switch l.Kind {
		case ' ':
			new, kept = append(new, l.Text), append(kept, len(old)-1)
		case '+':
			new, kept = append(new, l.Text), append(kept, -1)
		}
	}
	return old, new, kept
}

// withoutBare returns h without the bare blank lines at its edges: they are
// more often there for looks than meant as context.
func (h Hunk) withoutBare() Hunk {
	for len(h.Lines) > 0 && h.Lines[0].bare {
		h.Lines = h.Lines[1:]
	}
	for n := len(h.Lines); n > 0 && h.Lines[n-1].bare; n-- {
		h.Lines = h.Lines[:n-1]
	}
	return h
}

// additions returns h with its bare blank lines as additions, if nothing in it
// is old but those.
func (h Hunk) additions() (Hunk, bool) {
	for _, l := range h.Lines {
		if l.Kind != '+' && !l.bare {
			return h, false
		}
	}
	h = h.withoutBare()
	all := make([]HunkLine, len(h.Lines))
	for i, l := range h.Lines {
		all[i] = HunkLine{Kind: '+', Text: l.Text}
	}
	h.Lines = all
	return h, true
}

// label names a hunk in an error.
func (h Hunk) label() string {
	switch {
	case len(h.Hints) > 0:
		return "'" + clip(strings.Join(h.Hints, " @@ ")) + "'"
	case h.Numbered:
		return fmt.Sprintf("at line %d", h.At)
	}
	return "(no hint)"
}
