package patchtext

import (
	"fmt"
	"strconv"
	"strings"
)

// unified reads a unified diff, as git and diff -u write it. Line numbers and
// counts are taken as hints: hunks end where their lines do.
type unified struct {
	src []string
	i   int
	ops []Op
}

// isFileHeader reports whether a "---" and a "+++" line begin at i.
func isFileHeader(src []string, i int) bool {
	return i+1 < len(src) && strings.HasPrefix(src[i], "--- ") && strings.HasPrefix(src[i+1], "+++ ")
}

func parseUnified(src []string) ([]Op, error) {
	u := &unified{src: src}
	if crlfHeaders(src) {
		u.src = make([]string, len(src))
		for i, l := range src {
			u.src[i] = strings.TrimSuffix(l, "\r")
		}
	}
	for u.i < len(u.src) {
		start := u.i
		var op *Op
		var err error
		switch l := u.src[u.i]; {
		case strings.HasPrefix(l, "diff --git "):
			op, err = u.git()
		case isFileHeader(u.src, u.i):
			op, err = u.file(nil)
		case strings.HasPrefix(l, "@@ "):
			err = fmt.Errorf("a hunk without a file: --- and +++ lines are missing")
		default:
			u.i++ // a mail's text, a signature, an index line
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", start+1, err)
		}
		if op != nil {
			op.Line = start + 1
			u.ops = append(u.ops, *op)
		}
		if len(u.ops) > maxOps {
			return nil, fmt.Errorf("more than %d operations in one patch", maxOps)
		}
	}
	return u.ops, nil
}

// crlfHeaders reports whether the diff itself, not just the files' lines, was
// sent with CRLF.
func crlfHeaders(src []string) bool {
	for i, l := range src {
		if strings.HasPrefix(l, "diff --git ") || isFileHeader(src, i) {
			return strings.HasSuffix(l, "\r")
		}
	}
	return false
}

// git reads what begins with a "diff --git" line.
func (u *unified) git() (*Op, error) {
	oldName, newName := gitNames(strings.TrimPrefix(u.src[u.i], "diff --git "))
	op := &Op{Kind: Update, Path: newName}
	mode := ""
	for u.i++; u.i < len(u.src); u.i++ {
		l := u.src[u.i]
		key, val := "", ""
		for _, k := range []string{"new file mode ", "deleted file mode ", "old mode ", "new mode ", "rename from ", "rename to ",
			"copy from ", "copy to ", "similarity index ", "dissimilarity index ", "index ", "Binary files ", "GIT binary patch"} {
			if v, ok := strings.CutPrefix(l, k); ok {
				key, val = strings.TrimSpace(k), v
			}
		}
		switch key {
		case "new file mode":
			op.Kind, mode = Add, val
		case "deleted file mode":
			op.Kind, op.Path, mode = Delete, oldName, val
		case "rename from":
			op.Kind, op.Path = Move, unquoteName(val)
		case "rename to":
			op.Kind, op.To = Move, unquoteName(val)
		case "old mode", "new mode":
			return nil, fmt.Errorf("%s: changes of a file's mode are not supported", newName)
		case "copy from", "copy to":
			return nil, fmt.Errorf("%s: copies are not supported", newName)
		case "Binary files", "GIT binary patch":
			return nil, fmt.Errorf("%s: binary patches are not supported", newName)
		case "":
			if isFileHeader(u.src, u.i) {
				return u.file(op)
			}
			return bare(op)
		}
		switch strings.TrimSpace(mode) {
		case "", "100644":
		case "100755":
			op.Exec = op.Kind == Add
		default:
			return nil, fmt.Errorf("%s: mode %s is not supported", newName, mode)
		}
	}
	return bare(op)
}

// bare accepts a git header without hunks where it means something.
func bare(op *Op) (*Op, error) {
	if op.Kind == Update {
		return nil, fmt.Errorf("%s: no change follows the diff --git header", op.Path)
	}
	return op, nil
}

// gitNames splits the names of a "diff --git" line. Unquoted names with blanks
// are only clear when both are the same.
func gitNames(s string) (oldName, newName string) {
	if strings.HasPrefix(s, `"`) {
		if end := quotedEnd(s); end > 0 && end+1 < len(s) {
			return stripped(unquoteName(s[:end]), "a/"), stripped(unquoteName(s[end+1:]), "b/")
		}
	}
	for i := range len(s) {
		if s[i] == ' ' {
			o, n := stripped(unquoteName(s[:i]), "a/"), stripped(unquoteName(s[i+1:]), "b/")
			if o == n {
				return o, n
			}
		}
	}
	o, n, _ := strings.Cut(s, " ")
	return stripped(o, "a/"), stripped(unquoteName(n), "b/")
}

func stripped(name, prefix string) string { return strings.TrimPrefix(name, prefix) }

// quotedEnd returns where the quoted string that begins s ends, or 0.
func quotedEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return 0
}

