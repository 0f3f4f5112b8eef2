package tools

import (
	"context"
	"encoding/json"
	"errors"
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

// guestBox has a guest, and files that are too far away to be listed.
type guestBox struct {
	sandbox.Sandbox
	guest string
}

func (b guestBox) Info() sandbox.Info {
	info := b.Sandbox.Info()
	info.Guest = b.guest
	return info
}

func (b guestBox) Files() sandbox.Files { return farFiles{b.Sandbox.Files()} }

type farFiles struct{ sandbox.Files }

func (farFiles) ReadDir(context.Context, string) ([]fs.DirEntry, error) {
	return nil, errors.New("listed from afar")
}

// guestSearch is search_files on a box without ripgrep whose guest is a
// program.
func guestSearch(t *testing.T, b *bench, guest string) {
	t.Helper()
	s := newSession(guestBox{b.box, guest}, Config{Home: b.home, HermesHome: b.home + "/.hermes", Env: []string{"PATH=" + t.TempDir()}})
	var err error
	if b.reg, err = registry.NewRegistry((&searcher{session: s, budget: searchBudget}).tool()); err != nil {
		t.Fatal(err)
	}
}

// The walk in the box gives the answers of the walk here, to the byte.
func TestSearchGuestAgrees(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	native, near := searchSetup(t, "native", nil), searchSetup(t, "native", nil)
	guestSearch(t, near, exe)
	for _, tree := range []string{"src/text", "src/encoding"} {
		dir := filepath.Join(strings.TrimSpace(string(goroot)), tree)
		for _, in := range []args{
			{"pattern": "func "}, {"pattern": `func \w+\(`, "context": 2, "limit": 100}, {"pattern": `(\w)_(\w+)\(`, "offset": 10},
			{"pattern": "error", "file_glob": "*_test.go"}, {"pattern": "error", "file_glob": "!*_test.go", "output_mode": "count"},
			{"pattern": "é|ü|世", "output_mode": "files_only"}, {"pattern": "nothing has this text"}, {"pattern": "("},
			{"pattern": "*_test.go", "target": "files"}, {"pattern": "json/**", "target": "files", "limit": 7, "offset": 3},
			{"pattern": "x", "path": dir + "/none"},
		} {
			if in["path"] == nil {
				in["path"] = dir
			}
			raw, _ := json.Marshal(in)
			want := native.reg.Dispatch(context.Background(), script, "search_files", raw)
			got := near.reg.Dispatch(context.Background(), script, "search_files", raw)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("%s: walked here (-) and there (+): %s", raw, diff)
			}
		}
	}
}

// What the rules keep from the tools is not found by the guest either.
func TestSearchGuestRules(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := searchSetup(t, "native", nil)
	guestSearch(t, b, exe)
	for _, name := range []string{".ssh/id", ".hermes/state", "open"} {
		if err := os.MkdirAll(filepath.Dir(b.home+"/"+name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(b.home+"/"+name, []byte("needle\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, in := range []args{{"pattern": "needle", "path": b.home, "file_glob": "{.*,*}"}, {"pattern": "{.*,*}", "target": "files", "path": b.home}} {
		raw, _ := json.Marshal(in)
		if got := string(b.reg.Dispatch(context.Background(), script, "search_files", raw)); strings.Contains(got, ".ssh") || strings.Contains(got, "state") || !strings.Contains(got, "open") {
			t.Errorf("%s: %s", raw, got)
		}
	}
}

// A guest that is not there, lies or breaks is not believed: the search is made
// from here, and here it fails as it must.
func TestSearchBrokenGuest(t *testing.T) {
	for name, text := range map[string]string{
		"fails":   "exit 1",
		"babbles": "yes",
		"outside": `echo '{"path":"Li4vYQ==","count":1}'; echo '{"end":{}}'`,
		"dies":    `echo '{"path":"YQ==","count":1}'; kill -9 $$`,
		"missing": "",
	} {
		t.Run(name, func(t *testing.T) {
			b := searchSetup(t, "native", nil)
			b.file("a", "needle\n")
			program := filepath.Join(t.TempDir(), "guest")
			if text != "" {
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			guestSearch(t, b, program)
			got := b.search(script, args{"pattern": "needle"})
			if !strings.Contains(got.Error, "listed from afar") {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What a guest has found when the time is up is told.
func TestSearchGuestBudget(t *testing.T) {
	b := searchSetup(t, "native", nil)
	b.file("a", "needle\n")
	program := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho '{\"path\":\"YQ==\",\"count\":1}'; exec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := newSession(guestBox{b.box, program}, Config{Env: []string{"PATH=" + t.TempDir()}})
	var err error
	if b.reg, err = registry.NewRegistry((&searcher{session: s, budget: 2 * time.Second}).tool()); err != nil {
		t.Fatal(err)
	}
	if got := b.search(script, args{"pattern": "needle"}); got.Reason != "search_timeout" || !got.LowerBound || got.TotalCount != 1 {
		t.Errorf("%+v", got)
	}
}
