//go:build unix

package tools

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

// What a tool of the set answers as a whole, key by key in the order of the
// reference, with nothing beside it.
func TestAnswersGolden(t *testing.T) {
	b := setup(t, nil)
	b.file("nl.txt", "a\nb\nc\n")
	b.file("p.txt", "a\nb\nc\n")
	b.file("a b.txt", "needle\n")
	for _, tt := range []struct{ tool, in, want string }{
		{"read_file", `{"path":"nl.txt","limit":1}`, `{"content":"1|a","total_lines":3,"file_size":6,"truncated":true,"hint":"Use offset=2 to continue reading (showing 1-1 of 3 lines)","is_binary":false,"is_image":false}`},
		{"read_file", `{"path":"nl.tx"}`, `{"content":"","total_lines":0,"file_size":0,"truncated":false,"is_binary":false,"is_image":false,"error":"File not found: nl.tx","similar_files":["./nl.txt"]}`},
		{"read_file", `{}`, `{"error":"read_file: missing required field 'path': it must be a string."}`},
		{"write_file", `{"path":"new/x.txt","content":"hi\n"}`, `{"bytes_written":3,"dirs_created":true,"lint":{"status":"skipped","message":"No linter for .txt files"},"resolved_path":"DIR/new/x.txt","files_modified":["DIR/new/x.txt"]}`},
		{"write_file", `{"path":"~/.ssh/config","content":""}`, `{"bytes_written":0,"dirs_created":false,"error":"Write denied: 'HOME/.ssh/config' is a protected system/credential file.","resolved_path":"HOME/.ssh/config"}`},
		{"search_files", `{"pattern":"needle"}`, `{"total_count":1,"matches":[{"path":"a b.txt","line":1,"content":"needle"}]}`},
		{"search_files", `{"pattern":"needle","output_mode":"files_only"}`, `{"total_count":1,"files":["a b.txt"]}`},
		{"search_files", `{"pattern":"needle","output_mode":"count"}`, `{"total_count":1,"counts":{"a b.txt":1}}`},
		{"search_files", `{"pattern":"no such text"}`, `{"total_count":0}`},
		{"patch", `{}`, `{"error":"path required"}`},
		{"patch", `{"path":"no.md","old_string":"a","new_string":"b"}`, `{"success":false,"error":"Failed to read file: no.md","resolved_path":"DIR/no.md"}`},
		{"patch", `{"path":"p.txt","old_string":"b","new_string":"B"}`, `{"success":true,"diff":"--- a/p.txt\n+++ b/p.txt\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n","files_modified":["DIR/p.txt"],"resolved_path":"DIR/p.txt","lint":{"status":"skipped","message":"No linter for .txt files"}}`},
		{"terminal", `{"command":"echo hi; exit 3"}`, `{"output":"hi","exit_code":3,"error":null}`},
		{"nope", `{}`, `{"error":"Unknown tool: nope"}`},
	} {
		want := strings.NewReplacer("DIR", b.dir, "HOME", b.home).Replace(tt.want)
		if got := string(b.reg.Dispatch(t.Context(), model, tt.tool, json.RawMessage(tt.in))); got != want {
			t.Errorf("%s %s\n got %s\nwant %s", tt.tool, tt.in, got, want)
		}
	}
}

