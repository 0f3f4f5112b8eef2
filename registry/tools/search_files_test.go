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
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-exec/hermes-exec/registry"
)

// searchSetup makes a bench with search_files alone, once with the ripgrep of
// this machine and once without any.
func searchSetup(t testing.TB, engine string, change func(*Config)) *bench {
	t.Helper()
	b := setup(t, nil)
	cfg := Config{Home: b.home, HermesHome: b.home + "/.hermes", Env: []string{"PATH=" + os.Getenv("PATH")}}
	if engine == "native" {
		cfg.Env = []string{"PATH=" + t.TempDir()}
	} else if _, err := exec.LookPath("rg"); err != nil {
		if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "rg") {
			t.Fatal("ripgrep is required: ", err)
		}
		t.Skip("no ripgrep here: ", err)
	}
	if change != nil {
		change(&cfg)
	}
	s := newSession(b.box, cfg)
	var err error
	search := &searcher{session: s, budget: searchBudget} // without a head start: ripgrep at once
	if b.reg, err = registry.NewRegistry(search.tool(), writeFileTool(s)); err != nil {
		t.Fatal(err)
	}
	return b
}

// bothEngines runs a test with ripgrep and without.
func bothEngines(t *testing.T, fn func(t *testing.T, engine string)) {
	for _, engine := range []string{"rg", "native"} {
		t.Run(engine, func(t *testing.T) { fn(t, engine) })
	}
}

// searched is an answer as a script sees it.
type searched struct {
	TotalCount int            `json:"total_count"`
	LowerBound bool           `json:"total_is_lower_bound"`
	Matches    []searchMatch  `json:"matches"`
	Files      []string       `json:"files"`
	Counts     map[string]int `json:"counts"`
	Truncated  bool           `json:"truncated"`
	Reason     string         `json:"limit_reason"`
	Next       int            `json:"next_offset"`
	Error      string         `json:"error"`
	Warning    string         `json:"_warning"`
	Hint       string         `json:"hint"`
}

func (b *bench) search(caller registry.Caller, in args) searched {
	b.t.Helper()
	raw, err := json.Marshal(b.call(caller, "search_files", in))
	if err != nil {
		b.t.Fatal(err)
	}
	var out searched
	if err := json.Unmarshal(raw, &out); err != nil {
		b.t.Fatal(err)
	}
	return out
}

