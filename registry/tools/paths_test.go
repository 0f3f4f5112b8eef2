package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hermes-exec/hermes-exec/registry"
)

func jsonValid(s string) bool { return json.Valid([]byte(s)) }

// pythonOnly is what Python's reader takes and JSON has not, and nests too deep
// for it.
func pythonOnly(s string) bool {
	return strings.Contains(s, "NaN") || strings.Contains(s, "Infinity") || strings.Count(s, "[")+strings.Count(s, "{") > maxJSONDepth/2
}

// TestCheckJSONWords compares the checker's words with Python's own.
func TestCheckJSONWords(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	texts := []string{"", " ", "{", "{bad", "{\"a\"", "{\"a\" 1}", "{\"a\":}", "{\"a\":1 \"b\"}", "[", "[1", "[1 2]", "[,]", "\"abc", "\"a\nb\"", "\"\\q\"", "\"\\u12G4\"",
		"\"\\", "1 2", "01", "-", "1.", "1e", "nul", "tru", "NaN", "-Infinity", "[1]]", "{}\n\n x", "[\"é\", ?]", "{'a':1}", "\"\\u00e9\"", "[[[[]]]", "1.5E+3", "{\"a\":{\"b\":[}}"}
	input, _ := json.Marshal(texts)
	cmd := exec.Command(python, "-c", `
import json, sys
out = []
for t in json.load(sys.stdin):
    try: json.loads(t); out.append("")
    except json.JSONDecodeError as e: out.append(f"JSONDecodeError: {e.msg} (line {e.lineno}, column {e.colno})")
print(json.dumps(out))`)
	cmd.Stdin = strings.NewReader(string(input))
	raw, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		if got := checkJSON(text, false); got != want[i] {
			t.Errorf("%q: %q, Python says %q", text, got, want[i])
		}
	}
}

// TestDeniedPlaces: no spelling leads to a secret or to the engine's state.
func TestDeniedPlaces(t *testing.T) {
	b := setup(t, nil)
	hermes := b.home + "/.hermes"
	for _, name := range []string{
		b.home + "/.ssh/config", b.home + "/.ssh/id_rsa", b.home + "/.aws/credentials", b.home + "/.config/gh/hosts.yml", b.home + "/.netrc",
		hermes + "/.env", hermes + "/auth.json", hermes + "/config.yaml", hermes + "/mcp-tokens/x", hermes + "/skills/.hub/index", hermes + "/skills/a/SKILL.md",
		b.dir + "/.env", b.dir + "/.env.local", b.dir + "/.env.example", b.dir + "/.envrc", b.dir + "/sub/.env", b.dir + "/docker.sock",
	} {
		b.file(name, "SECRET\n")
	}
	for link, target := range map[string]string{"ssh": b.home + "/.ssh", "rsa": "../home/.ssh/id_rsa", "env2": ".env", "home": b.home} {
		if err := os.Symlink(target, b.dir+"/"+link); err != nil {
			t.Fatal(err)
		}
	}
	denied := []string{
		"~/.ssh/config", "~/.ssh/id_rsa", "~/.ssh/../.ssh/id_rsa", "~/.aws/credentials", "~/.config/gh/hosts.yml", "~/.netrc",
		"../home/.ssh/id_rsa", "ssh/id_rsa", "rsa", "home/.ssh/id_rsa", "home/.aws/credentials", b.home + "//.ssh/./id_rsa",
		"~/.hermes/.env", "~/.hermes/auth.json", "~/.hermes/config.yaml", "~/.hermes/mcp-tokens/x", "~/.hermes/skills/.hub/index",
		".env", ".env.local", ".envrc", "sub/.env", "env2", "sub/../.env", "docker.sock", "/etc/shadow", "/etc/shadow-", "/etc/ssh/ssh_host_ed25519_key",
		"~/.SSH/id_rsa", "~/.ſsh/id_rsa", "~/.s\u200csh/id_rsa", "~/.ｓｓｈ/id_rsa", "~/.Hermes/config.yaml", ".ENV", "/ETC/shadow", // where a file system folds
	}
	for _, caller := range []registry.Caller{model, script, {Kind: registry.MCP}} {
		for _, name := range denied {
			got := b.call(caller, "read_file", args{"path": name})
			matches(t, "read "+name, got, args{"content": "", "error": "Read denied: '" + name + "' holds credentials or the engine's own state."})
		}
		for _, name := range []string{".env.example", "~/.hermes/skills/a/SKILL.md"} {
			matches(t, "read "+name, b.call(caller, "read_file", args{"path": name, "offset": 1}), args{"error": nil})
		}
	}
	writeDenied := map[string]string{
		"~/.ssh/config": b.home + "/.ssh/config", "~/.ssh/new": b.home + "/.ssh/new", "ssh/authorized_keys": b.home + "/.ssh/authorized_keys",
		"~/.npmrc": b.home + "/.npmrc", "~/.netrc": b.home + "/.netrc", "home/.aws/x": b.home + "/.aws/x", "~/.hermes/.env": hermes + "/.env",
		"~/.hermes/skills/a/SKILL.md": hermes + "/skills/a/SKILL.md", "~/.hermes/pairing/x": hermes + "/pairing/x", "~/.SSH/config": b.home + "/.SSH/config",
	}
	for name, resolved := range writeDenied {
		got := b.call(model, "write_file", args{"path": name, "content": "x", "cross_profile": true})
		matches(t, "write "+name, got, args{"bytes_written": 0, "dirs_created": false, "resolved_path": resolved,
			"error": "Write denied: '" + resolved + "' is a protected system/credential file.", "lint": nil})
	}
	for name, resolved := range map[string]string{
		"/etc/hermes-test": "/etc/hermes-test", "/boot/x": "/boot/x", "/etc/../etc/passwd": "/etc/passwd", "/usr/lib/systemd/x": "/usr/lib/systemd/x",
		"/private/var/x": "/private/var/x", "/dev/shm/../null": "/dev/null", "/proc/self/mem": "/proc/self/mem", "/sys/x": "/sys/x",
		"~/.hermes/config.yaml": hermes + "/config.yaml", "/var/run/docker.sock": "", "/ETC/hermes-test": "/ETC/hermes-test",
	} {
		got := b.call(model, "write_file", args{"path": name, "content": "x"})
		if text, _ := got["error"].(string); !strings.HasPrefix(text, "Refusing to write to sensitive system path: "+resolved) || !strings.Contains(text, "\nUse the terminal tool with sudo") {
			t.Errorf("write %s: %v", name, got)
		}
	}
	// macOS keeps temporary directories below /private/var.
	if s := newSession(b.box, Config{}); s.allowed("x", "/private/var/folders/zz/T/x", toWrite) != nil || s.allowed("x", "/dev/shm/x", toWrite) != nil {
		t.Error("a temporary directory is taken for the system's")
	}
	// Suggestions do not name what is denied.
	got := b.call(model, "read_file", args{"path": ".envr"})
	matches(t, "suggestion", got, args{"error": "File not found: .envr", "similar_files": nil})
	if b.disk(hermes+"/config.yaml") != "SECRET\n" {
		t.Error("the engine's configuration was written")
	}
}

