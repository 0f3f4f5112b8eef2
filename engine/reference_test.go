package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The rows of the reference's behaviour table: constants and defaults (1.1),
// result shapes (1.3), strings (1.4), files, cwd and stdio (1.5). Where the
// reference's answer is a fault, the test holds that answer as `fault` and
// rejects it.

func TestReferenceDefaults(t *testing.T) {
	l := Limits{}.withDefaults()
	for _, row := range []struct {
		name      string
		got, want any
	}{
		{"script timeout 300 s", l.Timeout, 300 * time.Second},
		{"50 tool calls", l.MaxToolCalls, 50},
		{"stdout 50,000 bytes", l.Stdout, 50_000},
		{"stderr 10,000 bytes", l.Stderr, 10_000},
		{"grace 5 s", l.Grace, 5 * time.Second},
		{"the seven script tools", strings.Join(ScriptTools(), " "), "web_search web_extract read_file write_file search_files patch terminal"},
	} {
		if row.got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, row.got, row.want)
		}
	}
}

// compat is the part of a result the reference has too.
type compat struct {
	Status, Output string
	Error          *string
	Calls          int     `json:"tool_calls_made"`
	Duration       float64 `json:"duration_seconds"`
}

func TestReferenceResultShapes(t *testing.T) {
	text := func(s string) *string { return &s }
	rows := []struct {
		name, code     string
		timeout        time.Duration
		status, output string
		err            *string
		fault          string // the reference's output, "" when it is right
	}{
		{name: "exit 0", code: "print('hi')", status: "success", output: "hi\n"},
		{name: "exit 0, empty output", code: "pass", status: "success", output: ""},
		{name: "exit 0, stderr is not part of the output", code: "import sys; print('e', file=sys.stderr)", status: "success", output: ""},
		{name: "exit code and stderr", code: "import sys; print('o'); sys.exit('bad')", status: "error", output: "o\n\n--- stderr ---\nbad\n", err: text("bad\n")},
		{name: "exit code and stderr, no stdout", code: "import sys; sys.exit('bad')", status: "error", output: "\n--- stderr ---\nbad\n", err: text("bad\n")},
		{name: "exit code, no stderr", code: "import sys; print('o'); sys.exit(3)", status: "error", output: "o\n", err: text("Script exited with code 3")},
		{name: "signal", code: "import os; os.kill(os.getpid(), 9)", status: "error", output: "", err: text("Script exited with code -9")},
		{name: "exits with 124 itself", code: "import sys; sys.exit(124)", status: "error", output: "", err: text("Script exited with code 124"), fault: "timeout"},
		{name: "exits with 130 itself", code: "import sys; sys.exit(130)", status: "error", output: "", err: text("Script exited with code 130"), fault: "interrupted"},
		{name: "timeout with output", code: "import time; print('partial'); time.sleep(60)", timeout: time.Second, status: "timeout",
			output: "partial\n\n\n⏰ Script timed out after 1s and was killed.", err: text("Script timed out after 1s and was killed.")},
		{name: "timeout without output", code: "import time; time.sleep(60)", timeout: 1500 * time.Millisecond, status: "timeout",
			output: "⏰ Script timed out after 1.5s and was killed.", err: text("Script timed out after 1.5s and was killed.")},
		{name: "kills its own process group", code: "import os, signal; print('x', flush=True); os.killpg(0, signal.SIGTERM)", status: "error", output: "x\n", err: text("Script exited with code -15")},
		{name: "closes stdout", code: "import os; os.close(1); os.close(2)", status: "success", output: ""},
		{name: "NUL bytes", code: "import sys; sys.stdout.buffer.write(b'a\\x00b')", status: "success", output: "a\x00b"},
		{name: "invalid UTF-8", code: "import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb')", status: "success", output: "a\ufffd\ufffdb"},
	}
	e := newEngine(t, nil)
	s := open(t, e, Task{})
	keys := regexp.MustCompile(`^\{"status":.*"output":.*"tool_calls_made":0,"duration_seconds":[0-9.]+(,"error":.*)?\}$`)
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r, err := s.Run(t.Context(), Script{Code: row.code, Limits: Limits{Timeout: row.timeout, Grace: 100 * time.Millisecond}})
			if err != nil {
				t.Fatal(err)
			}
			raw := r.CompatJSON()
			if !keys.Match(raw) {
				t.Errorf("keys or their order: %s", raw)
			}
			var got compat
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if row.fault != "" && got.Status == row.fault {
				t.Fatalf("the reference's wrong answer: %s", raw)
			}
			if got.Status != row.status || got.Output != row.output || fmt.Sprint(deref(got.Error)) != fmt.Sprint(deref(row.err)) {
				t.Errorf("got %s\nwant status %q output %q error %v", raw, row.status, row.output, deref(row.err))
			}
		})
	}
}

