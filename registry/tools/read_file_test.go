package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/unicode"

	"github.com/hermes-exec/hermes-exec/registry"
)

// TestReadFileGolden holds the outputs of the reference as a model sees them.
// fault is what the reference answers where that is wrong: it must not come back.
func TestReadFileGolden(t *testing.T) {
	b := setup(t, nil)
	b.file("nl.txt", "a\nb\nc\n")
	b.file("nonl.txt", "a\nb\nc")
	b.file("one.txt", "only")
	b.file("empty.txt", "")
	b.file("long.txt", strings.Repeat("x", 5000))
	b.file("crlf.txt", "a\r\nb\r\n")
	b.file("sub/deep.txt", "")
	b.file("bom.txt", "\xef\xbb\xbfa\n")
	b.file("fields.txt", "a\x00b")
	for _, tt := range []struct {
		in    args
		want  args
		fault args
	}{
		{args{"path": "nl.txt"}, args{"content": "1|a\n2|b\n3|c", "total_lines": 3, "file_size": 6, "truncated": false,
			"is_binary": false, "is_image": false, "hint": nil, "error": nil, "encoding": nil}, args{"content": "1|a\n2|b\n3|c\n4|"}},
		{args{"path": "nonl.txt", "limit": 2}, args{"content": "1|a\n2|b", "total_lines": 3, "truncated": true,
			"hint": "Use offset=3 to continue reading (showing 1-2 of 3 lines)"}, args{"total_lines": 2, "truncated": false}},
		{args{"path": "nonl.txt"}, args{"content": "1|a\n2|b\n3|c", "total_lines": 3, "truncated": false}, nil},
		{args{"path": "one.txt"}, args{"content": "1|only", "total_lines": 1}, args{"total_lines": 0}},
		{args{"path": "empty.txt"}, args{"content": "", "total_lines": 0, "truncated": false, "error": nil}, args{"content": "1|"}},
		{args{"path": "nl.txt", "offset": 0, "limit": -3}, args{"content": "1|a", "truncated": true,
			"hint": "Use offset=2 to continue reading (showing 1-1 of 3 lines)"}, nil},
		{args{"path": "nl.txt", "offset": "2", "limit": "1"}, args{"content": "2|b",
			"hint": "Use offset=3 to continue reading (showing 2-2 of 3 lines)"}, nil},
		{args{"path": "nl.txt", "offset": 3, "limit": 9}, args{"content": "3|c", "truncated": false, "hint": nil}, nil},
		{args{"path": "nl.txt", "offset": 50}, args{"content": "", "total_lines": 3, "file_size": 6,
			"error": "offset 50 is past the end: the file has 3 lines."}, args{"content": "50|"}},
		{args{"path": "nl.tx"}, args{"content": "", "total_lines": 0, "file_size": 0, "error": "File not found: nl.tx",
			"similar_files": []string{"./nl.txt", "./nonl.txt"}}, nil},
		{args{"path": "sub/dep.txt"}, args{"error": "File not found: sub/dep.txt", "similar_files": []string{"sub/deep.txt"}}, nil},
		{args{"path": "sub"}, args{"error": "'sub' is a directory, not a file. search_files with target=\"files\" lists what is in it."},
			args{"error": "File not found: sub"}},
		{args{"path": "nl.txt/x"}, args{"error": "A part of 'nl.txt/x' is a file, not a directory"}, nil},
		{args{"path": "x.png"}, args{"is_binary": true, "is_image": true,
			"error": "Cannot read binary file 'x.png' (.png). Use vision_analyze for images, or terminal to inspect binary files."}, nil},
		{args{"path": "fields.txt"}, args{"is_binary": true, "error": "Binary file - cannot display as text…"}, nil},
		{args{"path": "long.txt"}, args{"content": "1|" + strings.Repeat("x", 2000) + "... [truncated]", "total_lines": 1}, nil},
		{args{"path": "crlf.txt"}, args{"content": "1|a\n2|b", "total_lines": 2}, nil},
		{args{"path": "bom.txt"}, args{"content": "1|a", "encoding": "utf-8-sig"}, nil},
		{args{"path": ""}, args{"error": "path required"}, nil},
		{args{"path": "a\x00b"}, args{"error": "a path cannot contain a NUL byte"}, nil},
		{args{"path": strings.Repeat("a/", 3000)}, args{"error": "the path is longer than 4096 bytes"}, nil},
		{args{"path": strings.Repeat("a", 300)}, args{"error": "File name too long: …"}, nil},
	} {
		what := fmt.Sprintf("read_file %.80v", tt.in)
		got := b.call(model, "read_file", tt.in)
		matches(t, what, got, tt.want)
		for key, wrong := range tt.fault {
			w, _ := json.Marshal(wrong)
			if g, _ := json.Marshal(got[key]); string(g) == string(w) {
				t.Errorf("%s: has the reference's fault: %s = %s", what, key, g)
			}
		}
	}
}

