package tools

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools/patchtext"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// patchSetup is setup with the patch tool; wrap, if not nil, comes between the
// tool and the box.
func patchSetup(t testing.TB, change func(*Config), wrap func(sandbox.Sandbox) sandbox.Sandbox) *bench {
	t.Helper()
	cfg := Config{}
	b := setup(t, func(c *Config) {
		if change != nil {
			change(c)
		}
		cfg = *c
	})
	box := b.box
	if wrap != nil {
		box = wrap(box)
	}
	s := newSession(box, cfg)
	var err error
	if b.reg, err = registry.NewRegistry(patchTool(s), readFileTool(s)); err != nil {
		t.Fatal(err)
	}
	return b
}

func v4a(lines ...string) args {
	return args{"mode": "patch", "patch": "*** Begin Patch\n" + strings.Join(lines, "\n") + "\n*** End Patch\n"}
}

// tree is what is below a directory: names, kinds, modes and bytes.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, p)
		out[name] = info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[name] += " " + string(content)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sameTree(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s: %s is %q, want %q", what, name, got[name], want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s: %s is there (%q)", what, name, got[name])
		}
	}
}

func TestPatchGolden(t *testing.T) {
	b := patchSetup(t, nil, nil)
	b.file("m1.txt", "one\ntwo\n")
	b.file("m2.txt", "q\n")
	b.file("dir/x", "")
	before := tree(t, b.dir)
	for _, tt := range []struct{ in, want args }{
		{args{}, args{"error": "path required", "success": nil}},
		{args{"mode": nil, "path": nil}, args{"error": "path required"}},
		{args{"path": "m1.txt"}, args{"error": "old_string and new_string required"}},
		{args{"path": "m1.txt", "old_string": "one"}, args{"error": "old_string and new_string required"}},
		{args{"mode": "patch"}, args{"error": "patch content required"}},
		{args{"mode": "x", "path": "m1.txt"}, args{"error": "Unknown mode: x"}},
		{args{"path": "nofile.txt", "old_string": "a", "new_string": "b"}, args{"success": false, "error": "Failed to read file: nofile.txt"}},
		{args{"path": "m1.tx", "old_string": "a", "new_string": "b"}, args{"success": false, "similar_files": []string{"./m1.txt"}}},
		{args{"path": "dir", "old_string": "a", "new_string": "b"}, args{"success": false, "error": "'dir' is a directory"}},
		{args{"path": "m1.txt", "old_string": "", "new_string": "b"}, args{"success": false, "error": "old_string cannot be empty"}},
		{args{"path": "m1.txt", "old_string": "b", "new_string": "b"}, args{"success": false, "error": "old_string and new_string are identical"}},
		{args{"path": "m1.txt", "old_string": "o", "new_string": "b"}, args{"success": false,
			"error": "Found 2 matches for old_string. Provide more context to make it unique, or use replace_all=True."}},
		{v4a("*** Update File: m1.txt", "@@", "-one", "+ONE", "*** Update File: m2.txt", "@@", "-zzz", "+y"), args{"success": false,
			"error": "Patch validation failed (no files were modified):\n  • m2.txt: hunk (no hint) not found — Could not find a match for old_string in the file"}},
		{v4a("*** Delete File: a.txt"), args{"success": false, "error": "Patch validation failed (no files were modified):\n  • a.txt: file not found for deletion"}},
		{v4a("*** Update File: a.txt", "-x", "+y"), args{"error": "Patch validation failed (no files were modified):\n  • a.txt: file not found"}},
		{v4a("*** Move File: a.txt -> b.txt"), args{"error": "Patch validation failed (no files were modified):\n  • a.txt: source file not found for move"}},
		{v4a("*** Move File: m1.txt -> m2.txt"), args{"error": "Patch validation failed (no files were modified):\n  • m2.txt: destination already exists — move would overwrite"}},
		{v4a("*** Add File: m1.txt", "+x"), args{"error": "Patch validation failed (no files were modified):\n  • m1.txt: file already exists; …"}},
		{v4a("*** Delete File: dir"), args{"error": "Patch validation failed (no files were modified):\n  • dir: 'dir' is a directory"}},
		{v4a("*** Update File: ../x", "-x", "+y"), args{"error": "V4A patch header contains '..' traversal: '../x'. …"}},
		{v4a("*** Move File: m1.txt -> dir/../../x"), args{"error": "V4A patch header contains '..' traversal: …"}},
		{args{"mode": "patch", "patch": " "}, args{"success": false, "error": "Failed to parse patch: no operations found…"}},
		{args{"mode": "patch", "patch": "garbage"}, args{"success": false, "error": "Failed to parse patch: no operations found…"}},
		{v4a(), args{"success": false, "error": "Failed to parse patch: no operations found…"}},
	} {
		what := fmt.Sprintf("patch %.120v", tt.in)
		matches(t, what, b.call(model, "patch", tt.in), tt.want)
		sameTree(t, what, tree(t, b.dir), before)
	}

	got := b.call(model, "patch", args{"path": "m1.txt", "old_string": "one", "new_string": "ONE"})
	matches(t, "replace", got, args{"success": true, "diff": "--- a/m1.txt\n+++ b/m1.txt\n@@ -1,2 +1,2 @@\n-one\n+ONE\n two\n",
		"files_modified": []string{b.path("m1.txt")}, "resolved_path": b.path("m1.txt"), "files_created": nil, "files_deleted": nil,
		"lint": args{"status": "skipped", "message": "No linter for .txt files"}, "strategy": nil, "_warning": nil, "error": nil})
	got = b.call(model, "patch", v4a("*** Add File: sub/n.py", "+x = 1"))
	matches(t, "add", got, args{"success": true, "files_created": []string{"sub/n.py"}, "files_modified": []string{b.path("sub/n.py")},
		"diff": "--- /dev/null\n+++ b/sub/n.py\n@@ -0,0 +1 @@\n+x = 1\n"})
	if _, ok := got["lint"].(map[string]any)["sub/n.py"]; !ok {
		t.Errorf("lint is %v, want an entry for sub/n.py", got["lint"])
	}
	if got := b.disk("sub/n.py"); got != "x = 1\n" {
		t.Errorf("added file holds %q: the reference forgets the last newline", got)
	}
}

