package policy

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestFile(t *testing.T) {
	w := newWorld(t)
	w.dir("home/data")
	w.dir("out")
	w.file("home/work/mine.yaml", `
extends: workspace
read: [~/data, ./]
write: [`+w.at("out")+`]
deny_read: [./private, ~/data/raw]
deny_write: [./vendor]
network: off
open_guards: [npm, direnv]
best_effort: [syscalls]
`)
	p := w.make(w.at("home/work/mine.yaml"))
	w.expect(p, map[string]string{
		"home/data/x": "r-", "home/data/raw": "--", "out/x": "rw", "out/.git": "r-", "home/work/private/x": "--", "home/work/vendor": "r-",
		"home/.npmrc": "r-", "home/work/.envrc": "rw", "home/.ssh": "--", "home/work/a": "rw",
		"home/work/mine.yaml": "r-", // a script does not edit its own policy
	})
	if p.Policy.Network != sandbox.NetworkOff || p.Policy.Name != w.at("home/work/mine.yaml") || !slices.Contains(p.Policy.BestEffort, sandbox.ClauseSyscalls) {
		t.Errorf("got %+v", p.Policy)
	}
	if e := p.Explain(w.at("home/work/mine.yaml")); e.Guard != "policy" || e.Hint != "nothing opens it" {
		t.Errorf("got %+v", e)
	}
}

func TestFileWithoutExtends(t *testing.T) {
	w := newWorld(t)
	w.file("home/data/x", "")
	w.file("p.yml", "read: [~]\nwrite: []\n")
	p := w.make(w.at("p.yml"))
	w.expect(p, map[string]string{"home/data/x": "r-", "home/work/x": "r-", "home/.ssh/id": "--", "/usr/bin/env": "--", "/etc/passwd": "--"})
	if p.Policy.Network != sandbox.NetworkOff || len(p.Policy.Write)+len(p.Policy.Private)+len(p.Policy.BestEffort) > 0 {
		t.Errorf("got %+v", p.Policy)
	}
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "extends: sealed gives the system") {
		t.Errorf("notes: %q", p.Notes)
	}
	w.file("none.yml", "network: host\n")
	if p := w.make(w.at("none.yml")); len(p.Policy.Read)+len(p.Policy.Write) > 0 || p.Policy.Network != sandbox.NetworkHost {
		t.Errorf("got %+v", p.Policy)
	}
}

// Each mistake is refused with file, line and key.
func TestMistakes(t *testing.T) {
	for _, c := range []struct{ yaml, want string }{
		{"", "the file is empty"}, {"# nothing\n", "the file is empty"}, {"---\n", "the file is empty"}, {"null\n", "the file is empty"},
		{"extends: open", `:1: extends: want sealed or workspace, got "open"`}, {"extends:", ":1: extends: want a word, got nothing"},
		{"extends: [sealed]", "extends: want a word, got a list"}, {"extends: ''", "extends: want a word"},
		{"extends: sealed\nreads: []", ":2: reads: unknown key; known are extends, read,"}, {"? [a]\n: b", "want a word as key, got a list"},
		{"read: [/a]\nwrite: [/b]\nread: [/c]", ":3: read: the key is already in line 1"},
		{"read: /a", `:1: read: want a list, got the string "/a"`}, {"read:", "read: want a list, got nothing"}, {"read: {a: b}", "want a list, got a mapping"},
		{"read:\n- /a\n- [/b]", ":3: read: want a word, got a list"}, {"read: [1]", "read: want a word, got the number 1"}, {"read: [true]", "got the boolean true"},
		{"read: [~]", ""}, {"read: [null]", "read: want a word, got nothing"}, {"read: ['']", "read: want a word"},
		{"read:\n  - /a\n  - data/x", `:3: read: "data/x" is relative`}, {"write: [../x]", `write it without ".."`}, {"read: [/a/../b]", `write it without ".."`},
		{"read: [/a/./b]", `write it without "."`}, {"read: [~bob/x]", "only ~ and ~/… can be resolved"}, {"deny_read: ['/a*']", "paths are literal"},
		{"deny_read: ['/a?']", "paths are literal"}, {"deny_write: ['/[a]']", "paths are literal"}, {"read: [\"/a\\nb\"]", "no line break"}, {"read: [\"/a\\0b\"]", "no NUL"},
		{"read: [/" + strings.Repeat("x", 5000) + "]", "is longer than 4095 bytes"},
		{"network: on", `network: want off or host, got "on"`}, {"network: [pypi.org]", "network: want a word, got a list"}, {"network: 'no'", "want off or host"},
		{"network: false", "network: want a word, got the boolean false"}, {"network: Host", "want off or host"}, {"network:", "network: want a word, got nothing"},
		{"open_guards: [nope]", `open_guards: there is no "nope"; there are ssh,`}, {"open_guards: [engine_keys]", `there is no "engine_keys"`}, {"open_guards: npm", "want a list"},
		{"best_effort: [speed]", `best_effort: there is no "speed"; there are files,`},
		{"extends: workspace\nwrite: []", ":2: write: an empty list adds nothing to what workspace allows"}, {"extends: sealed\nread: []", ":2: read: an empty list"},
		{"- a", ":1: want a mapping of keys to values, got a list"}, {"sealed", `got the string "sealed"`}, {"a: b: c", ":1: not YAML"}, {"a: [", "not YAML"},
		{"read: &a [/a]\nwrite: *a", "want a list, got an alias"}, {"<<: {read: [/]}", "want a word as key"}, {"read: [/a]\n---\nread: [/b]", "want one YAML document, got 2"},
		{"read: [/a]\x00", "not text in UTF-8"}, {"read: [/\xff]", "not text in UTF-8"}, {"#" + strings.Repeat("x", maxFile), "larger than 256 KiB"},
		{"read: [" + strings.Repeat("/a,", maxPaths+1) + "]", "want at most 1000 entries"}, {"read: [!!binary aGk=]", "read: want a word"},
		{strings.Repeat("[", 20_000), "not YAML"},
	} {
		_, err := parse("p.yaml", []byte(c.yaml))
		if c.want == "" {
			// YAML's ~ is null where it is not quoted, but a home here: told apart by its text.
			if err != nil {
				t.Errorf("%.60q: %v", c.yaml, err)
			}
			continue
		}
		if err == nil || !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "policy: p.yaml") {
			t.Errorf("%.60q: got %v, want …%s", c.yaml, err, c.want)
		}
	}
	for _, list := range []string{"[12]", "['']", "[null]", "[[]]"} {
		if _, err := parse("p.yaml", []byte("extends: workspace\nread: "+list+"\n")); err == nil || strings.Contains(err.Error(), "an empty list") {
			t.Errorf("%s: %v", list, err)
		}
	}
	_, err := parse("p.yaml", []byte("read: [a]\nwrite: [b]\nnetwork: c\n"))
	if got := strings.Count(fmt.Sprint(err), "p.yaml:"); got != 3 {
		t.Errorf("want all three mistakes, got %v", err)
	}
}

