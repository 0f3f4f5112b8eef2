//go:build unix

package tools

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/engine/approval"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// terminalBox is a terminal over a real box.
type terminalBox struct {
	t       *testing.T
	session *session
	term    *terminal
	reg     *registry.Registry
	dir     string // the work dir
	life    context.Context
	end     context.CancelFunc
}

func newTerminalBox(t *testing.T, cfg Config) *terminalBox {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	backend := local.New(local.Config{Scratch: t.TempDir()})
	t.Cleanup(func() { backend.Close() })
	box, err := backend.Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{Name: "open", Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + os.Getenv("PATH")
	if cfg.Env == nil {
		cfg.Env = []string{path, "KIND=script"}
	}
	if cfg.ModelEnv == nil {
		cfg.ModelEnv = []string{path, "KIND=model", "HOME=" + dir}
	}
	b := &terminalBox{t: t, session: newSession(box, cfg), dir: dir}
	b.life, b.end = context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(b.end)
	// What terminalTool does, keeping the state in reach.
	b.term = &terminal{session: b.session}
	b.reg, err = registry.NewRegistry(registry.New("terminal", "terminal", terminalDoc, b.term.run))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// useSh makes the box run commands in sh, as one without bash would.
func (b *terminalBox) useSh() *terminalBox {
	b.t.Helper()
	for _, program := range []string{"/bin/dash", "/usr/bin/dash", "/bin/sh"} {
		if _, err := os.Stat(program); err == nil {
			b.term.shell.found = &shell{program: program}
			return b
		}
	}
	b.t.Skip("there is no sh")
	return nil
}

func (b *terminalBox) raw(ctx context.Context, kind registry.CallerKind, args string) string {
	caller := registry.Caller{Kind: kind, Lifetime: b.life}
	return string(b.reg.Dispatch(ctx, caller, "terminal", json.RawMessage(args)))
}

func (b *terminalBox) call(kind registry.CallerKind, args map[string]any) terminalOut {
	b.t.Helper()
	raw, err := json.Marshal(args)
	if err != nil {
		b.t.Fatal(err)
	}
	answer := b.raw(b.t.Context(), kind, string(raw))
	var out terminalOut
	if err := json.Unmarshal([]byte(answer), &out); err != nil {
		b.t.Fatalf("%s: %v", answer, err)
	}
	return out
}

// sh runs a command for a model.
func (b *terminalBox) sh(command string) terminalOut {
	b.t.Helper()
	return b.call(registry.Model, map[string]any{"command": command})
}

// want runs a command and checks output and exit code.
func (b *terminalBox) want(command, output string, code int) {
	b.t.Helper()
	if got := b.sh(command); got.Output != output || got.ExitCode != code || got.Error != nil {
		b.t.Errorf("%s\n got %s\nwant %q, %d", command, show(got), output, code)
	}
}

func show(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// both runs a test in bash and in sh, side by side.
func both(t *testing.T, cfg Config, test func(*testing.T, *terminalBox)) {
	t.Run("bash", func(t *testing.T) { t.Parallel(); test(t, newTerminalBox(t, cfg)) })
	t.Run("sh", func(t *testing.T) { t.Parallel(); test(t, newTerminalBox(t, cfg).useSh()) })
}

func TestTerminalGolden(t *testing.T) {
	b := newTerminalBox(t, Config{})
	for _, row := range []struct{ args, want string }{
		{`{"command":"echo hi; exit 3"}`, `{"output":"hi","exit_code":3,"error":null}`},
		{`{"command":"echo a | grep b"}`, `{"output":"","exit_code":1,"error":null,"exit_code_meaning":"No matches found (not an error)"}`},
		{`{"command":"sleep 5","timeout":1}`, `{"output":"[Command timed out after 1s]","exit_code":124,"error":null}`},
		{`{"command":"true","timeout":700}`, `{"error":"Foreground timeout 700s exceeds the maximum of 600s. Use background=true with notify_on_complete=true for long-running commands."}`},
		{`{}`, `{"output":"","exit_code":-1,"error":"Invalid command: expected string, got NoneType","status":"error"}`},
		{`{"command":null}`, `{"output":"","exit_code":-1,"error":"Invalid command: expected string, got NoneType","status":"error"}`},
		{`{"command":["ls"]}`, `{"output":"","exit_code":-1,"error":"Invalid command: expected string, got list","status":"error"}`},
		{`{"command":"true","workdir":"/tmp;x"}`, `{"output":"","exit_code":-1,"error":"Blocked: workdir contains disallowed character ';'. Use a simple filesystem path without shell metacharacters.","status":"blocked"}`},
		{`{"command":"true","workdir":"/tmp\nx"}`, `{"output":"","exit_code":-1,"error":"Blocked: workdir contains disallowed character '\\n'. Use a simple filesystem path without shell metacharacters.","status":"blocked"}`},
		{`{"command":"pwd","workdir":"/nowhere/at/all"}`, `{"output":"cd: /nowhere/at/all: No such directory","exit_code":126,"error":null}`},
		{`{"command":"echo out; echo err >&2; echo out"}`, `{"output":"out\nerr\nout","exit_code":0,"error":null}`},
		{`{"command":""}`, `{"output":"","exit_code":0,"error":null}`},
		{`{"command":"kill -9 $$"}`, `{"output":"","exit_code":-9,"error":null}`},
		{`{"command":"sh -c 'kill -9 $$'; exit $?"}`, `{"output":"bash: line 1: PID Killed                  sh -c 'kill -9 $$'","exit_code":137,"error":null}`},
		{`{"command":"printf '\\033[31mred\\033[0m'"}`, `{"output":"red","exit_code":0,"error":null}`},
		{`{"command":"nosuchcommand"}`, `{"output":"bash: line 1: nosuchcommand: command not found","exit_code":127,"error":null}`},
		{`{"command":"cat"}`, `{"output":"","exit_code":0,"error":null}`}, // its input is empty
	} {
		got := b.raw(t.Context(), registry.Model, row.args)
		got = regexp.MustCompile(`line 1: +[0-9]+ Killed`).ReplaceAllString(got, "line 1: PID Killed")
		if got != row.want {
			t.Errorf("%s\n got %s\nwant %s", row.args, got, row.want)
		}
	}
}

func TestTerminalRefusesBeforeAnythingStarts(t *testing.T) {
	b := newTerminalBox(t, Config{})
	for _, row := range []struct{ args, status, text string }{
		{`{"command":"touch ran; r''m -rf \"/\""}`, "blocked", "BLOCKED (hardline): "},
		{`{"command":"touch ran; bash -c 'reboot'"}`, "blocked", "BLOCKED (hardline): "},
		{`{"command":"touch ran; echo pw | sudo -S id"}`, "blocked", "BLOCKED: sudo password guessing"},
		{`{"command":"touch ran","background":true}`, "error", "background=true"},
		{`{"command":"touch ran","pty":true}`, "error", "pty=true"},
		{`{"command":"touch ran; sleep 1&"}`, "error", "'&'"},
		{`{"command":"touch ran\u0000"}`, "error", "NUL"},
		{`{"command":"touch ran # ` + strings.Repeat("x", maxCommand) + `"}`, "error", "the limit is 1048576"},
		{`{"command":"touch ran","timeout":0}`, "", "at least 1"},
		{`{"command":"touch ran","timeout":-1}`, "", "at least 1"},
		{`{"command":"touch ran","wrokdir":"/"}`, "", "did you mean 'workdir'"},
	} {
		var out terminalOut
		answer := b.raw(t.Context(), registry.Model, row.args)
		if err := json.Unmarshal([]byte(answer), &out); err != nil || out.Error == nil || !strings.Contains(*out.Error, row.text) || out.Status != row.status {
			t.Errorf("%.80s: %.300s", row.args, answer)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "ran")); err == nil {
			t.Fatalf("%.80s: it ran", row.args)
		}
	}
}

func TestTerminalWithoutBox(t *testing.T) {
	reg, err := registry.NewRegistry(terminalTool(newSession(nil, Config{})))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(reg.Dispatch(t.Context(), registry.Caller{}, "terminal", json.RawMessage(`{"command":"true"}`))); !strings.Contains(got, ErrNoSandbox.Error()) {
		t.Error(got)
	}
}

func waitFor(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen in time")
		}
	}
}

