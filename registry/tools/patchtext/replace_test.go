package patchtext

import (
	"errors"
	"strings"
	"testing"
)

// The table the tools this module replaces were measured by; wrong is the
// answer that was seen there and must not come back.
func TestReplaceGolden(t *testing.T) {
	tests := []struct {
		name           string
		text, old, new string
		all            bool
		want, wrong    string
		count          int
		strategy       Strategy
		errorHasPrefix string
	}{
		{name: "indent shifted by the first line", text: "    if x:\n        y()\n", old: "if x:\n  y()", new: "if x:\n  z()",
			want: "    if x:\n      z()\n", count: 1, strategy: LineTrimmed},
		{name: "escape", text: "x\ty\n", old: `x\ty`, new: "q", want: "q\n", count: 1, strategy: EscapeNormalized},
		{name: "quotes", text: "say “hi”\n", old: `say "hi"`, new: `say "yo"`, want: "say \"yo\"\n", count: 1, strategy: UnicodeNormalized},
		{name: "crlf", text: "a\r\nb\r\n", old: "a\nb", new: "c\nd", want: "c\r\nd\r\n", wrong: "c\nd\n", count: 1, strategy: LineTrimmed},
		{name: "escape drift", text: "it's  ok\n", old: `it\'s ok`, new: `it\'s fine`,
			errorHasPrefix: "Escape-drift detected: old_string and new_string contain the literal sequence "},
		{name: "trailing blank stays", text: "x = foo(a,  b) + c\n", old: "foo(a, b)", new: "bar()",
			want: "x = bar() + c\n", wrong: "x = bar()+ c\n", count: 1, strategy: WhitespaceNormalized},
		{name: "a similar line is no match", text: "hello world\nfoo\n", old: "hallo warld", new: "x",
			wrong: "x\nfoo\n", errorHasPrefix: "Could not find a match for old_string in the file"},
		{name: "no overlaps", text: "aaaa", old: "aa", new: "b", all: true, want: "bb", wrong: "b", count: 2, strategy: Exact},
		{name: "ambiguous", text: "a\na\n", old: "a", new: "b",
			errorHasPrefix: "Found 2 matches for old_string. Provide more context to make it unique, or use replace_all=True."},
		{name: "empty", text: "a", old: "", new: "b", errorHasPrefix: "old_string cannot be empty"},
		{name: "identical", text: "a", old: "a", new: "a", errorHasPrefix: "old_string and new_string are identical"},

		{name: "overlapping occurrences are ambiguous too", text: "aaa", old: "aa", new: "b", errorHasPrefix: "Found 2 matches"},
		{name: "byte order mark", text: "\ufeffa\nb\n", old: "\ufeffa", new: "c", want: "\ufeffc\nb\n", count: 1, strategy: Exact},
		{name: "mixed endings stay", text: "a\r\nb\nc\r\nd", old: "c\nd", new: "e\nf", want: "a\r\nb\ne\r\nf", count: 1, strategy: LineTrimmed},
		{name: "new lines end as the passage does", text: "a\r\nb\r\n", old: "b", new: "b\nc", want: "a\r\nb\r\nc\r\n", count: 1, strategy: Exact},
		{name: "half a line ending is none", text: "a\r\nb\r\n", old: "\nb", new: "\nc", want: "a\r\nc\r\n", count: 1, strategy: LineTrimmed},
		{name: "carriage returns by name", text: "a\r\nb\r\n", old: "\r\n", new: "\n", all: true, want: "a\nb\n", count: 2, strategy: Exact},
		{name: "bytes that are no text stay", text: "\xff\xfe a\nkey = 1\n\x80\n", old: "key = 1", new: "key = 2", want: "\xff\xfe a\nkey = 2\n\x80\n",
			wrong: "\ufffd\ufffd a\nkey = 2\n\ufffd\n", count: 1, strategy: Exact},
		{name: "kept lines keep their bytes", text: "s = “a”\nx = 1\n", old: "s = \"a\"\nx = 1", new: "s = \"a\"\nx = 2",
			want: "s = “a”\nx = 2\n", count: 1, strategy: UnicodeNormalized},
		{name: "indentation follows kept lines", text: "    if x:\n        y()\n", old: "if x:\n  y()", new: "if x:\n  y()\n  z()",
			want: "    if x:\n        y()\n        z()\n", count: 1, strategy: LineTrimmed},
		{name: "dedent", text: "    a()\n", old: "        a()", new: "        a()\n    b()", want: "    a()\nb()\n", count: 1, strategy: LineTrimmed},
		{name: "both kinds of blanks", text: "\tif  (x) {\n\t\ty( 1,  2 );\n\t}\n", old: "if (x) {\n  y( 1, 2 );\n}", new: "if (x) {\n}",
			want: "\tif  (x) {\n\t}\n", count: 1, strategy: IndentationFlexible},
		{name: "blanks around the passage", text: "a; foo(); b\n", old: "\n  foo();\n", new: "\n  bar();\n", want: "a; bar(); b\n", count: 1, strategy: TrimmedBoundary},
		{name: "not within a word", text: "concatenate\n", old: "\ncat\n", new: "\ndog\n", errorHasPrefix: "Could not find"},
		{name: "nothing but blanks is never fuzzy", text: "a\n\n\nb\n", old: "\t", new: "x", errorHasPrefix: "Could not find"},
		{name: "block by its ends", text: "func a() {\n\tfoo(1)\n\tbar(two)\n}\n", old: "func a() {\n\tfoo(1)\n\tbar(2)\n}", new: "func a() {\n}",
			want: "func a() {\n}\n", count: 1, strategy: BlockAnchor},
		{name: "block unlike inside", text: "func a() {\n\tdelete(everything)\n}\n", old: "func a() {\n\tx := 1\n}", new: "func a() {\n}", errorHasPrefix: "Could not find"},
		{name: "one word wrong in context", text: "alpha one\nbeta two\ngamma three\n", old: "alpha one\nbeta too\ngamma theree", new: "alpha one\nbeta 2\ngamma theree",
			errorHasPrefix: "Could not find"}, // one of three the same is too few
		{name: "context", text: "alpha one\nbeta two\ngamma three\n", old: "alpha one\nbeta two\ngamma theree", new: "alpha one\nbeta 2\ngamma theree",
			want: "alpha one\nbeta 2\ngamma three\n", count: 1, strategy: ContextAware},
		{name: "similar line among strangers", text: "alpha one\nsomething else\ngamma three\nx\n", old: "alpha one\nbeta two\ngamma three\ny", new: "q",
			errorHasPrefix: "Could not find"},
		{name: "tab spelled out in an indentation", text: "\ta()\n", old: "\ta()", new: `\tb("\t")`, want: "\tb(\"\\t\")\n", wrong: "\tb(\"\t\")\n", count: 1, strategy: Exact},
		{name: "missing final break stays missing", text: "a \nb", old: "a\nb\n", new: "a\nc\n", want: "a \nc", count: 1, strategy: LineTrimmed},
		{name: "delete lines", text: "a\n  b\nc\n", old: "b  \n", new: "", want: "a\nc\n", count: 1, strategy: LineTrimmed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Replace(tt.text, tt.old, tt.new, tt.all)
			if tt.errorHasPrefix != "" {
				if err == nil || !strings.HasPrefix(err.Error(), tt.errorHasPrefix) {
					t.Fatalf("got %+v, error %v; want an error that begins %q", got, err, tt.errorHasPrefix)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.wrong != "" && got.Text == tt.wrong {
				t.Fatalf("gave the known wrong answer %q", tt.wrong)
			}
			if got != (Replaced{tt.want, tt.count, tt.strategy}) {
				t.Errorf("got %+v\nwant %+v", got, Replaced{tt.want, tt.count, tt.strategy})
			}
		})
	}
}

func TestSuggestion(t *testing.T) {
	_, err := Replace("one\ntwo\nhello world\nfour\n", "hello werld!", "x", false)
	var miss *NoMatchError
	if !errors.As(err, &miss) {
		t.Fatal(err)
	}
	want := "Could not find a match for old_string in the file\n\nDid you mean one of these sections?\n" +
		"   1| one\n   2| two\n   3| hello world\n   4| four"
	if got := err.Error(); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want prefix %q", got, want)
	}
}
