package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// testPolicy is like workspace for /work, without a network.
func testPolicy() sandbox.Policy {
	return sandbox.Policy{
		Name: "p", Read: []string{"/"}, Write: []string{"/work"},
		DenyRead:  []string{"/home/u/.ssh", "/work/.env", "/work/odd\x1b[31m\u202e"},
		DenyWrite: []string{"/work/.git/config", "/work/.git/hooks", "/work/.envrc", "/work/.vscode"},
	}
}

// judging is a judge over a fake box that has the files.
func judging(t testing.TB, p sandbox.Policy, rung string, dirs ...string) *judge {
	t.Helper()
	fake := &sandboxtest.Fake{}
	box, err := fake.Create(context.Background(), sandbox.Spec{Policy: p})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fake.Close() })
	for _, dir := range dirs {
		if err := box.Files().MkdirAll(context.Background(), dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	info := box.Info()
	info.Rung = rung
	return &judge{policy: p, info: info, files: box.Files(), redact: func(s string) string { return s }}
}

func TestDenials(t *testing.T) {
	for _, c := range []struct {
		text, want string // "" for none
	}{
		// Python's own words.
		{"PermissionError: [Errno 13] Permission denied: '/home/u/.ssh/id_rsa'", `use "/home/u/.ssh/id_rsa" (files: deny_read "/home/u/.ssh")`},
		{"FileNotFoundError: [Errno 2] No such file or directory: b'/home/u/.ssh/id_rsa'", `use "/home/u/.ssh/id_rsa" (files: deny_read "/home/u/.ssh")`},
		{"OSError: [Errno 30] Read-only file system: '/etc/hosts'", `write "/etc/hosts" (files: nothing allows it)`},
		{`OSError: [Errno 30] Read-only file system: "/etc/it's"`, `write "/etc/it's" (files: nothing allows it)`},
		{`OSError: [Errno 30] Read-only file system: '/etc/\u4e16\udcff\n'`, `write "/etc/世\xff\n" (files: nothing allows it)`},
		{"OSError: [Errno 30] Read-only file system: '../etc/hosts'", `write "/etc/hosts" (files: nothing allows it)`},
		{"OSError: [Errno 30] Read-only file system: '.git/hooks/pre-commit'", `write "/work/.git/hooks/pre-commit" (files: deny_write "/work/.git/hooks")`},
		{"OSError: [Errno 16] Device or resource busy: '.git' -> '.g2'", `rename or remove "/work/.git" (files: deny_write "/work/.git/config")`},
		{"IsADirectoryError: [Errno 21] Is a directory: '.envrc'", `write "/work/.envrc" (files: deny_write "/work/.envrc")`},
		{"FileExistsError: [Errno 17] File exists: '/work/.envrc'", `write "/work/.envrc" (files: deny_write "/work/.envrc")`},
		// Other programs'.
		{"cat: .env: Permission denied", `use "/work/.env" (files: deny_read "/work/.env")`},
		{"bash: line 1: /etc/x: Read-only file system", `write "/etc/x" (files: nothing allows it)`},
		{"touch: cannot touch '/etc/x': Read-only file system", `write "/etc/x" (files: nothing allows it)`},
		{"mkdir: cannot create directory ‘/etc/x’: Read-only file system", `write "/etc/x" (files: nothing allows it)`},
		{"error: could not write config file .git/config: Device or resource busy", `write "/work/.git/config" (files: deny_write "/work/.git/config")`},
		{"error: could not lock config file .git/config: Read-only file system", `write "/work/.git/config" (files: deny_write "/work/.git/config")`},
		{"fatal: Unable to create '/work/.git/config.lock': Read-only file system", `write "/work/.git/config" (files: deny_write "/work/.git/config")`},
		{"fatal: cannot copy '/usr/share/git-core/templates/description' to '/work/.git/hooks/description': Read-only file system", `write "/work/.git/hooks/description" (files: deny_write "/work/.git/hooks")`},
		{"fatal: cannot copy '/usr/share/x' to '/work/x': Read-only file system", ""},
		{"fatal: Unable to create '/srv/r/.git/index.lock': Read-only file system", `write "/srv/r/.git/index.lock" (files: nothing allows it)`},
		{"open /home/u/.ssh/x: permission denied", `use "/home/u/.ssh/x" (files: deny_read "/home/u/.ssh")`},
		{"Error: EROFS: read-only file system, open '/etc/x'", `write "/etc/x" (files: nothing allows it)`},
		{"Failed to write file: '/etc/x': read-only file system", `write "/etc/x" (files: nothing allows it)`},
		{"Permission denied: /work/.env", `use "/work/.env" (files: deny_read "/work/.env")`},
		// The network.
		{"OSError: [Errno 101] Network is unreachable", "network access (network: off)"},
		{"socket.gaierror: [Errno -3] Temporary failure in name resolution", "network access (network: off)"},
		{"curl: (6) Could not resolve host: example.com", "network access (network: off)"},
		{"getaddrinfo EAI_AGAIN registry.npmjs.org", "network access (network: off)"},
		{"    s.connect(('1.1.1.1', 80))\nPermissionError: [Errno 13] Permission denied", "network access (network: off)"},
		{"urllib.error.URLError: <urlopen error [Errno 13] Permission denied>", "network access (network: off)"},

		// The file's own mode, a file that is not there, a device that is busy.
		{"PermissionError: [Errno 13] Permission denied: '/work/file'", ""},
		{"PermissionError: [Errno 13] Permission denied: '/etc/shadow'", ""},
		{"PermissionError: [Errno 1] Operation not permitted: '/work/file'", ""},
		{"PermissionError: [Errno 13] Permission denied", ""},
		{"FileNotFoundError: [Errno 2] No such file or directory: '/work/.git/hooks/x'", ""},
		{"FileNotFoundError: [Errno 2] No such file or directory: 'data.csv'", ""},
		{"OSError: [Errno 30] Read-only file system: '/work/mnt/x'", ""},
		{"OSError: [Errno 16] Device or resource busy: '/work/mnt'", ""},
		{"OSError: [Errno 16] Device or resource busy: '/dev/sda'", ""},
		{"IsADirectoryError: [Errno 21] Is a directory: '.vscode'", ""}, // has files: opened by mistake
		{"IsADirectoryError: [Errno 21] Is a directory: 'src'", ""},
		{"FileExistsError: [Errno 17] File exists: '.git/hooks/x'", ""},
		{"error: could not lock config file .git/config: File exists", ""}, // another git at work
		// What a box has of its own.
		{"PermissionError: [Errno 13] Permission denied: '/tmp/x'", ""},
		{"OSError: [Errno 30] Read-only file system: '/proc/sys/kernel/x'", ""},
		{"FileNotFoundError: [Errno 2] No such file or directory: '/run/user/x'", ""},
		{"PermissionError: [Errno 13] Permission denied: '/scratch/run-1/x'", ""},
		{"ConnectionRefusedError: [Errno 111] Connection refused", ""},
		{"all is well with '/home/u/.ssh'", ""},
		{"OSError: [Errno 30] Read-only file system: '/etc/never ends", ""},
		{"OSError: [Errno 30] Read-only file system: '/etc/" + strings.Repeat("a", maxPath) + "'", ""},
		{"OSError: [Errno 30] Read-only file system: '/etc/\\x00'", ""},
	} {
		j := judging(t, testPolicy(), sandbox.RungNamespaces, "/work/.envrc", "/work/.vscode/tasks", "/work/src", "/work/.git/hooks/x")
		got := j.decide(t.Context(), complaints("Traceback (most recent call last):\n"+c.text+"\n", "/work"))
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s\n got %+v", c.text, got)
		case c.want != "" && (len(got) != 1 || got[0].What+" ("+got[0].Clause+")" != c.want || got[0].Hint == ""):
			t.Errorf("%s\n got %+v\nwant %s", c.text, got, c.want)
		}
		open := judging(t, sandbox.Policy{Unconfined: true}, "")
		if got := open.decide(t.Context(), complaints(c.text, "/work")); len(got) > 0 {
			t.Errorf("open: %s: %+v", c.text, got)
		}
		host := testPolicy()
		host.Network = sandbox.NetworkHost
		if got := judging(t, host, "").decide(t.Context(), complaints(c.text, "/work")); len(got) > 0 && strings.Contains(got[0].What, "network") {
			t.Errorf("with a network: %s: %+v", c.text, got)
		}
	}
}