func TestTerminalWorkdir(t *testing.T) {
	b := newTerminalBox(t, Config{})
	// The reference refuses these, and lets workdir stick.
	for _, name := range []string{"ünï 漢字", "a (copy)", "it's", `quo"ted`, "#x[1]", "-dash", "sp  ace"} {
		if err := os.Mkdir(filepath.Join(b.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{name, filepath.Join(b.dir, name)} {
			got := b.call(registry.Model, map[string]any{"command": "pwd; cd /; export W=" + strconv.Itoa(len(name)), "workdir": dir})
			if got.Output != filepath.Join(b.dir, name) {
				t.Errorf("%q: %s", dir, show(got))
			}
		}
		b.want(`pwd; echo "$W"`, b.dir+"\n"+strconv.Itoa(len(name)), 0)
	}
	if got := b.call(registry.Model, map[string]any{"command": "pwd", "workdir": "~"}); got.Output != b.session.box.Info().Home && got.ExitCode == 0 {
		t.Errorf("~: %s", show(got))
	}
	if err := os.WriteFile(filepath.Join(b.dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := b.call(registry.Model, map[string]any{"command": "pwd", "workdir": "file"}); got.ExitCode != 126 {
		t.Errorf("a file: %s", show(got))
	}
	b.want("pwd", b.dir, 0)
}

func TestTerminalOutput(t *testing.T) {
	b := newTerminalBox(t, Config{MaxOutputBytes: 1000, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	got := b.sh("echo password hunter2; head -c 100000 /dev/zero | tr '\\0' x; echo; echo end; cd /usr")
	if !strings.HasPrefix(got.Output, "password ***") || !strings.HasSuffix(got.Output, "x\nend") || !strings.Contains(got.Output, "OUTPUT TRUNCATED") || len(got.Output) > 1200 {
		t.Errorf("model: %q", got.Output)
	}
	b.want("pwd", "/usr", 0) // the report is not in the output, whatever its size

	// A script gets what was printed, less the final newline, as $(…) gives it.
	script := b.call(registry.Script, map[string]any{"command": "echo; printf '\\033[1mhunter2 '; head -c 3000000 /dev/zero | tr '\\0' x; echo"})
	if want := "\n\x1b[1mhunter2 " + strings.Repeat("x", 3_000_000); script.Output != want || script.Note != "" {
		t.Errorf("script: %d bytes, %.40q", len(script.Output), script.Output)
	}
	script = b.call(registry.Script, map[string]any{"command": "yes é | head -c 30000000"})
	if len(script.Output) > maxScriptOutput || len(script.Output) < maxScriptOutput-5 || !strings.Contains(script.Note, "of 30000000 bytes") || strings.Contains(script.Output, "\ufffd") {
		t.Errorf("script: %d bytes, %q", len(script.Output), script.Note)
	}
	raw := b.raw(t.Context(), registry.Script, `{"command":"head -c 9000000 /dev/zero"}`) // six bytes each in JSON
	if len(raw) > maxScriptJSON+500 || !strings.Contains(raw, "The output is cut") {
		t.Errorf("%d bytes of JSON", len(raw))
	}
	if got := b.call(registry.Script, map[string]any{"command": "printf 'a\\377b'"}); got.Output != "a\ufffdb" {
		t.Errorf("invalid UTF-8: %q", got.Output)
	}
}

func TestTerminalTimeoutKillsTheTreeAndKeepsTheOutput(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		stubborn := `import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    open("pid", "w").write(str(os.getpid()))
time.sleep(300)`
		if err := os.WriteFile(filepath.Join(b.dir, "stubborn.py"), []byte(stubborn), 0o600); err != nil {
			t.Fatal(err)
		}
		got := b.call(registry.Model, map[string]any{"command": "echo first; python3 stubborn.py; echo never", "timeout": 5})
		if got.Output != "first\n\n[Command timed out after 5s]" || got.ExitCode != 124 || got.Error != nil {
			t.Error(show(got))
		}
		b.wantDead("pid")
	})
}

// startedBox tells when a command was started.
type startedBox struct {
	sandbox.Sandbox
	started chan struct{}
}

func (b startedBox) Start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Process, error) {
	p, err := b.Sandbox.Start(ctx, cmd)
	b.started <- struct{}{}
	return p, err
}

func TestTerminalInterrupt(t *testing.T) {
	b := newTerminalBox(t, Config{})
	started := make(chan struct{}, 8)
	b.session.box = startedBox{b.session.box, started}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-started // an interrupt during the start leaves nothing to show
		waitUntil(func() bool { pid, err := os.ReadFile(filepath.Join(b.dir, "pid")); return err == nil && len(pid) > 0 })
		cancel()
	}()
	got := b.raw(ctx, registry.Model, `{"command":"echo before; echo $$ > pid; (sleep 300; true); sleep 300"}`)
	if got != `{"output":"before\n\n[Command interrupted]","exit_code":130,"error":null}` {
		t.Error(got)
	}
	b.wantDead("pid")
}

func waitUntil(ready func() bool) {
	for deadline := time.Now().Add(15 * time.Second); !ready() && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
}

// wantDead waits for the end of the process whose id a file holds.
func (b *terminalBox) wantDead(file string) {
	b.t.Helper()
	pid := b.pid(file)
	waitFor(b.t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
}

func (b *terminalBox) pid(file string) int {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, file))
	if err != nil {
		b.t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		b.t.Fatal(err)
	}
	return pid
}

// A daemon a command started lives until the run or the session ends.
func TestTerminalWhatIsLeftBehindLivesAsLongAsTheCaller(t *testing.T) {
	both(t, Config{}, func(t *testing.T, b *terminalBox) {
		// A program that makes itself a daemon, as pg_ctl does.
		daemon := `import os, time
if os.fork() == 0:
    os.setsid()
    open("pid", "w").write(str(os.getpid()))
    time.sleep(300)`
		if err := os.WriteFile(filepath.Join(b.dir, "daemon.py"), []byte(daemon), 0o600); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		b.want("python3 daemon.py; while ! [ -s pid ]; do sleep 0.01; done; cd /usr", "", 0)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("it held the result for %v", took)
		}
		b.want("pwd", "/usr", 0)
		if err := syscall.Kill(b.pid("pid"), 0); err != nil {
			t.Errorf("the daemon is gone: %v", err)
		}
		b.end()
		b.wantDead("pid")
	})
}