// TestDeniedBehindLinks: a secret place that is itself a link is as secret
// where it leads.
func TestDeniedBehindLinks(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.HermesHome = c.Home + "/state/profiles/one"
		if err := os.MkdirAll(c.HermesHome, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(c.Home+"/vault/keys", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("vault/keys", c.Home+"/.ssh"); err != nil {
			t.Fatal(err)
		}
	})
	b.file(b.home+"/vault/keys/id", "SECRET")
	b.file(b.home+"/state/auth.json", "SECRET")
	b.file(b.home+"/state/profiles/two/auth.json", "SECRET")
	for _, name := range []string{"~/.ssh/id", "~/vault/keys/id", "~/state/auth.json", "~/state/profiles/two/auth.json"} {
		matches(t, name, b.call(script, "read_file", args{"path": name}), args{"content": "", "error": "Read denied: …"})
		matches(t, name, b.call(script, "write_file", args{"path": name, "content": "", "cross_profile": true}), args{"error": "Write denied: …"})
	}
}

func TestWriteRootAndScratch(t *testing.T) {
	b := setup(t, func(c *Config) {
		c.WriteRoot = filepath.Dir(c.Home) + "/work/only"
		c.HermesHome = filepath.Dir(c.Home) // the engine keeps scratch directories among its state
	})
	scratch := b.box.Info().ScratchDir
	if err := os.WriteFile(scratch+"/f", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	matches(t, "scratch", b.call(script, "read_file", args{"path": scratch + "/f"}), args{"content": "x", "error": nil})
	matches(t, "state", b.call(script, "read_file", args{"path": "f"}), args{"error": "Read denied: …"})
	matches(t, "outside the root", b.call(script, "write_file", args{"path": scratch + "/g", "content": ""}),
		args{"error": "Write denied: '" + scratch + "/g' is outside the directory that writes are confined to."})
}

func TestNoSandbox(t *testing.T) {
	reg, err := registry.NewRegistry(New(nil, Config{})...)
	if err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]string{"read_file": `{"path":"x"}`, "write_file": `{"path":"x","content":""}`} {
		raw := reg.Dispatch(context.Background(), model, name, []byte(in))
		var got map[string]string
		if err := json.Unmarshal(raw, &got); err != nil || len(got) != 1 || got["error"] != ErrNoSandbox.Error() {
			t.Errorf("%s without a box: %s", name, raw)
		}
	}
}

func TestResolveFollowsCwd(t *testing.T) {
	b := setup(t, nil)
	b.file("sub/f.txt", "in sub")
	b.file("f.txt", "in work")
	s := newSession(b.box, Config{})
	s.setCwd(b.dir + "/sub")
	for name, want := range map[string]string{"f.txt": "/sub/f.txt", "../f.txt": "/f.txt", ".": "/sub", b.dir + "/x/../f.txt": "/f.txt"} {
		if got, err := s.resolve(context.Background(), name, toRead); err != nil || got != b.dir+want {
			t.Errorf("resolve(%q) = %q, %v", name, got, err)
		}
	}
	if _, err := s.resolve(context.Background(), "~/.ssh/x", toWrite); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a refusal is %v, want a permission error", err)
	}
}

// A name with a slash at its end is a directory's: nothing is written there,
// and no file appears under the name without the slash.
func TestTrailingSlashIsNoFile(t *testing.T) {
	b := setup(t, nil)
	b.file("f", "x\n")
	for tool, in := range map[string]args{
		"write_file": {"path": "new/", "content": "x"},
		"patch":      {"mode": "patch", "patch": "*** Update File: f\n*** Move to: new/"},
	} {
		if got := b.call(model, tool, in); !strings.Contains(fmt.Sprint(got["error"]), "names a directory") {
			t.Errorf("%s: %v", tool, got)
		}
		if _, err := os.Lstat(b.dir + "/new"); err == nil {
			t.Errorf("%s made a file", tool)
		}
	}
}