// Where Landlock alone holds the box, it answers a write with EACCES: a hint,
// unless the file's own mode is answer enough.
func TestDenialOfAWriteByLandlock(t *testing.T) {
	const text = "PermissionError: [Errno 13] Permission denied: '/etc/%s'"
	for rung, want := range map[string]int{sandbox.RungLandlock: 1, sandbox.RungNamespaces: 0} {
		for name, mode := range map[string]os.FileMode{"anybody": 0o777, "nobody": 0o555, "owner": 0o755} {
			j := judging(t, testPolicy(), rung, "/etc")
			if err := j.files.Mkdir(t.Context(), "/etc/"+name, mode); err != nil {
				t.Fatal(err)
			}
			want := want
			if name != "anybody" { // nobody knows who owns the fake's files
				want = 0
			}
			for _, path := range []string{name, name + "/new"} {
				j.found = nil
				if got := j.decide(t.Context(), complaints(fmt.Sprintf(text, path), "/work")); len(got) != want {
					t.Errorf("%s, %s: %+v", rung, path, got)
				}
			}
		}
	}
	// A real file of this user's.
	dir := t.TempDir()
	j := judging(t, sandbox.Policy{Read: []string{"/home"}}, sandbox.RungLandlock)
	box, err := local.New(local.Config{Scratch: shortTemp(t)}).Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	j.files, j.info.UID = box.Files(), os.Getuid()
	if !j.modeAllows(t.Context(), dir) || !j.modeAllows(t.Context(), dir+"/new") || j.modeAllows(t.Context(), dir+"/a/b") {
		t.Error("the owner's mode is not looked at")
	}
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	if j.modeAllows(t.Context(), dir) {
		t.Error("a read-only directory allows")
	}
}