func TestTerminalAdvice(t *testing.T) {
	b := newTerminalBox(t, Config{})
	parse := func(command string) string { return foregroundAdvice(approval.Parse(command), false) }
	for _, command := range []string{"sleep 1&", "sleep 1 &", "uvicorn app:x", "nohup make", "make & disown", "setsid x", "npm run dev", "npm start", "yarn dev", "npx vite", "vite",
		"next dev", "nodemon x.js", "gunicorn a:b", "python -m http.server", "python3.11 -m http.server 8000", "docker compose up", "docker-compose up", "cd x && uvicorn a:b",
		"FOO=1 uvicorn a:b", "sudo uvicorn a", "bash -c 'uvicorn a'", "(uvicorn a)", "uv run uvicorn a", "{ sleep 1; } &", "a && b &"} {
		if parse(command) == "" {
			t.Errorf("no advice for %q", command)
		}
	}
	for _, command := range []string{"pip install uvicorn", "rg uvicorn .", "npm install vite", "docker compose up -d", "timeout 5 uvicorn x", "cat <<E > f\na & b\nE", "echo 'a & b'", "echo a \\&",
		"npm run build", "vite build", "uvicorn --help", "gunicorn --version", "ls 2>&1", "ls &> f", "ls >& f", "echo nohup", "make && ls", "sleep 1 & wait", "python -m http.server & sleep 1; kill %1",
		"grep -r 'npm start' .", "git commit -m 'add nohup &'", "python3 -m pip install x", "which nodemon", "npm run test"} {
		if got := parse(command); got != "" {
			t.Errorf("%q: %s", command, got)
		}
	}
	if got := b.call(registry.Script, map[string]any{"command": "sleep 1 &"}); got.Error == nil || strings.Contains(*got.Error, "background=true") {
		t.Errorf("a script is told of what it cannot ask for: %s", show(got))
	}
}