func TestReadFileDevices(t *testing.T) {
	b := setup(t, nil)
	if err := os.Symlink("/dev/zero", b.dir+"/zero"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/proc/self/environ", b.dir+"/env"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(b.dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, caller := range []registry.Caller{model, script} {
		for _, name := range []string{
			"zero", "env", "fifo", "/dev/zero", "/dev/stdin", "/dev/fd/0", "/proc/self/environ", "/proc/1/cmdline",
			"/sys/kernel/notes", "//dev//zero", "../../../../../../../../dev/zero", "/dev/../dev/zero", "/DEV/zero",
		} {
			done := make(chan map[string]any, 1)
			go func() { done <- b.call(caller, "read_file", args{"path": name}) }()
			select {
			case got := <-done:
				matches(t, name, got, args{"content": "", "error": "Cannot read '" + name + "': this is a device file that would block or produce infinite output."})
			case <-time.After(20 * time.Second):
				t.Fatalf("read_file %s blocks", name)
			}
		}
	}
}

func TestReadFileDedup(t *testing.T) {
	b := setup(t, nil)
	name := b.file("f.txt", "a\nb\n")
	read := args{"path": "f.txt"}
	first := b.call(model, "read_file", read)
	matches(t, "1st", first, args{"content": "1|a\n2|b"})
	matches(t, "2nd", b.call(model, "read_file", read), args{"status": "unchanged", "message": "File unchanged since last read. …",
		"path": "f.txt", "dedup": true, "content_returned": false, "content": nil})
	matches(t, "3rd", b.call(model, "read_file", read), args{"already_read": 3, "path": "f.txt",
		"error": "BLOCKED: You have called read_file on this exact region 3 times…"})
	matches(t, "another region", b.call(model, "read_file", args{"path": "f.txt", "limit": 1}), args{"content": "1|a"})
	matches(t, "another session", b.call(registry.Caller{Kind: registry.Model, Session: "bb"}, "read_file", read), args{"content": "1|a\n2|b"})
	for range 5 { // a script is never told that it has it already
		matches(t, "script", b.call(script, "read_file", read), args{"content": "a\nb\n", "status": nil, "error": nil})
		matches(t, "shell", b.call(registry.Caller{Kind: registry.Shell, Session: "aa"}, "read_file", read), args{"content": "1|a\n2|b"})
	}
	// Another tool call: the stub again, not the block.
	b.call(model, "write_file", args{"path": "other.txt", "content": ""})
	matches(t, "after another tool", b.call(model, "read_file", read), args{"status": "unchanged"})
	// What a tool writes is new.
	b.call(script, "write_file", args{"path": "f.txt", "content": "c\n"})
	matches(t, "after a write", b.call(model, "read_file", read), args{"content": "1|c"})
	// A file that keeps changing is news each time, up to a point.
	for i, want := range []args{{"_warning": nil, "content": "1|x0"}, {"_warning": "This is read_file call 3 in a row…", "content": "1|x1"},
		{"error": "BLOCKED: You have called read_file on this exact region 4 times…"}} {
		if err := os.WriteFile(name, fmt.Appendf(nil, "x%d", i), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, time.Time{}, time.Unix(int64(1e9+i), 0)); err != nil {
			t.Fatal(err)
		}
		matches(t, fmt.Sprint("change ", i), b.call(model, "read_file", read), want)
	}
}

func TestReadFileCaps(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.Redact = func(s string) string { return strings.ReplaceAll(s, "SECRETSECRET", "***") }
	})
	b.file("wide.txt", strings.Repeat(strings.Repeat("x", 150)+"\n", 1000))
	matches(t, "too wide", b.call(model, "read_file", args{"path": "wide.txt", "limit": 1000}), args{
		"error": "Read produced 154892 characters which exceeds the safety limit (100000)…", "path": "wide.txt", "total_lines": 1000, "file_size": 151000, "content": nil})
	got := b.call(model, "read_file", args{"path": "wide.txt", "limit": 100000})
	if _, ok := got["error"]; !ok {
		t.Error("limit is not clamped")
	}
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "%d\n", i)
	}
	b.file("many.txt", many.String())
	matches(t, "limit", b.call(model, "read_file", args{"path": "many.txt", "limit": 9999}), args{
		"hint": "Use offset=2001 to continue reading (showing 1-2000 of 5000 lines)", "truncated": true})
	b.file("big.txt", strings.Repeat("0123456789\n", 60_000))
	matches(t, "size hint", b.call(model, "read_file", args{"path": "big.txt"}), args{"_hint": "This file is large (660000 bytes)…"})

	// A secret at the cut is masked before it is cut in two.
	b.file("secret.txt", "key=SECRETSECRET\n"+strings.Repeat("x", 1995)+"SECRETSECRET tail\n")
	got = b.call(model, "read_file", args{"path": "secret.txt"})
	if text := got["content"].(string); strings.Contains(text, "SECRE") || !strings.Contains(text, "1|key=***\n2|") || !strings.HasSuffix(text, "... [truncated]") {
		t.Errorf("redacted view: %.100q … %q", text, text[max(0, len(text)-60):])
	}
	matches(t, "a script's secret", b.call(script, "read_file", args{"path": "secret.txt", "limit": 1}), args{"content": "key=SECRETSECRET\n"})
}