// TestSearchGolden holds the outputs of the reference; fault is what it answers
// where that is wrong and must not come back.
func TestSearchGolden(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		b.file("hits.txt", strings.Repeat("needle\nhay\n", 30))
		b.file("s/main.py", "import os\n")
		b.file("s/domain.py", "import sys\n")
		b.file("with space.txt", "spaced out\n")
		b.file("dir/in.md", "x\n")
		b.file("odd.txt", "start\na:12:b\na-13-b\nend\n")
		match := func(path string, line int, content string) map[string]any {
			return map[string]any{"path": path, "line": line, "content": content}
		}
		around := func(path string, line int, content string) map[string]any {
			return map[string]any{"content": content, "context": true, "line": line, "path": path}
		}
		for _, tt := range []struct {
			in, want, fault args
		}{
			// 28: a truncated answer says so and knows the total.
			{args{"pattern": "needle", "limit": 5}, args{"total_count": 30, "truncated": true, "next_offset": 5,
				"hint": "Results truncated. Use offset=5 to see more, …", "limit_reason": nil, "error": nil}, args{"total_count": 5, "truncated": nil}},
			{args{"pattern": "needle", "limit": 5, "context": 1}, args{"total_count": 30, "truncated": true}, args{"total_count": 41}},
			{args{"pattern": "("}, args{"total_count": 0, "error": "Search failed: regex parse error:…", "matches": nil}, args{"error": nil}},
			{args{"pattern": "import", "path": "s/mai"}, args{"error": "Path not found: s/mai. Similar paths: s/domain.py, s/main.py"}, nil},
			{args{"pattern": "import", "path": "nowhere/at/all"}, args{"error": "Path not found: nowhere/at/all"}, nil},
			{args{"pattern": "nothing has this"}, args{"total_count": 0, "matches": nil, "truncated": nil, "error": nil, "hint": nil, "files": nil, "counts": nil}, nil},
			// 29: paths with spaces.
			{args{"pattern": "spaced", "output_mode": "files_only"}, args{"total_count": 1, "files": []string{"with space.txt"}}, args{"files": []string{}}},
			// 30: alternation, the default path, no zero counts.
			{args{"pattern": "os|sys", "output_mode": "count"}, args{"total_count": 2, "counts": map[string]int{"s/domain.py": 1, "s/main.py": 1}}, args{"total_count": 0}},
			// 32: names are whole, directories count.
			{args{"pattern": "main.py", "target": "files"}, args{"total_count": 1, "files": []string{"s/main.py"}}, args{"total_count": 2}},
			{args{"pattern": "dir/*.md", "target": "files"}, args{"total_count": 1, "files": []string{"dir/in.md"}}, nil},
			{args{"pattern": "dir/*.py", "target": "files"}, args{"total_count": 0, "files": nil}, args{"total_count": 2}},
			{args{"pattern": "*.md", "target": "find"}, args{"files": []string{"dir/in.md"}}, nil},
			{args{"pattern": "mai", "target": "files"}, args{"total_count": 0, "hint": "No file is called exactly \"mai\".…"}, nil},
			// 33: context is marked, and split by structure, not by looks.
			{args{"pattern": "a:12", "target": "grep", "context": 1}, args{"total_count": 1, "matches": []any{
				around("odd.txt", 1, "start"), match("odd.txt", 2, "a:12:b"), around("odd.txt", 3, "a-13-b")}}, nil},
			{args{"pattern": "import", "path": "./s/", "limit": 1}, args{"matches": []any{match("s/domain.py", 1, "import sys")}}, nil},
			{args{"pattern": "import", "path": "s/main.py"}, args{"matches": []any{match("s/main.py", 1, "import os")}}, nil},
			{args{"pattern": "import", "path": b.dir + "/s", "file_glob": "m*"}, args{"matches": []any{match(b.dir+"/s/main.py", 1, "import os")}}, nil},
			{args{"pattern": "x", "limit": 0, "offset": -5, "context": -1}, args{"total_count": 1}, nil},
			{args{"pattern": "x", "offset": 7}, args{"total_count": 1, "matches": nil, "hint": "offset 7 is past the last of 1 results."}, nil},
			{args{"pattern": ""}, args{"error": "pattern required"}, nil},
			{args{"pattern": "x", "target": "dirs"}, args{"error": "Unknown target: dirs. Use content or files."}, nil},
			{args{"pattern": "x", "output_mode": "all"}, args{"error": "Unknown output_mode: all. Use content, files_only or count."}, nil},
			{args{"pattern": "x", "file_glob": "["}, args{"error": "Search failed: file_glob: invalid glob: \"[\""}, nil},
			{args{"pattern": "[", "target": "files"}, args{"error": "Search failed: invalid glob: \"[\""}, nil},
			{args{"pattern": "foo(?=bar)"}, args{"error": "Search failed: regex parse error: error parsing regexp: invalid or unsupported Perl syntax: `(?=`: look-around…"}, nil},
			{args{"pattern": `(a)\1`}, args{"error": "Search failed: regex parse error: error parsing regexp: invalid escape sequence: `\\1`: backreferences…"}, nil},
			{args{"pattern": "x", "path": "a\x00b"}, args{"error": "a path cannot contain a NUL byte"}, nil},
			{args{"pattern": "x", "path": "/dev/zero"}, args{"error": "Cannot read '/dev/zero': this is a device file…"}, nil},
		} {
			what := fmt.Sprintf("search_files %v", tt.in)
			got := b.call(model, "search_files", tt.in)
			matches(t, what, got, tt.want)
			if tt.fault != nil && !differs(got, tt.fault) {
				t.Errorf("%s: has the reference's fault: %v", what, got)
			}
		}
	})
}

// differs reports whether some field is not as in want.
func differs(got map[string]any, want args) bool {
	for key, w := range want {
		wj, _ := json.Marshal(w)
		gj, _ := json.Marshal(got[key])
		if string(wj) != string(gj) {
			return true
		}
	}
	return false
}