func TestTerminalExitMeaning(t *testing.T) {
	for _, row := range []struct {
		command string
		code    int
		want    string
	}{
		{"grep x f", 1, "No matches found"}, {"grep x f", 2, ""}, {"a | rg x", 1, "No matches found"}, {"cd x && /usr/bin/grep y z", 1, "No matches"}, {"X=1 sudo grep y z", 1, "No matches"},
		{"diff a b", 1, "Files differ"}, {"find / -name x", 1, "Some directories"}, {"test -f x", 1, "Condition"}, {"[ -f x ]", 1, "Condition"}, {"curl http://x", 6, "resolve"}, {"curl x", 22, "HTTP"},
		{"git diff --exit-code", 1, "Non-zero"}, {"grep x f | wc -l", 1, ""}, {"echo 'a | grep b'; false", 1, ""}, {"python x.py # | grep", 1, ""}, {"grep x f; ls y", 1, ""}, {"if", 1, ""},
		{"echo \"x; grep y\"", 1, ""}, {"xargs grep x", 1, ""}, {"! grep x f", 1, ""},
	} {
		if got := exitMeaning(approval.Parse(row.command), row.code); got == "" != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s, %d: %q", row.command, row.code, got)
		}
	}
}

// What the reference answers, and must not be answered here.
func TestTerminalIsNotWrongAsTheReferenceIs(t *testing.T) {
	b := newTerminalBox(t, Config{})
	if err := os.Mkdir(filepath.Join(b.dir, "é (1)"), 0o700); err != nil {
		t.Fatal(err)
	}
	b.sh("mkdir gone; cd gone")
	if err := os.Remove(filepath.Join(b.dir, "gone")); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 200_000)
	for _, row := range []struct{ fault, args, wrong string }{
		{"a deleted directory fails the next command once", `{"command":"echo ran"}`, `"exit_code":126`},
		{"workdir sticks", `{"command":"true","workdir":"/usr"}`, `"exit_code":-1`},
		{"workdir sticks", `{"command":"pwd"}`, `"output":"/usr"`},
		{"workdir is ASCII", `{"command":"true","workdir":"` + b.dir + `/é (1)"}`, `"status":"blocked"`},
		{"a negative timeout ends the command at once", `{"command":"true","timeout":-5}`, `"exit_code":124`},
		{"the end of the guard is a blank", `{"command":"sleep 1&"}`, `"exit_code":0`},
		{"a package's name is a server", `{"command":"echo pip install uvicorn"}`, `"status":"error"`},
		{"a quoted text is a command", `{"command":"echo 'fix rm -rf / bug'"}`, `BLOCKED`},
		{"SIGHUP is every process", `{"command":"f() { :; }; f kill -1 1234; echo kill -1 1234"}`, `BLOCKED`},
		{"quotes hide the root", `{"command":"rm --dry -rf \"/\" || true"}`, `"exit_code":0`},
		{"a path hides the program", `{"command":"/sbin/shutdown --nothing-of-the-kind || true"}`, `"exit_code":0`},
		{"what is long fails", `{"command":": ` + long + `; echo ran"}`, `argument list too long`},
		{"a quoted pipe is a pipe", `{"command":"echo 'x | grep y'; false"}`, `No matches found`},
		{"exit loses the exports", `{"command":"export KEPT=1; exit 0"}`, `"exit_code":-1`},
		{"exit loses the exports", `{"command":"echo kept:$KEPT"}`, `"output":"kept:"`},
		{"the report shows in the output", `{"command":"exec 1>&-; echo x; exit 3"}`, `hx-`},
	} {
		if got := b.raw(t.Context(), registry.Model, row.args); strings.Contains(got, row.wrong) {
			t.Errorf("%s: %.80s: %.300s", row.fault, row.args, got)
		}
	}
}

