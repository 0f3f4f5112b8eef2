package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/walk"
)

// measureTools times the file tools on large inputs, called as a script would
// but without the wire; search in turns with ripgrep, its start included.
func measureTools(opt Options, s *engine.Session, dir string) ([]Row, error) {
	big := filepath.Join(dir, "megabyte.txt")
	if err := os.WriteFile(big, bytes.Repeat([]byte("a line of sixty-four bytes, as long as many lines of source are\n"), 1<<14), 0o600); err != nil {
		return nil, err
	}
	t := series{}
	call := func(name string, args map[string]any) func() error {
		raw, err := json.Marshal(args)
		return func() error {
			reply := s.Tools().Dispatch(context.Background(), registry.Caller{Kind: registry.Script}, name, raw)
			if bytes.Contains(reply[:min(200, len(reply))], []byte(`"error":"`)) {
				err = fmt.Errorf("%.200s", reply)
			}
			return err
		}
	}
	read := call("read_file", map[string]any{"path": big, "limit": 0})
	for range max(1, opt.Rounds/2) {
		if err := t.time("read", read); err != nil {
			return nil, err
		}
	}

	source := handlers(2_000) // five lines each
	target := filepath.Join(dir, "handlers.go.txt")
	edits := map[string]func() error{
		"exact": call("patch", map[string]any{"path": target, "old_string": "\tvalue := compute(6993, r.URL.Path)", "new_string": "\tvalue := compute(1, r.URL.Path)"}),
		"fuzzy": call("patch", map[string]any{"path": target,
			"old_string": "func handler1999(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(13993, r.URL.Path)\n\tif value > 11 {\n\t\tlog.Print(\"large: %d\", value)",
			"new_string": "func handler1999(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(13993, r.URL.Path)\n\tif value > 12 {\n\t\tlog.Print(\"large: %d\", value)"}),
	}
	for range max(1, opt.Rounds*3/8) {
		for _, name := range []string{"exact", "fuzzy"} {
			if err := os.WriteFile(target, source, 0o600); err != nil {
				return nil, err
			}
			if err := t.time(name, edits[name]); err != nil {
				return nil, err
			}
		}
	}
	rows := []Row{
		bounded("read_file of 1 MB, as data", median(t["read"]), 2),
		bounded("patch of 10,000 lines, exact", median(t["exact"]), 10),
		bounded("patch of 10,000 lines, fuzzy", median(t["fuzzy"]), 100),
	}
	search, err := measureSearch(opt, dir)
	return append(rows, search...), err
}

func bounded(what string, value, bound float64) Row {
	return Row{what, value, "ms", "", fmt.Sprintf("≤ %g ms", bound), value <= bound}
}

func handlers(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "func handler%d(w http.ResponseWriter, r *http.Request) {\n\tvalue := compute(%d, r.URL.Path)\n\tif value > %d {\n\t\tlog.Printf(\"large: %%d\", value)\n\t}}\n", i, i*7, i%13)
	}
	return b.Bytes()
}

// measureSearch searches a tree of 10,000 files natively and with ripgrep.
func measureSearch(opt Options, dir string) ([]Row, error) {
	if _, err := exec.LookPath("rg"); err != nil {
		return nil, nil // no baseline, no row
	}
	tree, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil, err
	}
	tree = filepath.Join(tree, "tree")
	body := string(handlers(30))
	for i := range 10_000 {
		sub := filepath.Join(tree, fmt.Sprintf("pkg%02d/sub%02d", i%100, i/100%10))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			return nil, err
		}
		text := body
		if i%500 == 0 {
			text += "var needleInHaystack = needle_of(1)\n"
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprintf("file%d.go", i)), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	var rows []Row
	for _, q := range []struct {
		what, pattern string
		bound         float64
	}{
		{"a literal", "needleInHaystack", 1.5},
		{"a literal prefix", `needle\w+ =`, 1.5},
		{`\w+_\w+\(`, `\w+_\w+\(`, 4},
	} {
		p, err := walk.Compile(q.pattern)
		if err != nil {
			return nil, err
		}
		hits, counted := 0, 0
		own := func() error {
			hits = 0
			_, err := walk.Search(context.Background(), walk.Disk{}, tree, walk.Options{}, p, func(h walk.Hit) { hits++ })
			return err
		}
		rg := func() error {
			out, err := exec.Command("rg", "--no-config", "--count", "--regexp="+q.pattern, "--", tree).Output()
			counted = strings.Count(string(out), "\n")
			return err
		}
		t := series{}
		for range min(9, opt.Rounds) {
			if err := errors.Join(t.time("own", own), t.time("rg", rg)); err != nil {
				return nil, err
			}
		}
		if hits != counted {
			return nil, fmt.Errorf("bench: search %s: %d files here, %d by ripgrep", q.pattern, hits, counted)
		}
		o, r := median(t["own"]), median(t["rg"])
		rows = append(rows, Row{"search of 10,000 files for " + q.what, o, "ms", fmt.Sprintf("ripgrep %.0f ms, %.2f×", r, o/r), fmt.Sprintf("≤ %g × ripgrep", q.bound), o <= q.bound*r})
	}
	return rows, nil
}