func deref(s *string) any {
	if s == nil {
		return nil
	}
	return *s
}

// W4: the reference dropped stderr on success and kept only its head.
func TestStderrIsKept(t *testing.T) {
	r := run(t, "import sys\nprint('warned', file=sys.stderr)", nil)
	if r.Stderr != "warned\n" || r.StderrBytes != 7 {
		t.Errorf("got %s", r.JSON())
	}
	r = run(t, "import sys\nsys.stderr.write('first\\n' + 'x' * 30000 + '\\nlast line\\n')", nil)
	if !strings.HasPrefix(r.Stderr, "first\n") || !strings.HasSuffix(r.Stderr, "last line\n") || !r.Truncated || r.StderrBytes != 30017 {
		t.Errorf("stderr of %d bytes, truncated %v", r.StderrBytes, r.Truncated)
	}
}

func TestReferenceRefusedInput(t *testing.T) {
	e := newEngine(t, func(c *Config) { c.Limits.Code = 1000 })
	s := open(t, e, Task{})
	for _, row := range []struct{ name, code, want string }{
		{"empty", "", "No code provided."},
		{"white space", " \n\t", "No code provided."},
		{"not UTF-8", "x = 1\ny = '\xff'\n", "run: the script is not UTF-8: byte 11 (line 2) is 0xff"},
		{"NUL", "x = 1\n\x00", "run: the script has a NUL byte at 6 (line 2): Python cannot read it"},
		{"too long", strings.Repeat("#", 1001), "run: the script has 1001 bytes, the limit is 1000: put the data in a file and read it from there"},
	} {
		r, err := s.Run(t.Context(), Script{Code: row.code})
		if err == nil || r.Status != Failed || r.Error != row.want || r.ExitCode != nil || r.ToolCallsMade != 0 {
			t.Errorf("%s: got %s, %v", row.name, r.JSON(), err)
		}
	}
}