// What a guard has judged is what is opened: while somebody keeps putting
// links in place of files and directories, no tool reads or writes what lies
// behind them.
func TestRacingLinks(t *testing.T) {
	b := setup(t, nil)
	secret := b.file(b.home+"/.ssh/f", "SECRET\n")
	b.file("f", "public\n")
	b.file("d/f", "public\n")
	before := tree(t, filepath.Dir(secret))

	stop := make(chan struct{})
	var swaps atomic.Int64
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			var err error
			next := b.path(fmt.Sprintf(".next%d", i%2))
			switch i % 4 {
			case 0:
				if err = os.Symlink(secret, next); err == nil {
					err = os.Rename(next, b.path("f"))
				}
			case 1:
				if err = os.WriteFile(next, []byte("public\n"), 0o600); err == nil {
					err = os.Rename(next, b.path("f"))
				}
			case 2: // a directory cannot be replaced in one step, and a tool may make it meanwhile
				os.RemoveAll(b.path("d.real"))
				if os.Rename(b.path("d"), b.path("d.real")) == nil {
					os.Symlink(filepath.Dir(secret), b.path("d"))
				}
			case 3:
				os.RemoveAll(b.path("d")) // of a link, the link alone
				if os.Rename(b.path("d.real"), b.path("d")) != nil {
					os.Mkdir(b.path("d"), 0o700)
				}
			}
			if err != nil {
				t.Error(err)
				return
			}
			swaps.Add(1)
		}
	})
	rnd := rand.New(rand.NewPCG(3, 3))
	for i := 0; (i < 400 || swaps.Load() < 400) && !t.Failed(); i++ {
		name := []string{"f", "d/f"}[rnd.IntN(2)]
		tool, in := "read_file", args{"path": name}
		switch rnd.IntN(4) {
		case 0:
			tool, in = "write_file", args{"path": name, "content": "public\n"}
		case 1:
			tool, in = "patch", args{"path": name, "old_string": "S", "new_string": "leaked"}
		case 2:
			tool, in = "search_files", args{"pattern": "S|p", "path": name}
		}
		raw, _ := json.Marshal(b.call(script, tool, in))
		if strings.Contains(string(raw), "SECRET") {
			t.Errorf("%s %v: %s", tool, in, raw)
			break
		}
	}
	close(stop)
	swapper.Wait()
	sameTree(t, "the secret place", tree(t, filepath.Dir(secret)), before)
}

// On a full disk a write fails with the system's reason, the old file stays,
// and nothing else does.
func TestDiskFull(t *testing.T) {
	if os.Getenv("HERMES_EXEC_TEST_FULL") == "" {
		// Again, on a small file system of its own.
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		script := `mount -t tmpfs -o size=256k none "$1" || exit 77; export TMPDIR="$1"; exec "$2" -test.run '^TestDiskFull$' -test.count 1`
		cmd := exec.Command("unshare", "-Urm", "sh", "-c", script, "sh", t.TempDir(), program)
		cmd.Env = append(os.Environ(), "HERMES_EXEC_TEST_FULL=1")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() == 77 || strings.Contains(string(out), "unshare failed") {
			if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "userns") {
				t.Fatalf("user namespaces are required: %v\n%s", err, out)
			}
			t.Skipf("no file system of its own here: %v %s", err, out)
		}
		if err != nil || !strings.Contains(string(out), "PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	b := setup(t, nil)
	b.file("f", strings.Repeat("old\n", 100))
	before := tree(t, b.dir)
	big := strings.Repeat("x", 400_000)
	for _, tt := range []struct {
		tool string
		in   args
		want args
	}{
		{"write_file", args{"path": "f", "content": big}, args{"bytes_written": 0, "error": "Failed to write file: '" + b.path("f") + "': no space left on device"}},
		{"write_file", args{"path": "new/dir/f", "content": big}, args{"bytes_written": 0, "dirs_created": false, "files_modified": nil}},
		{"patch", args{"path": "f", "old_string": strings.Repeat("old\n", 100), "new_string": big}, args{"success": false, "error": "Apply phase failed (all changes were rolled back):…"}},
		{"patch", v4a("*** Add File: a/small", "+x", "*** Delete File: f", "*** Add File: b/c/large", "+"+big), args{"success": false, "files_created": nil}},
	} {
		for _, caller := range []registry.Caller{model, script} {
			matches(t, tt.tool, b.call(caller, tt.tool, tt.in), tt.want)
			sameTree(t, tt.tool, tree(t, b.dir), before)
		}
	}
	// The twin: what fits is written.
	matches(t, "small", b.call(script, "write_file", args{"path": "f", "content": "new\n"}), args{"bytes_written": 4, "error": nil})
}