// Fault 20: no argument may become an option of ripgrep.
func TestSearchOptionInjection(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		b.file("a.txt", "--pre=sh\n--files\n-e x\n")
		b.file("evil.sh", "touch "+b.dir+"/executed\n")
		b.file("--pre=sh", "touch "+b.dir+"/executed\n")
		for _, in := range []args{
			{"pattern": "--pre=sh"}, {"pattern": "--files"}, {"pattern": "-e x"}, {"pattern": "--"},
			{"pattern": "touch", "path": "--pre=sh"}, {"pattern": "touch", "file_glob": "--pre=sh"}, {"pattern": "touch", "file_glob": "!--pre=sh"},
			{"pattern": "--pre=sh", "target": "files"}, {"pattern": "x", "path": "--files"},
		} {
			got := b.search(script, in)
			if got.Error != "" && !strings.HasPrefix(got.Error, "Path not found") {
				t.Errorf("%v: %s", in, got.Error)
			}
		}
		if got := b.search(script, args{"pattern": "--pre=sh"}); got.TotalCount != 1 || got.Matches[0].Path != "a.txt" {
			t.Errorf("the pattern was not searched for: %+v", got)
		}
		if got := b.search(script, args{"pattern": "touch", "path": "--pre=sh"}); got.TotalCount != 1 {
			t.Errorf("the path was not searched: %+v", got)
		}
		if _, err := os.Stat(b.dir + "/executed"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("a searched file was executed")
		}
	})
}

// A configuration file or variable of ripgrep must change nothing.
func TestSearchIgnoresConfiguration(t *testing.T) {
	var config string
	b := searchSetup(t, "rg", func(c *Config) {
		config = filepath.Join(t.TempDir(), "rc")
		c.Env = append(c.Env, "RIPGREP_CONFIG_PATH="+config)
	})
	if err := os.WriteFile(config, []byte("--hidden\n--files\n--invert-match\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.file(".hidden", "needle\n")
	b.file("seen", "needle\n")
	if got := b.search(script, args{"pattern": "needle"}); got.TotalCount != 1 || got.Matches[0].Path != "seen" {
		t.Errorf("%+v", got)
	}
}

// Fault 21: what may not be read may not be searched either, by no way.
func TestSearchDenied(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		for _, name := range []string{".ssh/id_rsa", ".aws/credentials", ".hermes/auth.json", ".hermes/.env", "plain/notes"} {
			b.file(b.home+"/"+name, "needle secret\n")
		}
		if err := os.Symlink(b.home, b.dir+"/link"); err != nil {
			t.Fatal(err)
		}
		for _, in := range []args{
			{"path": "~"}, {"path": "~/.ssh"}, {"path": "~/.ssh/id_rsa"}, {"path": "link"}, {"path": "link/.aws"},
			{"path": "~", "file_glob": ".*"}, {"path": "~", "file_glob": ".ssh/*"}, {"path": "~", "file_glob": "**/.ssh/**"},
			{"path": "~/.hermes"}, {"path": "~/.hermes/auth.json"}, {"path": "link/.hermes/.env"}, {"path": filepath.Dir(b.home), "file_glob": "{.env,id_rsa,credentials}"},
		} {
			for _, mode := range []string{"content", "files_only", "count", "files"} {
				in := args{"pattern": "needle", "path": in["path"], "file_glob": in["file_glob"], "output_mode": mode}
				if mode == "files" {
					in["target"], in["pattern"], in["output_mode"] = "files", "**/.*/**", "content"
				}
				raw, _ := json.Marshal(b.call(script, "search_files", in))
				for _, name := range []string{"id_rsa\"", "credentials\"", "auth.json\"", ".env\"", "secret"} {
					if strings.Contains(string(raw), name) && !strings.Contains(string(raw), `"error"`) && !strings.Contains(string(raw), "notes") {
						t.Errorf("%v: %s", in, raw)
					}
				}
			}
		}
		// The twin: what is allowed is found.
		if got := b.search(script, args{"pattern": "needle", "path": "~"}); got.TotalCount != 1 || got.Matches[0].Path != "~/plain/notes" {
			t.Errorf("%+v", got)
		}
	})
}