// A patch replaces nothing that it does not name: the reference's faults 35 to
// 40 and 26, at the tool.
func TestPatchFaults(t *testing.T) {
	tests := []struct {
		name, before string
		in           args
		after, fault string // fault: what the reference leaves behind
	}{
		{"35 overlapping", "aaaa", args{"path": "f", "old_string": "aa", "new_string": "b", "replace_all": true}, "bb", "b"},
		{"36 swallowed blank", "x = foo(a,  b) + c\n", args{"path": "f", "old_string": "foo(a, b)", "new_string": "bar()"}, "x = bar() + c\n", "x = bar()+ c\n"},
		{"37 similar line", "hello world\nfoo\n", args{"path": "f", "old_string": "hallo warld", "new_string": "x"}, "hello world\nfoo\n", "x\nfoo\n"},
		{"26 not UTF-8", "\xe4\nkey=1\n\x80", args{"path": "f", "old_string": "key=1", "new_string": "key=2"}, "\xe4\nkey=2\n\x80", "\ufffd\nkey=2\n\ufffd"},
		{"38 blank context", "a\n\nb\na\nb\n", v4a("*** Update File: f", "@@", " a", "", "-b", "+c"), "a\n\nc\na\nb\n", "a\n\nb\na\nc\n"},
		{"38 end of file", "x\ny\nx\n", v4a("*** Update File: f", "@@", "-x", "+z", "*** End of File"), "x\ny\nz\n", "x\ny\nz\n*** End of File\n"},
		{"38 two updates", "a\nb\n", v4a("*** Update File: f", "@@", "-a", "+1", "*** Update File: f", "@@", "-b", "+2"), "1\n2\n", "a\nb\n"},
		{"38 add over a file", "keep\n", v4a("*** Add File: f", "+new"), "keep\n", "new"},
		{"crlf", "a\r\nb\r\n", args{"path": "f", "old_string": "a\nb", "new_string": "c\nd"}, "c\r\nd\r\n", "c\nd\n"},
		{"mixed endings", "a\r\nb\nc\n", args{"path": "f", "old_string": "c", "new_string": "d"}, "a\r\nb\nd\n", "a\r\nb\r\nd\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := patchSetup(t, nil, nil)
			b.file("f", tt.before)
			got := b.call(script, "patch", tt.in)
			if disk := b.disk("f"); disk == tt.fault {
				t.Fatalf("has the reference's fault: %q", disk)
			} else if disk != tt.after {
				t.Fatalf("the file is %q, want %q: %v", disk, tt.after, got)
			}
			if changed := tt.before != tt.after; got["success"] != changed {
				t.Errorf("success is %v, the file changed: %v", got["success"], changed)
			}
		})
	}
	t.Run("40 no newline at the end", func(t *testing.T) {
		b := patchSetup(t, nil, nil)
		b.file("f", "old")
		got := b.call(script, "patch", args{"path": "f", "old_string": "old", "new_string": "new"})
		if diff := got["diff"].(string); strings.Contains(diff, "-old+new") || !strings.Contains(diff, "-old\n\\ No newline at end of file\n+new\n") {
			t.Errorf("diff is %q", diff)
		}
	})
	t.Run("38 move to", func(t *testing.T) {
		b := patchSetup(t, nil, nil)
		b.file("f", "a\n")
		b.call(script, "patch", v4a("*** Update File: f", "*** Move to: d/g", "@@", "-a", "+b"))
		if got := b.disk("d/g"); got != "b\n" {
			t.Errorf("moved file holds %q", got)
		}
	})
}