func TestReferenceStaging(t *testing.T) {
	work := t.TempDir()
	code := `
import os, stat, sys
st = os.stat(os.path.dirname(__file__))
print("mode", oct(stat.S_IMODE(st.st_mode)))
print("files", sorted(os.listdir(os.path.dirname(__file__))))
print("name", __name__)
print("argv", sys.argv == [__file__, "a b", "--flag"])
print("path0", sys.path[0] == os.path.dirname(__file__))
print("stdin", repr(sys.stdin.read()))
try: input()
except EOFError: print("input EOFError")
print("sid", os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid())
sock = os.environ["HERMES_RPC_SOCKET"]
print("socket", oct(stat.S_IMODE(os.stat(sock).st_mode)), oct(stat.S_IMODE(os.stat(os.path.dirname(sock)).st_mode)), len(sock) < 108)
print("scratch", os.path.dirname(__file__))
print("socketpath", sock)
import hermes_tools
`
	e := newEngine(t, nil)
	s := open(t, e, Task{WorkDir: work})
	r, err := s.Run(t.Context(), Script{Code: code, Args: []string{"a b", "--flag"}})
	if err != nil {
		t.Fatal(err)
	}
	want := `mode 0o700
files ['hermes_tools.py', 'script.py']
name __main__
argv True
path0 True
stdin ''
input EOFError
sid True True
socket 0o600 0o700 True
`
	got, rest, _ := strings.Cut(r.Output, "scratch ")
	if got != want {
		t.Errorf("got\n%swant\n%s%s", got, want, r.Stderr)
	}
	for _, name := range regexp.MustCompile(`(?m)/\S+$`).FindAllString(rest, -1) {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestReferenceModes(t *testing.T) {
	work := t.TempDir()
	if err := os.WriteFile(filepath.Join(work, "project_module.py"), []byte("name = 'mine'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	code := `
import os
try:
    import project_module; name = project_module.name
except ImportError: name = "not importable"
print(os.getcwd() == os.path.dirname(os.path.abspath(__file__)), os.getcwd(), name)
`
	real, _ := filepath.EvalSymlinks(work)
	r := run(t, code, func(_ *Config, task *Task, _ *Script) { task.WorkDir = work })
	// W15: the reference promised that the project can be imported, and could not.
	if want := "False " + real + " mine\n"; r.Output != want {
		t.Errorf("project: got %q %s, want %q", r.Output, r.Stderr, want)
	}
	r = run(t, code, func(_ *Config, task *Task, _ *Script) { task.WorkDir, task.Mode = work, Strict })
	if !strings.HasPrefix(r.Output, "True ") || !strings.HasSuffix(r.Output, "not importable\n") {
		t.Errorf("strict: got %q %s", r.Output, r.Stderr)
	}
	if _, err := New(Config{Backends: newEngine(t, nil).cfg.Backends, Mode: "banana"}); err == nil {
		t.Error("mode banana was accepted")
	}
}

func TestReferenceEnvironment(t *testing.T) {
	code := `
import os
for name in sorted(os.environ):
    print(name + "=" + os.environ[name])
`
	r := run(t, code, func(c *Config, task *Task, _ *Script) {
		c.Environ = testEnviron("OPENAI_API_KEY=sk-secret", "LANGFUSE_SECRET=leak", "USERPASS=leak", "LD_PRELOAD=/evil.so",
			"HERMES_HOME=/h", "HERMES_TIMEZONE=UTC", "TZ=Mars", "HTTP_PROXY=http://user:pw@proxy:3128", "MY_SETTING=passes", "SKILL_SETTING=passes", "ANTHROPIC_API_KEY=sk-secret", "PYTHONPATH=/their/lib")
		c.Passthrough = []string{"MY_SETTING", "OPENAI_API_KEY"}
		c.Timezone = "Europe/Berlin"
		task.Env = []string{"EXTRA=1"}
		task.Passthrough = []string{"SKILL_SETTING", "ANTHROPIC_API_KEY"}
		c.ShowSecrets = true
	})
	for _, want := range []string{
		"PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8", "PYTHONUTF8=1", "TZ=Europe/Berlin",
		"MY_SETTING=passes", "SKILL_SETTING=passes", "EXTRA=1", "HERMES_HOME=/h", "HTTP_PROXY=http://proxy:3128", "HERMES_REAL_HOME=" + os.TempDir(),
	} {
		if !strings.Contains("\n"+r.Output, "\n"+want+"\n") {
			t.Errorf("missing %s in\n%s", want, r.Output)
		}
	}
	for _, bad := range []string{"sk-secret", "leak", "evil", "Mars", "HERMES_TIMEZONE", "user:pw"} {
		if strings.Contains(r.Output, bad) {
			t.Errorf("%s reached the script:\n%s", bad, r.Output)
		}
	}
	path := regexp.MustCompile(`(?m)^PYTHONPATH=(/\S+?):(/\S+?):/their/lib$`)
	if !path.MatchString(r.Output) {
		t.Errorf("PYTHONPATH is not scratch, work dir, the user's:\n%s", r.Output)
	}
}

// W2, W3, S10: exact windows, true counts, redaction before cutting.
func TestOutputWindow(t *testing.T) {
	r := run(t, "import sys; sys.stdout.write('a' * 50000)", nil)
	if len(r.Output) != 50_000 || r.Truncated {
		t.Errorf("50,000 bytes: %d in the result, truncated %v", len(r.Output), r.Truncated)
	}
	r = run(t, "import sys; sys.stdout.write('a' * 20000 + 'b' + 'c' * 30000)", nil)
	if !r.Truncated || r.StdoutBytes != 50_001 || !strings.HasPrefix(r.Output, strings.Repeat("a", 20_000)+"\n\n... [OUTPUT TRUNCATED - 1 bytes omitted out of 50,001 total] ...\n\n") ||
		!strings.HasSuffix(r.Output, "\n"+strings.Repeat("c", 30_000)) {
		t.Errorf("50,001 bytes: %d in the result", len(r.Output)) // the reference kept 49,520 of them
	}
	secret := "sk-" + strings.Repeat("Zx9", 20)
	for _, cut := range []int{20_000, 20_000 - len(secret)/2, 20_000 - len(secret) + 1} {
		r = run(t, fmt.Sprintf("import sys; sys.stdout.write('a' * %d + ' %s ' + 'c' * 60000)", cut-1, secret), nil)
		if strings.Contains(r.Output, "Zx9Zx9Zx9") {
			t.Errorf("a secret cut at %d slipped through", cut)
		}
	}
}
