package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/hermes-exec/hermes-exec/registry"
)

// TestFaults calls the tools where the reference answered wrongly, by the
// numbers of its faults, where no test of the single tool holds them: wrong is
// what it answered, and must not come back.
func TestFaults(t *testing.T) {
	var raw string
	for _, tt := range []struct {
		fault  string
		setup  func(b *bench)
		caller registry.Caller
		tool   string
		in     args
		want   args
		wrong  func(b *bench, got map[string]any) bool
	}{
		{fault: "2 a hint behind the JSON", caller: script, tool: "search_files", in: args{"pattern": "needle", "limit": 5},
			want: args{"truncated": true, "next_offset": 5, "hint": "Results truncated. Use offset=5 to see more…"},
			wrong: func(*bench, map[string]any) bool {
				return !json.Valid([]byte(raw)) || strings.Contains(raw, "\n\n[Hint")
			}},
		{fault: "3 a script is told that nothing changed", caller: script, tool: "read_file", in: args{"path": "nl.txt"},
			setup: func(b *bench) {
				for range 4 { // the model before it, and the script itself
					b.call(model, "read_file", args{"path": "nl.txt"})
					b.call(script, "read_file", args{"path": "nl.txt"})
				}
			},
			want: args{"content": "a\nb\nc\n", "error": nil},
			wrong: func(_ *bench, got map[string]any) bool {
				return got["status"] == "unchanged" || got["already_read"] != nil
			}},
		{fault: "14 digits lost to a float", caller: model, tool: "read_file", in: args{"path": "nl.txt", "offset": "9007199254740993"},
			want:  args{"error": "offset 9007199254740993 is past the end: the file has 3 lines."},
			wrong: func(*bench, map[string]any) bool { return strings.Contains(raw, "9007199254740992") }},
		{fault: "19 a move modifies nothing", caller: model, tool: "patch", in: v4a("*** Move File: nl.txt -> moved/nl.txt"),
			want:  args{"success": true, "files_created": []string{"moved/nl.txt"}, "files_deleted": []string{"nl.txt"}},
			wrong: func(_ *bench, got map[string]any) bool { return len(asList(got["files_modified"])) == 0 }},
		{fault: "19 a move is not stale", caller: model, tool: "patch", in: v4a("*** Move File: nl.txt -> moved.txt"),
			setup: func(b *bench) {
				b.call(model, "read_file", args{"path": "nl.txt"})
				b.file("nl.txt", "somebody else's\n")
			},
			want:  args{"success": true},
			wrong: func(_ *bench, got map[string]any) bool { return got["_warning"] == nil }},
		{fault: "20 a pattern that is an option", caller: model, tool: "search_files", in: args{"pattern": "--pre=./evil"},
			setup: func(b *bench) {
				if err := os.Chmod(b.file("evil", "#!/bin/sh\ntouch "+b.dir+"/ran\n"), 0o755); err != nil {
					b.t.Fatal(err)
				}
			},
			want:  args{"total_count": 0, "error": nil},
			wrong: func(b *bench, _ map[string]any) bool { _, err := os.Stat(b.dir + "/ran"); return err == nil }},
		{fault: "23 a phantom line in every page", caller: model, tool: "read_file", in: args{"path": "nl.txt", "limit": 2},
			want:  args{"content": "1|a\n2|b"},
			wrong: func(_ *bench, got map[string]any) bool { return strings.HasSuffix(got["content"].(string), "|") }},
		{fault: "24 the last line is missing", caller: script, tool: "read_file", in: args{"path": "nonl.txt", "limit": 2},
			want:  args{"content": "a\nb\n", "total_lines": 3},
			wrong: func(_ *bench, got map[string]any) bool { return got["truncated"] == false }},
		{fault: "27 a new file is private", caller: model, tool: "write_file", in: args{"path": "fresh.txt", "content": "x"},
			want: args{"bytes_written": 1, "dirs_created": false},
			wrong: func(b *bench, _ map[string]any) bool {
				return mode(b.t.(*testing.T), b.path("fresh.txt")) != mode(b.t.(*testing.T), b.file("plain.txt", "x"))
			}},
		{fault: "28 files that are left out", caller: model, tool: "search_files", in: args{"pattern": "a|needle", "output_mode": "files_only", "limit": 1},
			want:  args{"total_count": 3, "next_offset": 1, "files": []string{"hits.txt"}},
			wrong: func(_ *bench, got map[string]any) bool { return got["truncated"] != true }},
		{fault: "28 counts that are left out", caller: model, tool: "search_files", in: args{"pattern": "a|needle", "output_mode": "count", "limit": 1},
			want:  args{"total_count": 32, "next_offset": 1, "counts": args{"hits.txt": 30}},
			wrong: func(_ *bench, got map[string]any) bool { return got["truncated"] != true }},
		{fault: "28 names that are left out", caller: model, tool: "search_files", in: args{"pattern": "*.txt", "target": "files", "limit": 2},
			want:  args{"total_count": 3, "next_offset": 2},
			wrong: func(_ *bench, got map[string]any) bool { return got["truncated"] != true }},
		{fault: "41 a write another task does not see", caller: model, tool: "read_file", in: args{"path": "nl.txt"},
			setup: func(b *bench) {
				b.call(model, "read_file", args{"path": "nl.txt"})
				info, err := os.Stat(b.path("nl.txt"))
				if err != nil {
					b.t.Fatal(err)
				}
				b.call(registry.Caller{Kind: registry.Model, Session: "ee"}, "write_file", args{"path": "nl.txt", "content": "x\ny\nz\n"})
				if err := os.Chtimes(b.path("nl.txt"), time.Time{}, info.ModTime()); err != nil {
					b.t.Fatal(err)
				}
			},
			want:  args{"content": "1|x\n2|y\n3|z"},
			wrong: func(_ *bench, got map[string]any) bool { return got["status"] == "unchanged" }},
		{fault: "46 workdir sticks", caller: model, tool: "read_file", in: args{"path": "nl.txt"},
			setup: func(b *bench) { b.call(model, "terminal", args{"command": "true", "workdir": "/"}) },
			want:  args{"content": "1|a\n2|b\n3|c"},
			wrong: func(_ *bench, got map[string]any) bool { return got["error"] != nil }},
	} {
		t.Run(tt.fault, func(t *testing.T) {
			b := setup(t, nil)
			b.file("nl.txt", "a\nb\nc\n")
			b.file("nonl.txt", "a\nb\nc")
			b.file("hits.txt", strings.Repeat("needle\n", 30))
			if tt.setup != nil {
				tt.setup(b)
			}
			in, err := json.Marshal(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			answer := b.reg.Dispatch(t.Context(), tt.caller, tt.tool, in)
			raw = string(answer)
			var got map[string]any
			if err := json.NewDecoder(bytes.NewReader(answer)).Decode(&got); err != nil {
				t.Fatalf("%s: %v", raw, err)
			}
			if tt.wrong(b, got) {
				t.Errorf("has the reference's fault: %s", raw)
			}
			matches(t, raw, got, tt.want)
		})
	}
}

// Fault 26, and what lies beside it: a file in another encoding is patched as
// read_file shows it. wrong is what bytes of UTF-8 put among its own would make
// of it.
func TestPatchEncodings(t *testing.T) {
	utf16 := func(e unicode.Endianness, bom unicode.BOMPolicy) encoding.Encoding { return unicode.UTF16(e, bom) }
	const japaneseText = "これは日本語のテキストです。\n二行目もあります。文字コードの判定に十分な長さが必要です。\n"
	for name, tt := range map[string]struct {
		codec                  encoding.Encoding
		text, old, fresh, want string
	}{
		"utf-16-le":         {utf16(unicode.LittleEndian, unicode.UseBOM), "a\nb\nc\n", "b", "zz", "a\nzz\nc\n"},
		"utf-16-be, é":      {utf16(unicode.BigEndian, unicode.UseBOM), "a\r\nbé\r\n", "bé", "ü\nz", "a\r\nü\r\nz\r\n"},
		"utf-16-le, no BOM": {utf16(unicode.LittleEndian, unicode.IgnoreBOM), "hello there\n", "hello", "bye", "bye there\n"},
		"latin 1":           {charmap.ISO8859_1, "x = 1 # é\ny = 2\n", "# é\ny = 2", "# è\ny = 3", "x = 1 # è\ny = 3\n"},
		"shift-jis":         {japanese.ShiftJIS, japaneseText, "日本語", "英語", strings.Replace(japaneseText, "日本語", "英語", 1)},
	} {
		encoded := func(text string) string {
			out, err := tt.codec.NewEncoder().String(text)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		for form, in := range map[string]args{
			"replace": {"path": "f", "old_string": tt.old, "new_string": tt.fresh},
			"v4a": v4a("*** Update File: f", "-"+strings.ReplaceAll(firstLines(tt.text), "\n", "\n-"),
				"+"+strings.ReplaceAll(firstLines(tt.want), "\n", "\n+")),
		} {
			t.Run(name+" "+form, func(t *testing.T) {
				b := patchSetup(t, nil, nil)
				b.file("f", encoded(tt.text))
				got := b.call(script, "patch", in)
				if got["success"] != true {
					t.Fatal(got)
				}
				if disk := b.disk("f"); strings.Contains(disk, tt.fresh) && encoded(tt.fresh) != tt.fresh {
					t.Fatalf("UTF-8 among other bytes: %q", disk)
				} else if disk != encoded(tt.want) {
					t.Fatalf("the file holds %q, want %q", disk, encoded(tt.want))
				}
				gitReverse(t, b.dir, exactDiff(t, got))
				if disk := b.disk("f"); disk != encoded(tt.text) {
					t.Errorf("taken back it holds %q, want %q", disk, encoded(tt.text))
				}
			})
		}
	}
	// What cannot be said in the encoding, or is broken in it, stays as it is.
	for name, tt := range map[string]struct{ text, old, fresh, error string }{
		"no such letter": {"x = 1 # \xe9\n", "1", "漢", "the new text has characters that windows-1252, the encoding of the file, cannot hold"},
		"half a letter":  {"\xff\xfea\x00\n\x00b", "a", "zz", "the file looks like utf-16-le but is not valid as such"},
	} {
		t.Run(name, func(t *testing.T) {
			b := patchSetup(t, nil, nil)
			b.file("f", tt.text)
			got := b.call(script, "patch", args{"path": "f", "old_string": tt.old, "new_string": tt.fresh})
			if text := fmt.Sprint(got["error"]); !strings.HasPrefix(text, tt.error) || b.disk("f") != tt.text {
				t.Errorf("answered %q, the file holds %q", text, b.disk("f"))
			}
		})
	}
}

// firstLines are the lines of a text as a patch has them.
func firstLines(text string) string {
	return strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
}
