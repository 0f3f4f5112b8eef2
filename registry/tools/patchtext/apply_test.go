package patchtext

import (
	"strings"
	"testing"
)

// applyAll parses patch, which must be updates of one file, and applies it.
func applyAll(t *testing.T, text, patch string) (string, Strategy, error) {
	t.Helper()
	ops, err := Parse(patch)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	loosest := Exact
	for _, op := range ops {
		var s Strategy
		if text, s, err = op.Apply(text); err != nil {
			return "", "", err
		}
		if s != Exact {
			loosest = s
		}
	}
	return text, loosest, nil
}

func TestApply(t *testing.T) {
	const classes = "class A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n"
	v4a := func(body string) string {
		return "*** Begin Patch\n*** Update File: f\n" + body + "\n*** End Patch\n"
	}
	uni := func(body string) string { return "--- a/f\n+++ b/f\n" + body }
	tests := []struct {
		name, text, patch string
		want, wrong       string
		strategy          Strategy
		err               string
	}{
		{name: "simple", text: "a\nb\nc\n", patch: v4a("@@\n a\n-b\n+B\n c"), want: "a\nB\nc\n"},
		{name: "blank context lines count", text: "a\n\nb\nx\na\nb\n", patch: v4a("@@\n a\n\n-b\n+c"),
			want: "a\n\nc\nx\na\nb\n", wrong: "a\n\nb\nx\na\nc\n"},
		{name: "blank line before the end is no context", text: "a\nb\n", patch: v4a("@@\n-a\n+c\n\n"), want: "c\nb\n"},
		{name: "end of file", text: "x = 1\ny\nx = 1\n", patch: v4a("@@\n-x = 1\n+x = 2\n*** End of File"),
			want: "x = 1\ny\nx = 2\n", wrong: "x = 1\ny\nx = 2\n*** End of File\n"},
		{name: "end of file holds", text: "x = 1\ny\n", patch: v4a("@@\n-x = 1\n+x = 2\n*** End of File"), err: "hunk (no hint) not found"},
		{name: "nested hints", text: classes, patch: v4a("@@ class B:\n@@     def f(self):\n-        return 1\n+        return 2"),
			want: strings.Replace(classes, "return 1\n\nclass B:\n    def f(self):\n        return 1", "return 1\n\nclass B:\n    def f(self):\n        return 2", 1)},
		{name: "hint disambiguates", text: classes, patch: v4a("@@ class B:\n-        return 1\n+        return 2"),
			want: classes[:len(classes)-2] + "2\n"},
		{name: "hint with trailing marker", text: classes, patch: v4a("@@ class B: @@\n-        return 1\n+        return 2"),
			want: classes[:len(classes)-2] + "2\n"},
		{name: "ambiguous hint", text: classes, patch: v4a("@@ def f(self):\n-        return 1\n+        return 2"), err: "hunk 'def f(self):' is ambiguous"},
		{name: "no hint", text: classes, patch: v4a("@@\n-        return 1\n+        return 2"), err: "hunk (no hint) is ambiguous — its lines are in the file 2 times"},
		{name: "hunks are in order", text: "a\nx\nb\nx\n", patch: v4a("@@\n-b\n+B\n@@\n-x\n+y"), want: "a\nx\nB\ny\n"},
		{name: "later hunk sees earlier ones", text: "a\nb\n", patch: v4a("@@\n a\n+n\n@@\n n\n-b\n+c"), want: "a\nn\nc\n"},
		{name: "two updates of one file", text: "a\nb\n", patch: v4a("@@\n-a\n+b2\n*** Update File: f\n@@\n-b2\n+c\n b"), want: "c\nb\n"},
		{name: "additions after a hint", text: "import a\nimport b\n", patch: v4a("@@ import a\n+import c"), want: "import a\nimport c\nimport b\n"},
		{name: "additions at the end", text: "a\n", patch: v4a("@@\n+b"), want: "a\nb\n"},
		{name: "additions to a file without a final break", text: "a", patch: v4a("+b"), want: "a\nb"},
		{name: "additions to an empty file", text: "", patch: v4a("+b"), want: "b\n"},
		{name: "additions with a blank line", text: "a\n", patch: v4a("@@\n+b\n\n+c"), want: "a\nb\n\nc\n"},
		{name: "additions after an unknown hint", text: "a\n", patch: v4a("@@ nothing\n+b"), err: "hunk 'nothing' not found"},
		{name: "crlf file", text: "a\r\nb\r\n", patch: v4a("@@\n a\n-b\n+c\n+d"), want: "a\r\nc\r\nd\r\n", strategy: LineTrimmed},
		{name: "crlf patch", text: "a\nb\n", patch: strings.ReplaceAll(v4a("@@\n a\n-b\n+c"), "\n", "\r\n"), want: "a\nc\n"},
		{name: "crlf patch of a crlf file", text: "a\r\nb\r\n", patch: strings.ReplaceAll(v4a("@@\n a\n-b\n+c"), "\n", "\r\n"), want: "a\r\nc\r\n", strategy: LineTrimmed},
		{name: "mixed endings", text: "a\r\nb\nc\r\n", patch: v4a("@@\n a\n b\n-c\n+d"), want: "a\r\nb\nd\r\n", strategy: LineTrimmed},
		{name: "byte order mark", text: "\ufeffa\nb\n", patch: v4a("@@\n-a\n+c"), want: "\ufeffc\nb\n"},
		{name: "bytes", text: "\xff\na\n\x80", patch: v4a("@@\n-a\n+b"), want: "\xff\nb\n\x80"},
		{name: "no final break", text: "a\nb", patch: v4a("@@\n a\n-b\n+c"), want: "a\nc"},
		{name: "indentation of the file", text: "\tif x {\n\t\ty()\n\t}\n", patch: v4a("@@\n if x {\n \ty()\n+\tz()\n }"),
			want: "\tif x {\n\t\ty()\n\t\tz()\n\t}\n", strategy: LineTrimmed},
		{name: "context keeps its trailing blanks", text: "a  \nb\n", patch: v4a("@@\n a\n-b\n+c"), want: "a  \nc\n", strategy: LineTrimmed},
		{name: "unprefixed context", text: "\tfoo()\n\tbar()\n", patch: v4a("@@\n\tfoo()\n-\tbar()\n+\tbaz()"), want: "\tfoo()\n\tbaz()\n"},
		{name: "not there", text: "q\n", patch: v4a("@@\n-something\n+else"), err: "hunk (no hint) not found — Could not find a match for old_string in the file"},
		{name: "similar single line", text: "hello world\n", patch: v4a("@@\n-hallo warld\n+x"), wrong: "x\n", err: "not found"},
		{name: "deletes all", text: "a\nb\n", patch: v4a("@@\n-a\n-b"), want: ""},

		{name: "unified", text: "a\nb\nc\n", patch: uni("@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"), want: "a\nB\nc\n"},
		{name: "unified picks by line", text: "x\na\nx\na\nx\n", patch: uni("@@ -5 +5 @@\n-x\n+y\n"), want: "x\na\nx\na\ny\n"},
		{name: "unified with a line off by one", text: strings.Repeat("x\na\nb\nc\nd\n", 3), patch: uni("@@ -7,1 +7,1 @@\n-x\n+y\n"),
			want: "x\na\nb\nc\nd\ny\na\nb\nc\nd\nx\na\nb\nc\nd\n"},
		{name: "unified with a line between two", text: "x\na\nb\nx\n", patch: uni("@@ -2 +2 @@\n-x\n+y\n"), err: "ambiguous"},
		{name: "unified with wrong counts", text: "a\nb\nc\n", patch: uni("@@ -1,9 +1,2 @@\n a\n-b\n+B\n+B2\n c\n"), want: "a\nB\nB2\nc\n"},
		{name: "unified without numbers", text: "a\nb\nc\n", patch: uni("@@ ... @@\n-b\n+B\n"), want: "a\nB\nc\n"},
		{name: "drift", text: "a\nx\nb\nx\n", patch: uni("@@ -1 +1,3 @@\n a\n+1\n+2\n@@ -4 +6 @@\n-x\n+y\n"), want: "a\n1\n2\nx\nb\ny\n"},
		{name: "insertion without context", text: "a\nb\n", patch: uni("@@ -1,0 +2 @@\n+n\n"), want: "a\nn\nb\n"},
		{name: "insertion at the top", text: "a\n", patch: uni("@@ -0,0 +1 @@\n+n\n"), want: "n\na\n"},
		{name: "add the final break", text: "a", patch: uni("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"), want: "a\n", wrong: "a"},
		{name: "take the final break", text: "a\n", patch: uni("@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file\n"), want: "a"},
		{name: "append behind a line without a break", text: "a", patch: uni("@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"), want: "a\nb\n"},
		{name: "change of line endings", text: "a\r\n", patch: uni("@@ -1 +1 @@\n-a\r\n+a\n"), want: "a\n"},
		{name: "lines that look like headers", text: "-- x\n++ y\n", patch: uni("@@ -1,2 +1,2 @@\n--- x\n+-- z\n ++ y\n"), want: "-- z\n++ y\n"},
		{name: "mail signature", text: "a\n", patch: uni("@@ -1 +1 @@\n-a\n+b\n-- \n2.43.0\n"), want: "b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.strategy == "" {
				tt.strategy = Exact
			}
			got, strategy, err := applyAll(t, tt.text, tt.patch)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %q, error %v; want error %q", got, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.wrong != "" && got == tt.wrong {
				t.Fatalf("gave the known wrong answer %q", got)
			}
			if got != tt.want || strategy != tt.strategy {
				t.Errorf("got  %q %s\nwant %q %s", got, strategy, tt.want, tt.strategy)
			}
		})
	}
}