// What is guarded is what is applied: no spelling of a header reaches a file
// that the tool may not touch.
func TestPatchGuards(t *testing.T) {
	b := patchSetup(t, nil, nil)
	config := b.file(b.home+"/.hermes/config.yaml", "approvals:\n  mode: manual\n")
	key := b.file(b.home+"/.ssh/id_rsa", "secret\n")
	b.file(".env", "KEY=secret\n")
	b.file("f", "a\n")
	if err := os.Symlink(b.home+"/.ssh", b.dir+"/innocent"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("f", b.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	before, homeBefore := tree(t, b.dir), tree(t, b.home)
	update := []string{"@@", "-  mode: manual", "+  mode: off"}
	for _, in := range []args{
		v4a(append([]string{"*** Update File: " + config}, update...)...),
		v4a(append([]string{"***Update File:" + config}, update...)...), // fault 18
		v4a(append([]string{"***\tUPDATE  file\t:\t" + config + "\r"}, update...)...),
		v4a(append([]string{"*** Update File: ~/.hermes/config.yaml"}, update...)...),
		v4a("*** Move File: " + config + " -> taken.yaml"), // fault 19
		v4a("***Move File:" + config + "->taken.yaml"),
		v4a("*** Update File: f", "*** Move to: "+b.home+"/.ssh/authorized_keys", "@@", "-a", "+b"),
		v4a("*** Delete File: " + key),
		v4a("*** Delete File: innocent/id_rsa"),
		v4a("*** Add File: innocent/authorized_keys", "+x"),
		v4a("*** Add File: /etc/cron.d/x", "+x"),
		v4a("*** Update File: .env", "-KEY=secret", "+KEY="),
		v4a("*** Move File: .env -> env.txt"),
		v4a("*** Delete File: link"),
		v4a("*** Move File: link -> g"),
		v4a("*** Add File: link", "+x"),
		{"mode": "patch", "patch": "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-KEY=secret\n+KEY=\n"},
		{"mode": "patch", "patch": "diff --git a/.env b/e\nsimilarity index 100%\nrename from .env\nrename to e\n"},
		{"mode": "patch", "patch": "--- a/../home/.ssh/id_rsa\n+++ /dev/null\n@@ -1 +0,0 @@\n-secret\n"},
		{"path": ".env", "old_string": "KEY=", "new_string": "X="},
		{"path": config, "old_string": "manual", "new_string": "off"},
		{"path": "/dev/null", "old_string": "a", "new_string": "b"},
		{"path": "a\x00b", "old_string": "a", "new_string": "b"},
	} {
		for _, caller := range []registry.Caller{model, script} {
			got := b.call(caller, "patch", in)
			if got["error"] == nil || got["success"] == true {
				t.Errorf("patch %.200v was not refused: %v", in, got)
			}
			if answer := fmt.Sprint(got); strings.Contains(answer, "secret") {
				t.Errorf("patch %.200v tells a secret: %v", in, got)
			}
		}
	}
	sameTree(t, "after refusals", tree(t, b.dir), before)
	sameTree(t, "after refusals", tree(t, b.home), homeBefore)

	got := b.call(model, "patch", args{"path": "link", "old_string": "a", "new_string": "b"})
	matches(t, "through a link", got, args{"success": true, "resolved_path": b.path("f")})
	if info, err := os.Lstat(b.path("link")); err != nil || info.Mode()&os.ModeSymlink == 0 || b.disk("f") != "b\n" {
		t.Errorf("the link is gone or its target unchanged: %v %v", info, err)
	}
}

func TestPatchHints(t *testing.T) {
	b := patchSetup(t, nil, nil)
	b.file("f", "alpha\n")
	miss := args{"path": "f", "old_string": "0123456789", "new_string": "b"}
	near := args{"path": "f", "old_string": "alpa", "new_string": "b"}
	matches(t, "first", b.call(model, "patch", miss), args{"_hint": "old_string not found. Use read_file …"})
	got := b.call(model, "patch", near)
	matches(t, "near", got, args{"_hint": nil, "error": "Could not find a match for old_string in the file\n\nDid you mean one of these sections?\n   1| alpha"})
	matches(t, "third", b.call(model, "patch", miss), args{"_hint": "This is failure #3 patching 'f'. Stop retrying …"})
	matches(t, "script", b.call(script, "patch", miss), args{"_hint": nil, "error": "Could not find…"})
	matches(t, "success", b.call(model, "patch", args{"path": "f", "old_string": "alpha", "new_string": "beta"}), args{"success": true})
	matches(t, "first again", b.call(model, "patch", miss), args{"_hint": "old_string not found. …"})
}

func TestPatchKeepsFiles(t *testing.T) {
	b := patchSetup(t, nil, nil)
	f := b.file("run.sh", "echo a\n")
	if err := os.Chmod(f, 0o754); err != nil {
		t.Fatal(err)
	}
	mode := func(name string) os.FileMode {
		info, err := os.Stat(b.path(name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode()
	}
	b.call(model, "patch", args{"path": "run.sh", "old_string": "a", "new_string": "b"})
	if got := mode("run.sh"); got != 0o754 {
		t.Errorf("mode after replace: %v", got)
	}
	got := b.call(model, "patch", v4a("*** Update File: run.sh", "*** Move to: bin/run", "@@", "-echo b", "+echo c"))
	matches(t, "move", got, args{"success": true, "files_created": []string{"bin/run"}, "files_deleted": []string{"run.sh"},
		"files_modified": []string{b.path("bin/run")}})
	if got := mode("bin/run"); got != 0o754 || b.disk("bin/run") != "echo c\n" {
		t.Errorf("mode after move: %v, content %q", got, b.disk("bin/run"))
	}
	got = b.call(model, "patch", args{"mode": "patch", "patch": "diff --git a/x b/x\nnew file mode 100755\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+#!/bin/sh\n"})
	if matches(t, "executable", got, args{"success": true}); mode("x")&0o100 == 0 {
		t.Errorf("mode of an executable: %v", mode("x"))
	}
	// What was done already is not done again, and that is said.
	info, _ := os.Stat(b.path("bin/run"))
	got = b.call(model, "patch", args{"path": "bin/run", "old_string": "echo  c", "new_string": "echo c"})
	matches(t, "no change", got, args{"success": true, "diff": "", "files_modified": []string{}, "_warning": "Nothing was changed: …"})
	if after, _ := os.Stat(b.path("bin/run")); !after.ModTime().Equal(info.ModTime()) {
		t.Error("the file was written without a change")
	}
}

func TestPatchWarnsAndChecks(t *testing.T) {
	b := patchSetup(t, func(c *Config) { c.Redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") } }, nil)
	f := b.file("a.json", "{\"a\": 1}\n")
	b.call(model, "read_file", args{"path": "a.json"})
	if err := os.WriteFile(f, []byte("{\"a\": 1, \"b\": 22}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	got := b.call(model, "patch", args{"path": "a.json", "old_string": "22", "new_string": "22,"})
	matches(t, "stale", got, args{"success": true, "_warning": f + " was modified since you last read it on disk …"})
	if lint := got["lint"].(map[string]any); lint["status"] != "error" {
		t.Errorf("lint of broken JSON: %v", lint)
	}
	got = b.call(model, "patch", args{"path": "a.json", "old_string": "22,", "new_string": "23"})
	matches(t, "own writes are known", got, args{"_warning": nil})
	if lint := got["lint"].(map[string]any); lint["status"] != "ok" {
		t.Errorf("lint of mended JSON: %v", lint)
	}

	b.file("s", "password = hunter2\nx\n")
	in := args{"path": "s", "old_string": "x", "new_string": "y"}
	if diff := b.call(model, "patch", in)["diff"].(string); strings.Contains(diff, "hunter2") || !strings.Contains(diff, "***") {
		t.Errorf("a model sees %q", diff)
	}
	in["old_string"], in["new_string"] = "y", "x"
	if diff := b.call(script, "patch", in)["diff"].(string); !strings.Contains(diff, "hunter2") {
		t.Errorf("a script sees %q", diff)
	}
	if got := fmt.Sprint(b.call(model, "patch", args{"path": "s", "old_string": "password = hunter3", "new_string": "z"})); strings.Contains(got, "hunter2") {
		t.Errorf("a suggestion tells a secret: %s", got)
	}
}

func TestPatchStrategyIsTold(t *testing.T) {
	b := patchSetup(t, nil, nil)
	b.file("f", "if x:\n\ty()\n")
	matches(t, "fuzzy", b.call(model, "patch", args{"path": "f", "old_string": "if x:\n    y()", "new_string": "if x:\n    z()"}),
		args{"success": true, "strategy": string(patchtext.LineTrimmed)})
	b.file("g", "a a a\n")
	matches(t, "all", b.call(model, "patch", args{"path": "g", "old_string": "a", "new_string": "b", "replace_all": true}),
		args{"success": true, "strategy": nil, "replacements": 3})
	matches(t, "hunks", b.call(model, "patch", v4a("*** Update File: g", "-b  b b", "+c")), args{"success": true, "strategy": "whitespace_normalized"})
}

func TestPatchWithoutBox(t *testing.T) {
	reg, err := registry.NewRegistry(patchTool(newSession(nil, Config{})))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(reg.Dispatch(context.Background(), model, "patch", json.RawMessage(`{}`))); !strings.Contains(got, ErrNoSandbox.Error()) {
		t.Errorf("answered %s", got)
	}
	const want = `patch(path: str = None, old_string: str = None, new_string: str = None, replace_all: bool = False, mode: str = "replace", patch: str = None, cross_profile: bool = False)`
	if got := registry.DocLine(patchTool(newSession(nil, Config{}))); !strings.HasPrefix(got, want+":") {
		t.Errorf("doc line is %q\nwant %q", got, want)
	}
}

// exactDiff is the diff of a result, byte for byte.
func exactDiff(t testing.TB, got map[string]any) string {
	t.Helper()
	if coded, ok := got["diff_base64"].(string); ok {
		raw, err := base64.StdEncoding.DecodeString(coded)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	diff, _ := got["diff"].(string)
	return diff
}

// gitReverse undoes a diff in dir.
func gitReverse(t testing.TB, dir, diff string) {
	t.Helper()
	cmd := exec.Command("git", "apply", "-R", "--whitespace=nowarn")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir), "GIT_CONFIG_NOSYSTEM=1")
	cmd.Stdin = strings.NewReader(diff)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply -R: %v\n%s\n%q", err, out, diff)
	}
}

func BenchmarkPatch(b *testing.B) {
	var text strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&text, "func handler%d(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(%d, r.URL.Path)\n\tif value > %d {\n\t\tlog.Printf(\"large: %%d\", value)\n\t}}\n", i, i*7, i%13)
	}
	for _, bm := range []struct{ name, old, fresh string }{
		{"exact", "\tvalue := compute(6993, r.URL.Path)", "\tvalue := compute(1, r.URL.Path)"},
		{"fuzzy", "func handler1999(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(13993, r.URL.Path)\n\tif value > 11 {\n\t\tlog.Print(\"large: %d\", value)",
			"func handler1999(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(13993, r.URL.Path)\n\tif value > 12 {\n\t\tlog.Print(\"large: %d\", value)"},
	} {
		b.Run(bm.name, func(b *testing.B) {
			box := patchSetup(b, nil, nil)
			for b.Loop() {
				b.StopTimer()
				box.file("f.txt", text.String())
				b.StartTimer()
				if got := box.call(script, "patch", args{"path": "f.txt", "old_string": bm.old, "new_string": bm.fresh}); got["success"] != true {
					b.Fatal(got)
				}
			}
		})
	}
}