func TestSearchHiddenIgnoredBinary(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		b.file(".git/HEAD", "needle\n")
		b.file(".gitignore", "out/\n*.log\n!.shown.py\n")
		for _, name := range []string{"out/a.py", "a.log", ".hidden.py", ".shown.py", ".github/ci.yml", "src/a.py", "src/.b.py"} {
			b.file(name, "needle\n")
		}
		b.file("bin.py", "needle\x00\n")
		if err := syscall.Mkfifo(b.dir+"/fifo", 0o600); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			in   args
			want []string
		}{
			{args{"pattern": "needle"}, []string{".shown.py", "src/a.py"}},
			{args{"pattern": "needle", "file_glob": "*.py"}, []string{".shown.py", "src/a.py"}},
			{args{"pattern": "needle", "file_glob": "*.{py,yml}"}, []string{".shown.py", "src/a.py"}},
			{args{"pattern": "needle", "file_glob": "src/*.py"}, []string{"src/a.py"}},
			{args{"pattern": "needle", "file_glob": "!*.py"}, nil},
			{args{"pattern": "needle", "file_glob": "*.log"}, nil},
			{args{"pattern": "needle", "file_glob": ".*.py"}, []string{".hidden.py", ".shown.py", "src/.b.py"}},
			{args{"pattern": "needle", "file_glob": ".github/*"}, []string{".github/ci.yml"}},
			{args{"pattern": "needle", "path": ".github"}, []string{".github/ci.yml"}},
			{args{"pattern": "needle", "path": "out"}, []string{"out/a.py"}},
			{args{"pattern": "needle", "path": "a.log"}, []string{"a.log"}},
			{args{"pattern": "needle", "path": "bin.py"}, nil},
			// 32: "*" is not everything.
			{args{"pattern": "*", "target": "files"}, []string{".shown.py", "bin.py", "src/a.py"}},
			{args{"pattern": "*.py", "target": "files"}, []string{".shown.py", "bin.py", "src/a.py"}},
			{args{"pattern": "**/*.py", "target": "files", "file_glob": "a*"}, []string{"src/a.py"}},
			{args{"pattern": ".*", "target": "files"}, []string{".gitignore", ".hidden.py", ".shown.py", "src/.b.py"}},
			{args{"pattern": "*.py", "target": "files", "path": "src/a.py"}, []string{"src/a.py"}},
			{args{"pattern": "*.go", "target": "files", "path": "src/a.py"}, nil},
		} {
			in := args{"output_mode": "files_only"}
			for k, v := range tt.in {
				in[k] = v
			}
			got := b.search(script, in)
			slices.Sort(got.Files)
			if got.Error != "" || !slices.Equal(got.Files, tt.want) {
				t.Errorf("%v: %v %s, want %v", tt.in, got.Files, got.Error, tt.want)
			}
		}
		if got := b.search(model, args{"pattern": "needle", "path": "bin.py"}); !strings.Contains(got.Hint, "binary") {
			t.Errorf("a binary file is not called one: %+v", got)
		}
		if got := b.search(model, args{"pattern": "needle", "path": "fifo"}); !strings.Contains(got.Error, "neither a file nor a directory") {
			t.Errorf("a FIFO: %+v", got)
		}
	})
}

