//go:build unix

package guards

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	journalHead = "hermes-exec guards 1 "
	maxJournal  = 1 << 20
	maxName     = 4096
)

// errJournal tells that a journal is not one that this package wrote.
var errJournal = errors.New("malformed journal")

// identity tells a directory or file from a later one of the same name: file systems
// give the number of a removed inode to the next.
type identity struct {
	dev, ino uint64
	birth    int64 // ns; 0 where the file system does not tell
}

func (a identity) same(b identity) bool {
	return a.dev == b.dev && a.ino == b.ino && (a.birth == b.birth || a.birth == 0 || b.birth == 0)
}

// journal is what a workspace's journal says.
type journal struct {
	root    string
	made    map[string][]record // by name
	pending map[string]bool     // directories announced, and not noted as made
	temps   map[string]bool     // names that files may bear for a while
}

// record is what the journal knows of one reservation.
type record struct {
	identity
	form
}

// ours returns, if n, found at name, is of the journal, as what it was made.
func (j *journal) ours(name string, n node) (f form, ok bool) {
	if !n.isDir() && !n.isFile() {
		return form{}, false
	}
	for _, r := range j.made[name] {
		if r.same(n.identity) && r.file == n.isFile() {
			return r.form, true
		}
	}
	return form{}, j.pending[name] && n.marked()
}

// isFile reports whether the journal reserved name by a file.
func (j *journal) isFile(name string) bool {
	return slices.ContainsFunc(j.made[name], func(r record) bool { return r.file })
}

func headLine(root string) []byte {
	return append(strconv.AppendQuote([]byte(journalHead), root), '\n')
}

func appendWant(b []byte, name string) []byte {
	return append(strconv.AppendQuote(append(b, "+ "...), name), '\n')
}

func appendTemp(b []byte, name string) []byte {
	return append(strconv.AppendQuote(append(b, "~ "...), name), '\n')
}

func appendMade(b []byte, name string, r record) []byte {
	b = fmt.Appendf(b, "= %d %d %d ", r.dev, r.ino, r.birth)
	b = strconv.AppendQuote(b, name)
	if r.file {
		b = strconv.AppendQuote(append(b, ' '), r.content)
	}
	return append(b, '\n')
}

// parseJournal reads a journal. A last line without an end is one whose writer
// was killed before it acted on it: size is the length without that.
func parseJournal(data []byte) (j *journal, size int, err error) {
	j = &journal{made: map[string][]record{}, pending: map[string]bool{}, temps: map[string]bool{}}
	if len(data) > maxJournal {
		return nil, 0, fmt.Errorf("%w: longer than %d bytes", errJournal, maxJournal)
	}
	size = bytes.LastIndexByte(data, '\n') + 1
	for line := range strings.Lines(string(data[:size])) {
		if err := j.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, 0, err
		}
	}
	return j, size, nil
}

func (j *journal) line(line string) error {
	bad := fmt.Errorf("%w: line %.100q", errJournal, line)
	if j.root == "" {
		root, ok := cutQuoted(line, journalHead)
		if !ok || !filepath.IsAbs(root) || filepath.Clean(root) != root || strings.ContainsRune(root, 0) {
			return bad
		}
		j.root = root
		return nil
	}
	if name, ok := cutQuoted(line, "+ "); ok && checkName(name) == nil {
		j.pending[name] = true
		return nil
	}
	if name, ok := cutQuoted(line, "~ "); ok && checkName(name) == nil {
		j.temps[name] = true
		return nil
	}
	fields := strings.SplitN(line, " ", 5)
	if len(fields) != 5 || fields[0] != "=" {
		return bad
	}
	dev, err1 := strconv.ParseUint(fields[1], 10, 64)
	ino, err2 := strconv.ParseUint(fields[2], 10, 64)
	birth, err3 := strconv.ParseInt(fields[3], 10, 64)
	quoted, err4 := strconv.QuotedPrefix(fields[4])
	name, _ := strconv.Unquote(quoted)
	r := record{identity: identity{dev, ino, birth}}
	if err4 == nil {
		r.content, r.file = cutQuoted(fields[4][len(quoted):], " ")
	}
	if err := errors.Join(err1, err2, err3, err4, checkName(name)); err != nil || !r.file && !j.pending[name] ||
		string(appendMade(nil, name, r)) != line+"\n" {
		return bad
	}
	if !r.file {
		delete(j.pending, name)
	}
	j.made[name] = append(j.made[name], r)
	return nil
}

// cutQuoted returns what follows prefix, which is quoted as strconv.Quote does.
func cutQuoted(line, prefix string) (string, bool) {
	quoted, ok := strings.CutPrefix(line, prefix)
	if !ok {
		return "", false
	}
	s, err := strconv.Unquote(quoted)
	return s, err == nil && strconv.Quote(s) == quoted
}

// checkName checks that name is a clean relative path that goes down.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || len(name) > maxName || path.IsAbs(name) || path.Clean(name) != name,
		name == ".." || strings.HasPrefix(name, "../"), strings.ContainsRune(name, 0):
		return fmt.Errorf("name %.100q is not a clean path below the workspace", name)
	}
	return nil
}