func TestReadFileEncodings(t *testing.T) {
	b := setup(t, nil)
	const russian = "Съешь ещё этих мягких французских булок, да выпей чаю.\nВторая строка текста на русском языке.\n"
	const japaneseText = "これは日本語のテキストです。\n二行目もあります。文字コードの判定に十分な長さが必要です。\n"
	encode := func(s string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, tt := range []struct{ name, bytes, text, encoding string }{
		{"u16le.txt", encode(unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewEncoder().String("hé\nzwei\n")), "hé\nzwei\n", "utf-16-le"},
		{"u16be.txt", encode(unicode.UTF16(unicode.BigEndian, unicode.UseBOM).NewEncoder().String("hé\nzwei\n")), "hé\nzwei\n", "utf-16-be"},
		{"u16.txt", encode(unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM).NewEncoder().String("hello there\n")), "hello there\n", "utf-16-le"},
		{"ru.txt", encode(charmap.Windows1251.NewEncoder().String(russian)), russian, "windows-1251"},
		{"fr.txt", encode(charmap.ISO8859_1.NewEncoder().String("x = 1 # é\n")), "x = 1 # é\n", "windows-1252"},
		{"jp.txt", encode(japanese.ShiftJIS.NewEncoder().String(japaneseText)), japaneseText, "shift_jis"},
	} {
		b.file(tt.name, tt.bytes)
		var want []string
		for i, l := range strings.Split(strings.TrimSuffix(tt.text, "\n"), "\n") {
			want = append(want, fmt.Sprintf("%d|%s", i+1, l))
		}
		matches(t, tt.name, b.call(model, "read_file", args{"path": tt.name}), args{
			"content": strings.Join(want, "\n"), "encoding": tt.encoding, "total_lines": len(want), "file_size": len(tt.bytes)})
		got := b.call(script, "read_file", args{"path": tt.name, "limit": 0})
		raw, err := base64.StdEncoding.DecodeString(got["content"].(string))
		if tt.name == "u16.txt" { // bytes that happen to be UTF-8
			raw, err = []byte(got["content"].(string)), nil
		} else {
			matches(t, tt.name+" from a script", got, args{"encoding": "base64", "is_binary": true})
		}
		if err != nil || string(raw) != tt.bytes {
			t.Errorf("%s from a script: %q, %v", tt.name, raw, err)
		}
	}
	// Not UTF-8 only far down, and in no encoding anybody can name.
	b.file("late.txt", strings.Repeat("ascii\n", 50_000)+"\xff\xfe odd\n")
	got := b.call(model, "read_file", args{"path": "late.txt", "offset": 50_000})
	if text, _ := got["content"].(string); got["encoding"] == nil || !strings.HasPrefix(text, "50000|ascii\n50001|") || !utf8.ValidString(text) {
		t.Errorf("late.txt: %v", got)
	}
}