// Links are followed in the box: what counts is where a name leads.
func TestDenialFollowsLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w", "closed"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"w/out": dir + "/closed", "in": dir + "/w"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	box, err := local.New(local.Config{Scratch: shortTemp(t)}).Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	for name, want := range map[string]string{
		"w/out/x":  fmt.Sprintf("write %q", dir+"/closed/x"),
		"in/x":     "",
		"in/out/x": fmt.Sprintf("write %q", dir+"/closed/x"),
	} {
		j := judge{policy: sandbox.Policy{Read: []string{dir}, Write: []string{dir + "/w"}}, info: sandbox.Info{ScratchDir: "/scratch"}, files: box.Files(), redact: func(s string) string { return s }}
		got := j.decide(t.Context(), complaints("OSError: [Errno 30] Read-only file system: '"+name+"'", dir))
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].What != want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestDenialHints(t *testing.T) {
	text := func(name string) string { return "OSError: [Errno 30] Read-only file system: '" + name + "'" }
	one := func(j *judge, line string) Denial {
		t.Helper()
		got := j.decide(t.Context(), complaints(line, "/work"))
		if len(got) != 1 {
			t.Fatalf("%s: %+v", line, got)
		}
		return got[0]
	}
	for line, want := range map[string]string{
		text("/etc/x"):                         `a policy file with write: and the directory it is in, or --policy open`,
		text(".git/hooks"):                     `its guard in code_execution.open_guards, or out of deny_write: hermes-exec policy explain "/work/.git/hooks" names it`,
		"cat: /home/u/.ssh: Permission denied": `its guard in code_execution.open_guards, or out of deny_read: hermes-exec policy explain "/home/u/.ssh" names it`,
		"cat: /srv/x: Permission denied":       `a policy file with read: ["/srv/x"], or write: and its directory if it is to be changed; or --policy open`,
		"Network is unreachable":               "--policy workspace, or a policy file with network: host",
	} {
		p := testPolicy()
		p.Read = []string{"/etc", "/home", "/work"}
		if got := one(judging(t, p, ""), line).Hint; got != want {
			t.Errorf("%s: %s", line, got)
		}
	}
	j := judging(t, testPolicy(), "")
	j.explain = func(name string) string { return "open it:\n\x1b[31m" + name + strings.Repeat("x", 2000) }
	if got := one(j, text("/etc/x")).Hint; !strings.HasPrefix(got, `open it:\n\x1b[31m/etc/x`) || len(got) > 2*maxHint {
		t.Errorf("%q", got)
	}
	j = judging(t, testPolicy(), "")
	j.explain = func(string) string { return "" }
	if got := one(j, text("/etc/x")).Hint; !strings.Contains(got, "write:") {
		t.Errorf("%q", got)
	}
	// A secret in a name is not shown, and a name that would fill a page is cut.
	j = judging(t, testPolicy(), "")
	j.redact = func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }
	if got := one(j, text("/etc/hunter2")); strings.Contains(got.What+got.Hint, "hunter2") || !strings.Contains(got.What, "***") {
		t.Errorf("%+v", got)
	}
	if got := one(judging(t, testPolicy(), ""), text("/etc/"+strings.Repeat("\\x1b", 1000))); len(got.What) > 5*maxShownPath || strings.ContainsRune(got.What, 0x1b) {
		t.Errorf("%+v", got)
	}
}