// unquoteName reads a name as git writes it: C-quoted when it has to be.
func unquoteName(s string) string {
	if end := quotedEnd(s); strings.HasPrefix(s, `"`) && end == len(s) {
		if name, err := strconv.Unquote(s); err == nil {
			return name
		}
	}
	return s
}

// fileName reads the name of a "---" or "+++" line: what follows a tab is a
// time.
func fileName(l string) string {
	l = l[len("--- "):]
	if strings.HasPrefix(l, `"`) {
		if end := quotedEnd(l); end > 0 {
			return unquoteName(l[:end])
		}
	}
	l, _, _ = strings.Cut(l, "\t")
	return strings.TrimRight(l, " \r")
}

// file reads "---", "+++" and the hunks. op is what a git header said, if
// there was one.
func (u *unified) file(op *Op) (*Op, error) {
	const none = "/dev/null"
	oldName, newName := fileName(u.src[u.i]), fileName(u.src[u.i+1])
	// a/ and b/ are taken off together or not at all.
	if (oldName == none || strings.HasPrefix(oldName, "a/")) && (newName == none || strings.HasPrefix(newName, "b/")) {
		oldName, newName = stripped(oldName, "a/"), stripped(newName, "b/")
	}
	u.i += 2
	switch {
	case oldName == none && newName == none:
		return nil, fmt.Errorf("both sides of the diff are %s", none)
	case oldName == none:
		op = &Op{Kind: Add, Path: newName, Exec: op != nil && op.Exec}
	case newName == none:
		op = &Op{Kind: Delete, Path: oldName}
	case op != nil && op.Kind == Move:
		if oldName != op.Path || newName != op.To {
			return nil, fmt.Errorf("rename of %s to %s disagrees with --- %s and +++ %s", op.Path, op.To, oldName, newName)
		}
	case op != nil && op.Kind != Update:
		return nil, fmt.Errorf("%s: the git header says %s, --- and +++ say change", op.Path, op.Kind)
	case oldName == newName || oldName == newName+".orig" || oldName == newName+".old" || oldName == newName+"~":
		op = &Op{Kind: Update, Path: newName}
	case op != nil:
		return nil, fmt.Errorf("--- %s and +++ %s differ without a rename", oldName, newName)
	default:
		op = &Op{Kind: Move, Path: oldName, To: newName}
	}
	for u.i < len(u.src) && strings.HasPrefix(u.src[u.i], "@@") {
		op.Hunks = append(op.Hunks, u.hunk())
	}
	if op.Kind == Add {
		return op, op.addFromHunks()
	}
	return op, nil
}

// addFromHunks makes the content of a new file of its hunks.
func (op *Op) addFromHunks() error {
	var b strings.Builder
	open := false
	for _, h := range op.Hunks {
		h, ok := h.additions()
		if !ok {
			return fmt.Errorf("%s: a new file has only lines with +", op.Path)
		}
		for _, l := range h.Lines {
			b.WriteString(l.Text)
			b.WriteByte('\n')
		}
		open = h.NewOpen
	}
	op.Content, op.Hunks = b.String(), nil
	if open {
		op.Content = strings.TrimSuffix(op.Content, "\n")
	}
	return nil
}

// hunk reads one hunk. As long as its header's counts hold, they decide what a
// line is; after that the line does.
func (u *unified) hunk() Hunk {
	h := Hunk{Line: u.i + 1}
	at, counts, ok := hunkHeader(u.src[u.i])
	if ok {
		h.Numbered, h.At = true, at
	}
	left := counts
	for u.i++; u.i < len(u.src); u.i++ {
		l := u.src[u.i]
		if left[0] <= 0 && left[1] <= 0 || !ok {
			if l == "-- " || !strings.ContainsAny(l[:min(1, len(l))], " +-\\") || isFileHeader(u.src, u.i) {
				break
			}
		} else if strings.HasPrefix(l, "@@ ") || strings.HasPrefix(l, "diff --git ") {
			break
		}
		h.add(l)
		switch {
		case strings.HasPrefix(l, "-"):
			left[0]--
		case strings.HasPrefix(l, "+"):
			left[1]--
		case !strings.HasPrefix(l, `\`):
			left[0]--
			left[1]--
		}
	}
	return h
}

// hunkHeader reads "@@ -at,n +at,n @@".
func hunkHeader(l string) (at int, counts [2]int, ok bool) {
	f := strings.Fields(strings.TrimPrefix(l, "@@"))
	if !strings.HasPrefix(l, "@@") || len(f) < 2 || !strings.HasPrefix(f[0], "-") || !strings.HasPrefix(f[1], "+") {
		return 0, counts, false
	}
	for i := range counts {
		start, n, given := strings.Cut(f[i][1:], ",")
		line, err := strconv.Atoi(start)
		if err != nil || line < 0 {
			return 0, counts, false
		}
		counts[i] = 1
		if given {
			if counts[i], err = strconv.Atoi(n); err != nil || counts[i] < 0 {
				return 0, counts, false
			}
		}
		if i == 0 {
			at = line
		}
	}
	return at, counts, true
}
