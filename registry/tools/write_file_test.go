package tools

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/registry"
)

// TestWriteFileGolden holds the outputs of the reference; fault is what it
// answers where that is wrong.
func TestWriteFileGolden(t *testing.T) {
	b := setup(t, nil)
	b.file("target.txt", "old")
	if err := os.Symlink("target.txt", b.dir+"/ln"); err != nil {
		t.Fatal(err)
	}
	b.file("crlf.txt", "a\r\nb\r\n")
	b.file("mixed.txt", "a\r\nb\n")
	b.file("bom.txt", "\xef\xbb\xbfold")
	b.file("dir/x", "")
	b.file("exists/x.txt", "")
	for _, tt := range []struct {
		name, content string
		want, fault   args
		disk          string
	}{
		{"new/sub/a.txt", "hi\n", args{"bytes_written": 3, "dirs_created": true, "lint": args{"status": "skipped", "message": "No linter for .txt files"},
			"resolved_path": b.dir + "/new/sub/a.txt", "files_modified": []string{b.dir + "/new/sub/a.txt"}, "error": nil, "_warning": nil}, nil, "hi\n"},
		{"new/sub/b.txt", "", args{"bytes_written": 0, "dirs_created": false, "error": nil}, args{"dirs_created": true}, ""},
		{"ln", "through", args{"resolved_path": b.dir + "/target.txt"}, nil, "through"},
		{"crlf.txt", "x\ny\n", args{"bytes_written": 6}, nil, "x\r\ny\r\n"},
		{"crlf.txt", "x\r\ny\r\n", args{"bytes_written": 6}, nil, "x\r\ny\r\n"},
		{"mixed.txt", "x\ny\n", args{"bytes_written": 4}, nil, "x\ny\n"},
		{"bom.txt", "new", args{"bytes_written": 6}, nil, "\xef\xbb\xbfnew"},
		{"bom.txt", "\xef\xbb\xbfnew2", args{"bytes_written": 7}, nil, "\xef\xbb\xbfnew2"},
		{"Makefile", "all:\n", args{"lint": args{"status": "skipped", "message": "No linter for files without an extension"}}, nil, "all:\n"},
	} {
		got := b.call(model, "write_file", args{"path": tt.name, "content": tt.content})
		matches(t, "write_file "+tt.name, got, tt.want)
		for key, wrong := range tt.fault {
			if got[key] == wrong {
				t.Errorf("write_file %s: has the reference's fault: %s = %v", tt.name, key, wrong)
			}
		}
		if disk := b.disk(tt.name); disk != tt.disk {
			t.Errorf("write_file %s: on disk %q, want %q", tt.name, disk, tt.disk)
		}
	}
	if info, err := os.Lstat(b.dir + "/ln"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", info)
	}
	// The mode of a new file is the umask's business, not 0600.
	plain := b.file("plain.txt", "")
	if got, want := mode(t, b.dir+"/new/sub/a.txt"), mode(t, plain); got != want {
		t.Errorf("mode of a new file %v, want %v", got, want)
	}
	for in, want := range map[string]args{
		"dir":        {"bytes_written": 0, "dirs_created": false, "error": "Failed to write file: '" + b.dir + "/dir' is a directory", "lint": nil, "files_modified": nil},
		"dir/x/y":    {"error": "A part of 'dir/x/y' is a file, not a directory"},
		"":           {"error": "path required"},
		"a\x00":      {"error": "a path cannot contain a NUL byte"},
		"../out.txt": {"_warning": "Relative path '../out.txt' means " + filepath.Dir(b.dir) + "/out.txt, which is OUTSIDE the active workspace…"},
	} {
		matches(t, "write_file "+in, b.call(model, "write_file", args{"path": in, "content": "x"}), want)
	}
	for _, bad := range []any{args{"path": "f"}, args{"path": "f", "content": nil}, args{"path": "f", "content": 5}} {
		got := b.call(model, "write_file", bad)
		if text, _ := got["error"].(string); !strings.HasPrefix(text, "write_file: ") || !strings.Contains(text, "'content'") {
			t.Errorf("write_file %v: %v", bad, got)
		}
	}
	matches(t, "number", b.call(model, "write_file", args{"path": "f", "content": 5}), args{"error": "write_file: 'content' must be a string, got int."})
	// The note about an unchanged file is no content.
	b.file("note.txt", "precious")
	matches(t, "note", b.call(model, "write_file", args{"path": "note.txt", "content": unchangedText + "\n"}), args{"bytes_written": 0, "error": "The content is read_file's note…"})
	if b.disk("note.txt") != "precious" {
		t.Error("the note was written")
	}
	if left, _ := filepath.Glob(b.dir + "/.hermes*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func mode(t *testing.T, name string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestWriteFileStale(t *testing.T) {
	b := setup(t, nil)
	name := b.file("f.txt", strings.Repeat("line\n", 10))
	other := registry.Caller{Kind: registry.Model, Session: "ee"}
	write := func(c registry.Caller) map[string]any {
		return b.call(c, "write_file", args{"path": "f.txt", "content": strings.Repeat("line\n", 10)})
	}
	touch := func() {
		if err := os.WriteFile(name, []byte("outside\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	external := name + " was modified since you last read it on disk (external edit or unrecorded writer). Re-read the file before writing."
	partial := name + " was last read with offset/limit pagination (partial view). Re-read the whole file before overwriting it."
	unread := name + " was modified by sibling subagent 'aa' but this agent never read it. Read the file before writing to avoid overwriting the sibling's changes."
	sibling := name + " was modified by sibling subagent 'ee' after you last read it. Re-read the file before writing."

	matches(t, "never read", write(model), args{"_warning": nil})
	matches(t, "own write", write(model), args{"_warning": nil})
	matches(t, "sibling that never read", write(other), args{"_warning": unread})
	matches(t, "after the sibling", write(model), args{"_warning": sibling})
	touch()
	matches(t, "external edit", write(model), args{"_warning": external})
	matches(t, "own write again", write(model), args{"_warning": nil})
	b.call(model, "read_file", args{"path": "f.txt", "offset": 2, "limit": 2})
	matches(t, "partial", write(model), args{"_warning": partial})
	b.call(model, "read_file", args{"path": "f.txt"})
	matches(t, "whole", write(model), args{"_warning": nil})
	b.call(script, "read_file", args{"path": "f.txt"})
	touch()
	matches(t, "a script", b.call(script, "write_file", args{"path": "f.txt", "content": "x"}), args{"_warning": external, "bytes_written": 1})
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	matches(t, "gone", write(model), args{"_warning": nil})
}

func TestWriteFileLint(t *testing.T) {
	b := setup(t, nil)
	preexisting := "Pre-existing lint errors — this edit didn't introduce new ones but the file is still broken."
	for i, tt := range []struct {
		name, content string
		want          args
	}{
		{"a.json", "{bad", args{"status": "error", "output": "JSONDecodeError: Expecting property name enclosed in double quotes (line 1, column 2)"}},
		{"ok.json", "{\"a\": [1, 2.5e3, null, \"\\u00e9\"]}\n", args{"status": "ok"}},
		{"tsconfig.json", "{\n  // comment\n  \"a\": [1, 2,],\n}\n", args{"status": "ok"}},
		{"package.json", "{\n  // comment\n}\n", args{"status": "error", "output": "JSONDecodeError: Expecting property name enclosed in double quotes (line 2, column 3)"}},
		{"a.yaml", "a: 1\n---\nb: !Ref x\n", args{"status": "ok"}}, // several documents, a tag of its own
		{"b.yml", "a: [1\nb: 2\n", args{"status": "error", "output": "YAMLError: …"}},
		{"a.toml", "[a]\nb = 1\n", args{"status": "ok"}},
		{"b.toml", "[a]\nb = \n", args{"status": "error", "output": "TOMLDecodeError: …"}},
		{"a.go", "package a\n", args{"status": "ok"}},
		{"b.go", "package a\nfunc {\n", args{"status": "error", "output": "SyntaxError: …"}},
		{"a.py", "def f(:\n", args{"status": "error", "output": "SyntaxError: invalid syntax (line 1, column 7)", "message": nil}},
		{"a.py", "def f(:\n", args{"status": "error", "message": preexisting}},
		{"a.py", "def f(): pass\n", args{"status": "ok"}},
		{"a.py", "print('é')\nx = (\n", args{"status": "error", "output": "SyntaxError: '(' was never closed (line 2, column 5)", "message": nil}},
		{"a.json", "{bad", args{"status": "error", "message": preexisting}},
		{"a.json", "{\"a\":1,}", args{"status": "error", "message": nil}}, // another error than before
	} {
		what := fmt.Sprint(i, " ", tt.name)
		got := b.call(model, "write_file", args{"path": tt.name, "content": tt.content})
		lint, ok := got["lint"].(map[string]any)
		if !ok {
			t.Fatalf("%s: %v", what, got)
		}
		matches(t, what, lint, tt.want)
	}
	// A script waits for no checker process.
	got := b.call(script, "write_file", args{"path": "s.py", "content": "def f(:"})
	matches(t, "script", got["lint"].(map[string]any), args{"status": "skipped", "message": "Not checked for scripts: .py files need a checker process"})
	got = b.call(script, "write_file", args{"path": "s.json", "content": "{bad"})
	matches(t, "script", got["lint"].(map[string]any), args{"status": "error"})
	if left, _ := filepath.Glob(b.box.Info().ScratchDir + "/check-*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestWriteFileCheckers uses the checkers of the box, real ones where they are
// installed, else stand-ins that answer as they do.
func TestWriteFileCheckers(t *testing.T) {
	tools := t.TempDir()
	standIn := func(name, script string) {
		if err := os.WriteFile(tools+"/"+name, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	standIn("tsc", `for f; do :; done
if grep -q broken "$f"; then
  echo "$f(1,3): error TS1005: ';' expected."; echo "$f(2,1): error TS2304: Cannot find name 'y'."; exit 2
fi
echo "$f(1,1): error TS2307: Cannot find module 'z'."; exit 2
`)
	standIn("rustfmt", `if grep -q broken; then
  printf 'error: expected one of x, found y\n --> <stdin>:1:4\n  |\n1 | fn broken\n' >&2; exit 1
fi
`)
	standIn("node", `for f; do :; done
case $f in *.mjs) grep -q broken "$f" || exit 0; ;; *) grep -qE 'broken|^import' "$f" || exit 0 ;; esac
printf '%s:3\nimport x\n^^^^^^\n\nSyntaxError: Unexpected token\n    at wrap (node:internal)\n' "$f" >&2; exit 1
`)
	b := setup(t, func(c *Config) { c.Env = []string{"PATH=" + tools + ":" + os.Getenv("PATH")} })
	for _, tt := range []struct {
		name, content string
		want          args
	}{
		{"a.ts", "import z\n", args{"status": "ok", "output": nil}},
		{"a.ts", "broken\n", args{"status": "error", "output": "a.ts(1,3): error TS1005: ';' expected.", "message": nil}},
		{"a.ts", "broken\n\n", args{"status": "error", "message": "Pre-existing lint errors…"}},
		{"a.rs", "fn main() {}\n", args{"status": "ok"}},
		{"a.rs", "fn broken\n", args{"status": "error", "output": "error: expected one of x, found y\n--> <stdin>:1:4"}},
		{"a.js", "x = 1\n", args{"status": "ok"}},
		{"a.js", "import x\n", args{"status": "ok"}}, // as a module
		// The reference checks the new text twice and calls this pre-existing.
		{"a.js", "broken\n", args{"status": "error", "output": "SyntaxError: Unexpected token (line 3)", "message": nil}},
		{"a.js", "broken\n\n", args{"status": "error", "message": "Pre-existing lint errors…"}},
	} {
		got := b.call(model, "write_file", args{"path": tt.name, "content": tt.content})
		matches(t, tt.name+" "+tt.content, got["lint"].(map[string]any), tt.want)
	}
	none := setup(t, func(c *Config) { c.Env = []string{"PATH=" + t.TempDir()} })
	for _, name := range []string{"a.py", "a.js", "a.ts", "a.rs"} {
		got := none.call(model, "write_file", args{"path": name, "content": "broken ("})
		if lint := got["lint"].(map[string]any); lint["status"] != "skipped" || !strings.HasSuffix(lint["message"].(string), " is not available") {
			t.Errorf("%s without a checker: %v", name, lint)
		}
	}
	if left, _ := filepath.Glob(b.box.Info().ScratchDir + "/check-*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestWriteFileConcurrent: many writers of one file, readers in between; every
// reader sees one writer's whole text.
func TestWriteFileConcurrent(t *testing.T) {
	b := setup(t, nil)
	text := func(i int) string { return strings.Repeat(fmt.Sprintln("writer", i), 200) }
	valid := []string{""}
	for i := range 8 {
		valid = append(valid, text(i))
	}
	b.file("f.txt", "")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 20 {
				if got := b.call(script, "write_file", args{"path": "f.txt", "content": text(i)}); got["error"] != nil {
					t.Error(got)
				}
				if got := b.call(script, "read_file", args{"path": "f.txt", "limit": 0}); !slices.Contains(valid, got["content"].(string)) {
					t.Errorf("a mixture: %.60q", got["content"])
				}
			}
		})
	}
	wg.Wait()
}

func TestPathLocks(t *testing.T) {
	var l pathLocks
	unlock, err := l.lock(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.lock(context.Background(), "b")
	if err != nil {
		t.Fatal(err)
	}
	other()
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if _, err := l.lock(ctx, "a"); !errors.Is(err, why) {
		t.Errorf("lock of a held path: %v", err)
	}
	unlock()
	if len(l.held) != 0 {
		t.Errorf("%d locks are kept", len(l.held))
	}
}

func FuzzWriteFile(f *testing.F) {
	f.Add("f.json", "{bad")
	f.Add("f.yaml", "a: *x\n\t- b")
	f.Add("f.toml", "[[a]\n")
	f.Add("f.go", "package \x00")
	f.Add("tsconfig.json", "/* ")
	f.Add("~/.ssh/x", "\xef\xbb\xbf\r\n")
	b := setup(f, nil)
	f.Fuzz(func(t *testing.T, name, content string) {
		b.t = t
		if !utf8.ValidString(name) || !utf8.ValidString(content) || strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
			return
		}
		got := b.call(script, "write_file", args{"path": name, "content": content})
		if got["error"] != nil {
			return
		}
		path, _ := got["resolved_path"].(string)
		if !strings.HasPrefix(path, filepath.Dir(b.dir)) {
			t.Fatalf("%q landed in %q", name, path)
		}
		if back := b.call(script, "read_file", args{"path": name, "limit": 0}); back["error"] == nil && back["content"] != content &&
			strings.ReplaceAll(strings.TrimPrefix(back["content"].(string), bom), "\r", "") != strings.ReplaceAll(strings.TrimPrefix(content, bom), "\r", "") {
			t.Errorf("wrote %q, read %q", content, back["content"])
		}
		os.Remove(path)
	})
}

func FuzzCheckJSON(f *testing.F) {
	f.Add("{\"a\": [1, -2.5e+3, true, null, \"\\ud83d\\ude00\"]}")
	f.Add("[1,]")
	f.Add("\"\\x\"")
	f.Fuzz(func(t *testing.T, text string) {
		strict, loose := checkJSON(text, false), checkJSON(text, true)
		if strict == "" && loose != "" {
			t.Errorf("%q: fine without comments, wrong with: %s", text, loose)
		}
		if utf8.ValidString(text) && jsonValid(text) != (strict == "") && !pythonOnly(text) {
			t.Errorf("%q: %q", text, strict)
		}
	})
}