// Fault 31: pages are stable and make up the whole, whatever their size.
func TestSearchPaging(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		for i := range 9 {
			b.file(fmt.Sprintf("d%d/f %02d.txt", i%4, i), strings.Repeat("x\nneedle a\nneedle b\ny\nz\n\nneedle c\n", i%4))
		}
		for _, base := range []args{
			{"pattern": "needle"}, {"pattern": "needle", "context": 1}, {"pattern": "needle", "context": 3},
			{"pattern": "needle", "output_mode": "files_only"}, {"pattern": "needle", "output_mode": "count"}, {"pattern": "*.txt", "target": "files"},
		} {
			page := func(offset, limit int) searched {
				in := args{"offset": offset, "limit": limit}
				for k, v := range base {
					in[k] = v
				}
				return b.search(script, in)
			}
			whole := page(0, 1000)
			if whole.Truncated || whole.TotalCount == 0 || whole.Error != "" {
				t.Fatalf("%v: %+v", base, whole)
			}
			limits := []int{1, 4, 7}
			if engine == "rg" {
				limits = limits[1:2] // a process each time
			}
			for _, limit := range limits {
				var got searched
				for offset := 0; ; {
					p := page(offset, limit)
					if p.TotalCount != whole.TotalCount {
						t.Fatalf("%v at %d: total %d, want %d", base, offset, p.TotalCount, whole.TotalCount)
					}
					got.Matches = append(got.Matches, p.Matches...)
					got.Files = append(got.Files, p.Files...)
					for k, v := range p.Counts {
						if got.Counts == nil {
							got.Counts = map[string]int{}
						}
						got.Counts[k] += v
					}
					if !p.Truncated {
						break
					}
					if p.Next <= offset {
						t.Fatalf("%v: page at %d says go on at %d", base, offset, p.Next)
					}
					offset = p.Next
				}
				if diff := cmp.Diff(whole.Matches, got.Matches); diff != "" && len(whole.Matches) > 0 {
					t.Errorf("%v by %d: %s", base, limit, diff)
				}
				if diff := cmp.Diff(whole.Files, got.Files); diff != "" && len(whole.Files) > 0 {
					t.Errorf("%v by %d: %s", base, limit, diff)
				}
				if diff := cmp.Diff(whole.Counts, got.Counts); diff != "" {
					t.Errorf("%v by %d: %s", base, limit, diff)
				}
			}
		}
	})
}

