//go:build unix

package guards

import (
	"bytes"
	"errors"
	"testing"
)

func TestJournalIsStrict(t *testing.T) {
	const head = `hermes-exec guards 1 "/ws"` + "\n"
	for text, ok := range map[string]bool{
		"":                                    true,
		head[:10]:                             true, // torn
		head:                                  true,
		head + "+ \"a\"\n":                    true,
		head + "+ \"a\"\n= 1 2 3 \"a\"\n":     true,
		head + "+ \"a\"\n= 1 2 3":             true,
		head + "+ \"a b\\n\"\n":               true,
		head + "+ \"a\"\n= 1 2 3 \"b\"\n":     false, // never announced
		head + "= 1 2 3 \"a\"\n":              false,
		head + "+ \"a\"\n= 01 2 3 \"a\"\n":    false,
		head + "+ \"a\"\n= +1 2 3 \"a\"\n":    false,
		head + "+ \"a\"\n= -1 2 3 \"a\"\n":    false,
		head + "+ \"a\"\n= 1  2 3 \"a\"\n":    false,
		head + "+ \"../a\"\n":                 false,
		head + "= 1 2 3 \"a\" \".\\n\"\n":     true, // a file is not announced
		head + "= 1 2 3 \"a\" \"\"\n":         true,
		head + "= 1 2 3 \"a\" .\n":            false,
		head + "= 1 2 3 \"a\"  \"\"\n":        false,
		head + "= 1 2 3 \"a\" \"\" \n":        false,
		head + "= 1 2 3 \"a\"\"\"\n":          false,
		head + "= 1 2 3 \"../a\" \"\"\n":      false,
		head + "~ \"a\"\n":                    true,
		head + "~ \"a\"\n= 1 2 3 \"a\"\n":     false,
		head + "~ \"../a\"\n":                 false,
		head + "+ \"/a\"\n":                   false,
		head + "+ \".\"\n":                    false,
		head + "+ `a`\n":                      false,
		head + "+ \"a\" \n":                   false,
		head + "\n":                           false,
		head + head:                           false,
		"hermes-exec guards 2 \"/ws\"\n":      false,
		"hermes-exec guards 1 \"ws\"\n":       false,
		"hermes-exec guards 1 \"/ws/../x\"\n": false,
		"+ \"a\"\n":                           false,
	} {
		if _, _, err := parseJournal([]byte(text)); (err == nil) != ok || err != nil && !errors.Is(err, errJournal) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzJournal(f *testing.F) {
	lines := appendMade(appendWant(appendWant(headLine("/w s/\xff\n"), ".git/x"), "é"), "é", record{identity{1, 1 << 63, -5}, form{}})
	lines = appendMade(appendTemp(lines, ".git/y z"), ".git/commondir", record{identity{5, 5, 5}, form{true, ".\n"}})
	f.Add(lines)
	f.Add(bytes.ReplaceAll(lines, []byte("5"), []byte("05")))
	f.Add([]byte("hermes-exec guards 1 \"/\"\n+ \"a\"\n= 1 2 3 "))
	f.Fuzz(func(t *testing.T, data []byte) {
		j, size, err := parseJournal(data)
		if err != nil {
			return
		}
		if size > len(data) || size < len(data) && bytes.IndexByte(data[size:], '\n') >= 0 {
			t.Fatalf("size %d of %d", size, len(data))
		}
		// What is accepted is what this package would have written.
		again := []byte{}
		if size > 0 {
			again = headLine(j.root)
		}
		if !bytes.HasPrefix(data, again) {
			t.Fatalf("head %q of %q", again, data)
		}
		for _, name := range j.deepestFirst() {
			if checkName(name) != nil || !j.isFile(name) && !bytes.Contains(data[:size], appendWant(nil, name)) {
				t.Fatalf("name %q of %q", name, data)
			}
			for _, r := range j.made[name] {
				if !bytes.Contains(data[:size], appendMade(nil, name, r)) {
					t.Fatalf("%v of %q", r, data)
				}
			}
		}
		for name := range j.temps {
			if checkName(name) != nil || !bytes.Contains(data[:size], appendTemp(nil, name)) {
				t.Fatalf("temporary name %q of %q", name, data)
			}
		}
	})
}