func TestParse(t *testing.T) {
	type want struct {
		kind     Kind
		path, to string
		content  string
	}
	tests := []struct {
		name, patch string
		want        []want
		err         string
	}{
		{name: "empty", patch: "", err: "no operations found"},
		{name: "prose", patch: "please fix it\n", err: "no operations found"},
		{name: "no operation within", patch: "*** Begin Patch\n*** End Patch\n", err: "no operations found"},
		{name: "add", patch: "*** Add File: a b\n+x\n+\n+y\n", want: []want{{Add, "a b", "", "x\n\ny\n"}}},
		{name: "add, blank lines bare", patch: "*** Add File: a\n+x\n\n+y\n\n*** End Patch", want: []want{{Add, "a", "", "x\n\ny\n"}}},
		{name: "add, open end", patch: "*** Add File: a\n+x\n\\ No newline at end of file\n", want: []want{{Add, "a", "", "x"}}},
		{name: "add, a file of headers", patch: "*** Add File: a\n+*** Update File: b\n+*** End Patch\n", want: []want{{Add, "a", "", "*** Update File: b\n*** End Patch\n"}}},
		{name: "add, line without +", patch: "*** Add File: a\nx\n", err: "every line of an added file begins with +"},
		{name: "spellings", patch: "***Begin Patch\n***Delete File:a\n***\tDELETE\tfile :\tb\t\r\n*** delete File: c\n****  Move   File: d->e\n***Update File: f\n***Move To: g\n***END PATCH***",
			want: []want{{Delete, "a", "", ""}, {Delete, "b", "", ""}, {Delete, "c", "", ""}, {Move, "d", "e", ""}, {Move, "f", "g", ""}}},
		{name: "move", patch: "*** Move File: a -> b\n", want: []want{{Move, "a", "b", ""}}},
		{name: "move to", patch: "*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n", want: []want{{Move, "a", "b", ""}}},
		{name: "move nowhere", patch: "*** Move File: a\n", err: "no path to move to"},
		{name: "stray move to", patch: "*** Move to: b\n", err: "must follow"},
		{name: "unknown header", patch: "*** Begin Patch\n*** Frobnicate File: a\n*** End Patch", err: `unknown header "*** Frobnicate File: a"`},
		{name: "unknown header in front", patch: "*** Delte File: a\n*** Delete File: b\n", err: "line 1: unknown header"},
		{name: "unknown header in an update", patch: "*** Update File: a\n@@\n-x\n+y\n*** Updat File: b\n-x\n+y\n", err: "line 5: unknown header"},
		{name: "zero width", patch: "*** Update File: a\n-x\n+y\n*** Up\u200bdate File: b\n-x\n+y\n", err: "unknown header"},
		{name: "no colon", patch: "*** Delete File: a\n*** Delete File b\n", err: "line 2"},
		{name: "no path", patch: "*** Delete File:\n", err: "without a path"},
		{name: "nul", patch: "*** Delete File: a\x00b\n", err: "NUL"},
		{name: "update without changes", patch: "*** Update File: a\n@@\n x\n", err: "changes nothing"},
		{name: "lines outside", patch: "*** Begin Patch\n+x\n", err: "belongs to no file"},
		{name: "operation after the end", patch: "*** Delete File: a\n*** End Patch\n*** Delete File: b\n", err: "after *** End Patch"},
		{name: "prose and fences around", patch: "Here:\n```\n*** Begin Patch\n*** Delete File: a\n*** End Patch\n```\n", want: []want{{Delete, "a", "", ""}}},
		{name: "lines in a deletion", patch: "*** Delete File: a\n-x\n", err: "a deletion has no lines"},

		{name: "unified add", patch: "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1,2 @@\n+x\n+y\n\\ No newline at end of file\n", want: []want{{Add, "n.py", "", "x\ny"}}},
		{name: "unified delete", patch: "--- a/n.py\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n", want: []want{{Delete, "n.py", "", ""}}},
		{name: "unified without prefixes", patch: "--- n.py\t2024-01-01 00:00:00\n+++ n.py\t2024-01-01 00:00:00\n@@ -1 +1 @@\n-x\n+y\n", want: []want{{Update, "n.py", "", ""}}},
		{name: "git rename", patch: "diff --git a/x y b/z\nsimilarity index 100%\nrename from x y\nrename to z\n", want: []want{{Move, "x y", "z", ""}}},
		{name: "git quoted", patch: "diff --git \"a/\\303\\244\" \"b/\\303\\244\"\nindex 1..2 100644\n--- \"a/\\303\\244\"\n+++ \"b/\\303\\244\"\n@@ -1 +1 @@\n-x\n+y\n", want: []want{{Update, "ä", "", ""}}},
		{name: "git empty file", patch: "diff --git a/e b/e\nnew file mode 100644\nindex 0..0\n", want: []want{{Add, "e", "", ""}}},
		{name: "git symlink", patch: "diff --git a/e b/e\nnew file mode 120000\n--- /dev/null\n+++ b/e\n@@ -0,0 +1 @@\n+/etc\n", err: "mode 120000 is not supported"},
		{name: "git mode", patch: "diff --git a/e b/e\nold mode 100644\nnew mode 100755\n", err: "not supported"},
		{name: "git binary", patch: "diff --git a/e b/e\nindex 1..2\nGIT binary patch\nliteral 0\n", err: "binary patches are not supported"},
		{name: "rename that disagrees", patch: "diff --git a/x b/y\nrename from x\nrename to y\n--- a/q\n+++ b/y\n@@ -1 +1 @@\n-x\n+y\n", err: "disagrees"},
		{name: "hunk without a file", patch: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n\n@@ -3 +3 @@\n-x\n+y\n", err: "a hunk without a file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ops, err := Parse(tt.patch)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %+v, error %v; want error %q", ops, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []want
			for _, op := range ops {
				got = append(got, want{op.Kind, op.Path, op.To, op.Content})
			}
			if len(got) != len(tt.want) {
				t.Fatalf("got %+v, want %+v", got, tt.want)
			}
			for i := range got {
				if got[i] != tt.want[i] {
					t.Errorf("operation %d: got %+v, want %+v", i, got[i], tt.want[i])
				}
			}
		})
	}
}