func TestSearchFilesNewestFirst(t *testing.T) {
	b := searchSetup(t, "native", nil)
	base := time.Unix(1_700_000_000, 0)
	for name, age := range map[string]int{"b": 0, "a": 0, "old": 500, "new": -5, "sub/mid": 100} {
		if err := os.Chtimes(b.file(name, ""), base, base.Add(-time.Duration(age)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	got := b.search(script, args{"pattern": "*", "target": "files"})
	if want := []string{"new", "a", "b", "sub/mid", "old"}; !slices.Equal(got.Files, want) {
		t.Errorf("%v, want %v", got.Files, want)
	}
}

func TestSearchLines(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		b.file("crlf", "foo\r\nfoo bar\r\n")
		b.file("latin", "caf\xe9 foo\n")
		b.file("long", "foo "+strings.Repeat("é", 600)+"\n")
		b.file("utf16", "\xff\xfef\x00o\x00o\x00\n\x00")
		b.file("weird\nname", "foo\n")
		b.file("bad\xffname", "foo\n")
		got := b.search(script, args{"pattern": "foo$|foo "})
		want := []searchMatch{
			{"bad\ufffdname", 1, "foo", false}, {"crlf", 1, "foo", false}, {"crlf", 2, "foo bar", false},
			{"latin", 1, "caf\ufffd foo", false}, {"long", 1, "foo " + strings.Repeat("é", 496), false}, {"utf16", 1, "foo", false}, {"weird\nname", 1, "foo", false},
		}
		if diff := cmp.Diff(want, got.Matches); diff != "" {
			t.Error(diff)
		}
	})
}

// Fault 34: another view of the same search is another search.
func TestSearchLoopGuard(t *testing.T) {
	b := searchSetup(t, "native", nil)
	b.file("a", "needle\n")
	in := args{"pattern": "needle"}
	for range 2 {
		matches(t, "first calls", b.call(model, "search_files", in), args{"_warning": nil, "total_count": 1})
	}
	matches(t, "third", b.call(model, "search_files", in), args{"_warning": "You have run this exact search 3 times…", "total_count": 1})
	matches(t, "fourth", b.call(model, "search_files", in), args{"error": "BLOCKED: You have run this exact search 4 times in a row…", "already_searched": 4, "pattern": "needle", "matches": nil})
	matches(t, "fifth", b.call(model, "search_files", in), args{"already_searched": 5})

	for _, other := range []args{{"pattern": "needle", "output_mode": "count"}, {"pattern": "needle", "context": 1}, {"pattern": "needle", "offset": 1}} {
		matches(t, fmt.Sprint(other), b.call(model, "search_files", other), args{"error": nil, "_warning": nil})
	}
	matches(t, "after another search", b.call(model, "search_files", in), args{"error": nil, "_warning": nil})

	for range 3 {
		b.call(model, "search_files", in)
	}
	b.call(model, "write_file", args{"path": "other.txt", "content": "x"})
	matches(t, "after another tool", b.call(model, "search_files", in), args{"error": nil, "_warning": nil})

	// An answer that is new is no repetition.
	for i := range 6 {
		b.file(fmt.Sprint("more", i), "needle\n")
		matches(t, "a changing tree", b.call(model, "search_files", in), args{"error": nil, "_warning": nil, "total_count": i + 2})
	}
	for range 6 {
		matches(t, "a script", b.call(script, "search_files", in), args{"error": nil, "_warning": nil, "total_count": 7})
	}
}

func TestSearchRedacts(t *testing.T) {
	b := searchSetup(t, "native", func(c *Config) {
		c.Redact = func(s string) string {
			if i, j := strings.Index(s, "BEGIN KEY"), strings.Index(s, "END KEY"); i >= 0 && j > i {
				s = s[:i] + "[KEY]" + s[j+len("END KEY"):]
			}
			return strings.ReplaceAll(s, "hunter2", "***")
		}
	})
	b.file("a", "password hunter2\n")
	b.file("key", "x\nBEGIN KEY\nabc\ndef\nEND KEY\ny\n")
	// The edge of the cut must not let a part of it through.
	b.file("wide", "password"+strings.Repeat(" ", maxMatchRunes-11)+"hunter2\n")
	got := b.search(model, args{"pattern": "password"})
	if len(got.Matches) != 2 || got.Matches[0].Content != "password ***" || strings.Contains(got.Matches[1].Content, "hun") {
		t.Errorf("%+v", got.Matches)
	}
	raw, _ := json.Marshal(b.call(model, "search_files", args{"pattern": "abc", "context": 3}))
	if strings.Contains(string(raw), "abc") && !strings.Contains(string(raw), `"pattern"`) || strings.Contains(string(raw), "def") || !strings.Contains(string(raw), `"y"`) {
		t.Errorf("%s", raw)
	}
	if got := b.search(script, args{"pattern": "password"}); got.Matches[0].Content != "password hunter2" {
		t.Errorf("a script gets %+v", got.Matches)
	}
}

func TestSearchDeclaration(t *testing.T) {
	s := newSession(nil, Config{})
	tool := searchFilesTool(s)
	reg, err := registry.NewRegistry(tool)
	if err != nil {
		t.Fatal(err)
	}
	answer := string(reg.Dispatch(context.Background(), model, "search_files", json.RawMessage(`{"pattern":"x"}`)))
	if !strings.Contains(answer, ErrNoSandbox.Error()) {
		t.Error(answer)
	}
	const signature = `def search_files(pattern: str, target: str = "content", path: str = ".", file_glob: str = None, ` +
		`limit: int = 50, offset: int = 0, output_mode: str = "content", context: int = 0)`
	if module := registry.PythonModule("", []registry.Tool{tool}); !strings.Contains(module, signature) {
		t.Errorf("the Python stub has another signature:\n%s", module)
	}
	var got map[string]any
	if err := json.Unmarshal(tool.Schema(), &got); err != nil {
		t.Fatal(err)
	}
	for _, p := range got["properties"].(map[string]any) {
		delete(p.(map[string]any), "description")
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"type":"object","properties":{"pattern":{"type":"string"},
		"target":{"type":"string","enum":["content","files"],"default":"content"},"path":{"type":"string","default":"."},
		"file_glob":{"type":"string"},"limit":{"type":"integer","default":50},"offset":{"type":"integer","default":0},
		"output_mode":{"type":"string","enum":["content","files_only","count"],"default":"content"},
		"context":{"type":"integer","default":0}},"required":["pattern"]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