// TestReadFilePages: what a script gets in pages, put together, is the file.
func TestReadFilePages(t *testing.T) {
	b := setup(t, nil)
	rnd := rand.New(rand.NewPCG(7, 7))
	texts := []string{"", "\n", "a", "a\n", "\n\n\na", "a\r\nb\r\n", "\xef\xbb\xbfx\n", "tab\tnul\x00é\u2028\n\U0001F600"}
	for range 20 {
		var s strings.Builder
		for range rnd.IntN(400) {
			s.WriteString(strings.Repeat(string("aé\U0001F600x"[rnd.IntN(2)]), rnd.IntN(3)))
			s.WriteString([]string{"\n", "\r\n", "é", "\x00", "\U0001F600", " "}[rnd.IntN(6)])
		}
		texts = append(texts, strings.ToValidUTF8(s.String(), ""))
	}
	texts = append(texts, strings.Repeat("0123456789é\n", 40_000), strings.Repeat("é", 300_000))
	for i, text := range texts {
		name := fmt.Sprintf("f%d.txt", i)
		if got := b.call(script, "write_file", args{"path": name, "content": text}); got["error"] != nil || int(got["bytes_written"].(float64)) != len(text) {
			t.Fatalf("write %d: %v", i, got)
		}
		if b.disk(name) != text {
			t.Fatalf("text %d did not reach the disk", i)
		}
		whole := b.call(script, "read_file", args{"path": name, "limit": 0})
		if whole["content"] != text || whole["truncated"] != false {
			t.Errorf("text %d: read(write(x)) != x", i)
		}
		total := strings.Count(text, "\n")
		if text != "" && !strings.HasSuffix(text, "\n") {
			total++
		}
		matches(t, name, whole, args{"total_lines": total, "file_size": len(text)})
		limit := 1 + rnd.IntN(max(total/3, 1))
		var joined strings.Builder
		for offset, pages := 1, 0; pages < 10_000; pages++ {
			page := b.call(script, "read_file", args{"path": name, "offset": offset, "limit": limit})
			joined.WriteString(page["content"].(string))
			if offset += limit; page["truncated"] == false {
				break
			}
			matches(t, "hint", page, args{"hint": fmt.Sprintf("Use offset=%d to continue reading (showing %d-%d of %d lines)", offset, offset-limit, offset-1, total)})
		}
		if joined.String() != text {
			t.Errorf("text %d: pages of %d do not make the whole", i, limit)
		}
	}
	matches(t, "past the end", b.call(script, "read_file", args{"path": "f0.txt", "offset": 9}), args{"content": "", "error": nil, "truncated": false,
		"hint": "offset 9 is past the end: the file has 0 lines."})
	// Bytes that are no text come as base64, and pages of them too make the whole.
	b.file("bin", "\x00\xff\n\xfe\n\x80")
	var joined []byte
	for offset := 1; offset < 4; offset++ {
		page := b.call(script, "read_file", args{"path": "bin", "offset": offset, "limit": 1})
		raw, err := base64.StdEncoding.DecodeString(page["content"].(string))
		if err != nil || page["encoding"] != "base64" {
			t.Fatal(page)
		}
		joined = append(joined, raw...)
	}
	if string(joined) != "\x00\xff\n\xfe\n\x80" {
		t.Errorf("binary pages: %q", joined)
	}
}

// TestReadFileHuge: a page of a huge file takes little memory, and a call that
// is given up ends.
func TestReadFileHuge(t *testing.T) {
	b := setup(t, nil)
	name := b.file("huge", "first\nsecond\n")
	if err := os.Truncate(name, 10<<30); err != nil {
		t.Skip("no sparse files here:", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	raw := b.reg.Dispatch(ctx, script, "read_file", []byte(`{"path":"huge","limit":1}`))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("gave up after %v", took)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
		t.Errorf("%d bytes allocated", n)
	}
	if !strings.Contains(string(raw), "deadline exceeded") {
		t.Errorf("answer %.200s", raw)
	}
	// A page that is too large for anybody is refused, not collected.
	if err := os.Truncate(name, 40<<20); err != nil {
		t.Fatal(err)
	}
	matches(t, "too large", b.call(script, "read_file", args{"path": "huge", "limit": 0}), args{"content": "", "error": "These lines hold more than 16 MiB…"})
	matches(t, "the rest", b.call(script, "read_file", args{"path": "huge", "limit": 2}), args{"content": "first\nsecond\n", "truncated": true})
}

func FuzzReadFile(f *testing.F) {
	f.Add([]byte("a\nb\n"), "f", 1, 500, true)
	f.Add([]byte("\xff\xfea\x00"), "~/../x", 0, -1, false)
	f.Add([]byte("%PDF-1"), "f.docx", 7, 1<<62, false)
	f.Add([]byte("PK\x03\x04"), "f.xlsx", 1<<62, 1<<62, true)
	f.Add([]byte("\x84\x31\x95\x33"), "f.ipynb", 1, 1, false)
	b := setup(f, nil)
	f.Fuzz(func(t *testing.T, content []byte, name string, offset, limit int, asScript bool) {
		b.t = t
		if err := os.WriteFile(b.dir+"/f", content, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, ext := range []string{".docx", ".xlsx", ".ipynb"} {
			os.Remove(b.dir + "/f" + ext)
			if err := os.Link(b.dir+"/f", b.dir+"/f"+ext); err != nil {
				t.Fatal(err)
			}
		}
		caller := registry.Caller{Kind: registry.Shell}
		if asScript {
			caller.Kind = registry.Script
		}
		for _, name := range []string{name, "f", "f.docx", "f.xlsx", "f.ipynb"} {
			got := b.call(caller, "read_file", args{"path": name, "offset": offset, "limit": limit})
			if got["error"] == nil && got["content"] == nil {
				t.Errorf("neither content nor error: %v", got)
			}
		}
	})
}