func TestTerminalDeclaration(t *testing.T) {
	tool := terminalTool(newSession(nil, Config{}))
	module := registry.PythonModule("", []registry.Tool{tool})
	if want := "def terminal(command: str, timeout: int = None, workdir: str = None)"; !strings.Contains(module, want) {
		t.Errorf("no %q in %s", want, module)
	}
	var schema struct {
		Properties map[string]struct {
			Type    string
			Default any
			Minimum *int
			Items   *struct{ Type string }
		}
		Required []string
	}
	if err := json.Unmarshal(tool.Schema(), &schema); err != nil {
		t.Fatalf("%s: %v", tool.Schema(), err)
	}
	var names []string
	for _, p := range tool.Params {
		names = append(names, p.Name+":"+schema.Properties[p.Name].Type)
	}
	if got := strings.Join(names, " "); got != "command:string background:boolean timeout:integer workdir:string pty:boolean notify_on_complete:boolean watch_patterns:array" {
		t.Error(got)
	}
	if min := schema.Properties["timeout"].Minimum; min == nil || *min != 1 || !slices.Equal(schema.Required, []string{"command"}) || schema.Properties["pty"].Default != false {
		t.Errorf("%s", tool.Schema())
	}
	if tool.Summary() != `Run a shell command (foreground only). Returns dict with "output" and "exit_code".` {
		t.Error(tool.Summary())
	}
}