func TestDenialsAreFewAndDifferent(t *testing.T) {
	var text strings.Builder
	for i := range 200 {
		fmt.Fprintf(&text, "OSError: [Errno 30] Read-only file system: '/etc/%d'\nNetwork is unreachable\n", i/2)
	}
	got := judging(t, testPolicy(), "").decide(t.Context(), complaints(text.String(), "/work"))
	if len(got) != maxDenials || got[0].What != "network access" || got[1].What != `write "/etc/99"` || got[2].What != `write "/etc/98"` {
		t.Errorf("%+v", got)
	}
	if list := complaints(strings.Repeat("Network is unreachable\n", 1<<20), "/work"); len(list) != maxComplaints {
		t.Errorf("%d complaints", len(list))
	}
}

// The whole way: a script's stderr, and errors of tool calls, into the result.
func TestDenialsInTheResult(t *testing.T) {
	says := func(code int, stderr, stdout string) program {
		return func(_ context.Context, _ *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
			io.WriteString(cmd.Stderr, stderr)
			io.WriteString(cmd.Stdout, stdout)
			return sandbox.Exit{Code: code}
		}
	}
	const line = "OSError: [Errno 30] Read-only file system: '/etc/x'\n"
	want := `"denials":[{"what":"write \"/etc/x\"","clause":"files: nothing allows it","hint":"a policy file with write: and the directory it is in, or --policy open"}]`
	for _, c := range []struct {
		name   string
		policy sandbox.Policy
		run    program
		want   string
	}{
		{"a script that failed", testPolicy(), says(1, line, ""), want},
		{"a script that coped", testPolicy(), says(0, line, ""), want},
		{"a script that printed its error", testPolicy(), says(0, "", "so far\n"+line), want},
		{"a script that printed it and failed of it", testPolicy(), says(1, line, line), want},
		{"a script that printed what is allowed", testPolicy(), says(0, "", "OSError: [Errno 30] Read-only file system: '/work/x'\n"), ""},
		{"a lot before the error", testPolicy(), says(0, "", strings.Repeat("a line of no interest\n", 100_000)+line), want},
		{"no confinement", sandbox.Policy{Unconfined: true}, says(1, line, line), ""},
	} {
		fakeRun(t, c.policy, reporting{}, c.run, func(r Result, _ time.Duration) {
			got := string(r.JSON())
			if c.want == "" && strings.Contains(got, "denials") || !strings.Contains(got, c.want) || strings.Contains(string(r.CompatJSON()), "denials") {
				t.Errorf("%s: %s", c.name, got)
			}
		})
	}
}