func TestUnreadableFiles(t *testing.T) {
	w := newWorld(t)
	fifo := w.at("fifo.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		w.at("none.yaml"): "no such file", w.dir("dir.yaml"): "is a directory", fifo: "not a regular file", "/dev/zero": "not a regular file",
	} {
		if err := Check(name); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
		if _, _, err := Resolve(name, w.c); !errors.Is(err, sandbox.ErrPolicy) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if os.Getuid() != 0 {
		closed := w.file("closed.yaml", "extends: sealed\n")
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		if err := Check(closed); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("got %v", err)
		}
	}
}

// What a file may give is bounded as the work dir is, and a deny does not give
// way to an allow.
func TestFileAsksTooMuch(t *testing.T) {
	w := newWorld(t)
	w.file("home/.hermes/.env", "")
	w.dir("home/.ssh")
	w.link("home/work/up", w.at("home"))
	for _, c := range []struct{ yaml, want string }{
		{"write: [/]", "p.yaml:1: write: / belongs to the whole system"}, {"write:\n- .\n- /tmp", "p.yaml:3: write: /tmp belongs"},
		{"write: [~]", "is a home directory"}, {"write: [./up]", "is a home directory"}, {"write: [/etc]", "belongs"}, {"write: [/dev/null]", "is the kernel's"},
		{"write: [~/.hermes]", "contains the engine's own state"}, {"write: [" + w.root + "]", "contains the home"}, {"write: [./missing]", "no such file"},
		{"read: [~/.ssh]", "p.yaml:1: read is " + w.at("home/.ssh") + ", which is closed by deny_read"}, {"extends: sealed\nread: [~/.ssh]", "open_guards: [ssh] opens it"},
		{"write: [~/.ssh]", "closed by deny_read"}, {"read: [~/.hermes/.env]", "is closed by deny_read"},
		{"extends: workspace\ndeny_read: [.]", "deny beats allow; remove one of the two"},
	} {
		w.file("p.yaml", c.yaml)
		if _, err := Make(w.at("p.yaml"), w.c); !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got %v, want …%s", c.yaml, err, c.want)
		}
	}
	w.file("p.yaml", "extends: workspace\ndeny_write: [.]\nread: [/nowhere]\n")
	p := w.make(w.at("p.yaml"))
	w.expect(p, map[string]string{"home/work/x": "r-"})
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "/nowhere does not exist here") {
		t.Errorf("notes: %q", p.Notes)
	}
}

// A file that is accepted says nothing but literal, absolute paths, and never
// gives what its text does not name.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"extends: workspace\nread: [~/data]\nwrite: [.]\nnetwork: off\n", "read: []\n", "open_guards: [npm]\nbest_effort: [files]", "read: [~]", "write: ['./a b']",
		"deny_read: [\"/\\u00e9\"]", "{read: [/a], read: [/b]}", "read: &a [/x]\nwrite: *a", "extends: sealed\nread: |\n  - /a\n", "%YAML 1.1\n---\nnetwork: host\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := parse("p.yaml", data)
		if err != nil {
			if !errors.Is(err, sandbox.ErrPolicy) {
				t.Fatalf("%q: %v wraps no ErrPolicy", data, err)
			}
			for line := range strings.Lines(err.Error()) {
				if !strings.HasPrefix(line, "policy: p.yaml") {
					t.Fatalf("%q: an error does not name the file: %q", data, line)
				}
			}
			return
		}
		if spec.network != sandbox.NetworkOff && !(spec.network == sandbox.NetworkHost && strings.Contains(string(data), "host")) {
			t.Fatalf("%q gave the network %q", data, spec.network)
		}
		b := &builder{c: Context{Home: "/h"}, workdir: "/w"}
		for _, e := range slices.Concat(spec.read, spec.write, spec.denyRead, spec.denyWrite) {
			name, err := b.expand(e.path, false)
			if err != nil || !filepath.IsAbs(name) || filepath.Clean(name) != name || strings.ContainsAny(name, "*?[\x00\n") {
				t.Fatalf("%q gave the path %q, %v", data, name, err)
			}
		}
	})
}
