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
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The answer says honestly when it is not all.
func TestSearchBudget(t *testing.T) {
	b := searchSetup(t, "native", nil)
	b.file("a", "needle\n")
	s := newSession(slowBox{b.box}, Config{Env: []string{"PATH=" + t.TempDir()}})
	var err error
	if b.reg, err = registry.NewRegistry((&searcher{session: s, budget: 200 * time.Millisecond}).tool()); err != nil {
		t.Fatal(err)
	}
	for _, in := range []args{{"pattern": "needle"}, {"pattern": "*", "target": "files"}} {
		got := b.search(script, in)
		if !got.Truncated || !got.LowerBound || got.Reason != "search_timeout" || got.Hint == "" {
			t.Errorf("%v: %+v", in, got)
		}
	}
}

// The change from our own search to ripgrep loses and doubles nothing.
func TestSearchHeadStart(t *testing.T) {
	b := searchSetup(t, "rg", nil)
	for i := range 300 {
		b.file(fmt.Sprintf("d%d/f%d", i%20, i), "needle\n")
	}
	want := b.search(script, args{"pattern": "needle", "limit": 1000})
	for _, d := range []time.Duration{1, time.Millisecond, 5 * time.Millisecond, time.Minute} {
		s := newSession(b.box, Config{Env: []string{"PATH=" + os.Getenv("PATH")}})
		var err error
		if b.reg, err = registry.NewRegistry((&searcher{session: s, budget: searchBudget, headStart: d}).tool()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, b.search(script, args{"pattern": "needle", "limit": 1000})); diff != "" || want.TotalCount != 300 {
			t.Errorf("after %v: %s", d, diff)
		}
	}
}

// slowBox never ends listing a directory below the working directory.
type slowBox struct{ sandbox.Sandbox }

func (b slowBox) Files() sandbox.Files { return slowFiles{b.Sandbox.Files(), b.Info().WorkDir} }

type slowFiles struct {
	sandbox.Files
	dir string
}

func (f slowFiles) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	if name == f.dir {
		<-ctx.Done()
	}
	return f.Files.ReadDir(ctx, name)
}

// A cancelled call is an error, not an answer, and leaves no process behind.
func TestSearchCancelled(t *testing.T) {
	bothEngines(t, func(t *testing.T, engine string) {
		b := searchSetup(t, engine, nil)
		b.file("a", "needle\n")
		ctx, stop := context.WithCancelCause(context.Background())
		stop(errors.New("the run was interrupted"))
		answer := string(b.reg.Dispatch(ctx, script, "search_files", json.RawMessage(`{"pattern":"needle"}`)))
		if !strings.Contains(answer, "interrupted") || !strings.Contains(answer, `"error"`) || strings.Contains(answer, "total_count") {
			t.Error(answer)
		}
	})
}

// A ripgrep that lies, breaks or babbles gives no wrong answer.
func TestSearchBrokenRipgrep(t *testing.T) {
	for name, text := range map[string]string{
		"fails":     "exit 2",
		"complains": "echo 'unrecognized flag' >&2; exit 2",
		"babbles":   "yes",
		"outside":   `printf '/etc/passwd\0007\n'`,
		"dies":      "kill -9 $$",
		"truncated": `printf 'x'`,
	} {
		t.Run(name, func(t *testing.T) {
			b := searchSetup(t, "native", func(c *Config) {
				dir := t.TempDir()
				if err := os.WriteFile(dir+"/rg", []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				c.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			})
			b.file("a", "needle\n")
			got := b.search(script, args{"pattern": "needle"})
			want := 1
			if name == "fails" {
				want = 0 // it says that something could not be read, as the real one does
				if got.Warning == "" {
					t.Errorf("%+v", got)
				}
			}
			if got.TotalCount != want || got.Error != "" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// Both engines give the same answer, to the byte, on real trees.
func TestSearchEnginesAgree(t *testing.T) {
	rg, native := searchSetup(t, "rg", nil), searchSetup(t, "native", nil)
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, tree := range []string{"src/text", "src/encoding/json", "src/go/ast"} {
		dir := filepath.Join(strings.TrimSpace(string(goroot)), tree)
		for _, in := range []args{
			{"pattern": "func "}, {"pattern": `func \w+\(`, "context": 2, "limit": 100}, {"pattern": `\w+_\w+\(`, "offset": 10}, {"pattern": "(?i)todo"},
			{"pattern": "^$", "limit": 30, "offset": 500}, {"pattern": "error", "file_glob": "*_test.go"}, {"pattern": "error", "file_glob": "!*_test.go", "output_mode": "count"},
			{"pattern": "é|ü|世", "output_mode": "files_only"}, {"pattern": `"[^"]*\\n"`, "limit": 5}, {"pattern": "nothing has this text"},
		} {
			in["path"] = dir
			raw, _ := json.Marshal(in)
			want := rg.reg.Dispatch(context.Background(), script, "search_files", raw)
			got := native.reg.Dispatch(context.Background(), script, "search_files", raw)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s: ripgrep (-) and our own walk (+): %s", raw, diff)
			}
		}
	}
}

func FuzzSearchFiles(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"pattern":"a"}`, `{"pattern":"(","target":"files"}`, `{"pattern":"\\pL+","context":3,"limit":-1,"offset":99}`, `{"pattern":"*","target":"files","file_glob":"{a,b}"}`,
		`{"pattern":"a","path":"../..//\u0000"}`, `{"pattern":"a","output_mode":"count","file_glob":"!**/x/"}`, `{"pattern":1,"target":null}`, `[`, `{"pattern":"\ud800"}`, `{"pattern":"x","limit":1e300}`,
	} {
		f.Add([]byte(seed))
	}
	b := searchSetup(f, "native", nil)
	b.file("a.txt", "a\nb\r\ncaf\xe9\n")
	b.file("x/\xff", "a\n")
	f.Fuzz(func(t *testing.T, raw []byte) {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if strings.Contains(string(raw), `"path"`) {
			return // the machine's own files are not for fuzzing
		}
		answer := b.reg.Dispatch(ctx, model, "search_files", raw)
		var object map[string]any
		if err := json.Unmarshal(answer, &object); err != nil {
			t.Errorf("%s: %s: %v", raw, answer, err)
		}
		if ctx.Err() != nil {
			t.Errorf("%s took too long", raw)
		}
	})
}