func TestDenialsOfToolCalls(t *testing.T) {
	replies := map[string]any{
		"read_file":  errors.New("permission denied: ~/.ssh/id_rsa"),
		"write_file": map[string]any{"bytes_written": 0, "error": "Failed to write file: '/etc/x': read-only file system"},
		"terminal":   map[string]any{"output": "error: could not write config file .git/config: Device or resource busy", "exit_code": 4, "error": nil},
		"patch":      map[string]any{"output": "cat: /work/.env: Permission denied", "exit_code": 0, "error": nil},
	}
	e := newEngine(t, func(c *Config) {
		c.Backends = map[string]sandbox.Backend{"local": &sandboxtest.Fake{}}
		c.Tools = func(sandbox.Sandbox) (list []registry.Tool) {
			for name, reply := range replies {
				list = append(list, registry.New(name, "t", "", func(context.Context, registry.Caller, struct {
					Path string `json:"path" default:""`
				}) (any, error) {
					if err, ok := reply.(error); ok {
						return nil, err
					}
					return reply, nil
				}))
			}
			return list
		}
	})
	policy := testPolicy()
	s := open(t, e, Task{Policy: &policy, Explain: func(name string) string { return "ask about " + name }})
	for call, want := range map[string]string{
		`read_file {"path":"/home/u/.ssh/id_rsa"}`: `use "/home/u/.ssh/id_rsa", ask about /home/u/.ssh/id_rsa`,
		`read_file {"path":"notes"}`:               "",
		`write_file {"path":"/etc/x"}`:             `write "/etc/x", ask about /etc/x`,
		`terminal {}`:                              `write "/work/.git/config", ask about /work/.git/config`,
		`patch {}`:                                 "",
	} {
		g := &gate{place: s.place, run: "run-1", granted: s.granted, max: 5, ctx: t.Context()}
		name, args, _ := strings.Cut(call, " ")
		g.handle(t.Context(), rpc.Call{ID: 1, Tool: name, Args: json.RawMessage(args)})
		got := s.place.denials(t.Context(), g.complaints())
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || got[0].What+", "+got[0].Hint != want) {
			t.Errorf("%s: %+v", call, got)
		}
	}
	for range maxComplaints {
		(&gate{place: s.place}).record(rpc.Call{Args: json.RawMessage("[")}, 0, json.RawMessage(`{"error":{"a":1}}`))
	}
}

// However a script words it: at most five, no control character, nothing where
// nothing is denied.
func FuzzDenials(f *testing.F) {
	f.Add("PermissionError: [Errno 13] Permission denied: '/work/.env'", "")
	f.Add("EROFS: read-only file system, open '/etc/\\x1b[31m\\udcff'\nNetwork is unreachable", `{"error":"permission denied: /work/odd\u001b[31m\u202e"}`)
	f.Add("mv: cannot move ‘.git’ to \"x\": Device or resource busy\n' \\' b'\\x", `{"output":"cat: .env: Permission denied","exit_code":1}`)
	f.Add("IsADirectoryError: [Errno 21] Is a directory: '.envrc'\n<urlopen error [Errno 13] Permission denied>", "[]")
	f.Fuzz(func(t *testing.T, text, reply string) {
		both := append(complaints(text, "/work"), callComplaints(rpc.Call{Args: json.RawMessage(reply)}, json.RawMessage(reply), "/work")...)
		if len(both) > 2*maxComplaints {
			t.Fatalf("%d complaints", len(both))
		}
		mayComplain(json.RawMessage(reply), false)
		if got := judging(t, sandbox.Policy{Unconfined: true}, "").decide(t.Context(), both); len(got) > 0 {
			t.Fatalf("open: %+v", got)
		}
		all := sandbox.Policy{Read: []string{"/"}, Write: []string{"/"}, Network: sandbox.NetworkHost}
		if got := judging(t, all, sandbox.RungLandlock).decide(t.Context(), both); len(got) > 0 {
			t.Fatalf("everything is allowed: %+v", got)
		}
		for _, rung := range []string{sandbox.RungNamespaces, sandbox.RungLandlock} {
			j := judging(t, testPolicy(), rung, "/etc", "/work/.envrc")
			j.explain = func(name string) string { return name }
			if text == "" {
				j.explain = nil
			}
			got := j.decide(t.Context(), both)
			if len(got) > maxDenials {
				t.Fatalf("%d denials", len(got))
			}
			for _, d := range got {
				for _, s := range []string{d.What, d.Clause, d.Hint} {
					if s == "" || !utf8.ValidString(s) || len(s) > 12*maxHint || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
						t.Fatalf("%q", s)
					}
				}
			}
		}
	})
}

// A judge that is stopped says nothing wrong and ends.
func TestDenialsWhenTheBoxIsGone(t *testing.T) {
	box, err := local.New(local.Config{Scratch: shortTemp(t)}).Create(t.Context(), sandbox.Spec{WorkDir: t.TempDir(), Policy: sandbox.Policy{Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := box.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, err := box.Files().Resolve(t.Context(), "/etc"); err != nil && !errors.Is(err, sandbox.ErrClosed) {
		t.Fatal(err)
	}
	j := judge{policy: testPolicy(), info: box.Info(), files: box.Files(), redact: func(s string) string { return s }}
	if got := j.decide(t.Context(), complaints("OSError: [Errno 30] Read-only file system: '/etc/hosts'", "/work")); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}
