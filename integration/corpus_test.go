package integration

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ran is what must be the same wherever a script runs.
type ran struct {
	Status      string
	Output      string
	Error       string
	Exit        *int `json:"exit_code"`
	Stderr      string
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	Truncated   bool
	Made        int    `json:"tool_calls_made"`
	Limit       string `json:"limit"`
	Calls       []struct {
		Tool string
		OK   bool
	} `json:"tool_calls"`
}

// stagedScript is where the script was, which differs from station to station.
var stagedScript = regexp.MustCompile(`"[^"\n]*/run-1/script\.py"`)

// TestCorpus runs each script of testdata/corpus on every backend there is: the
// results and the ledgers of calls are those of local.
func TestCorpus(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	scripts, _ := filepath.Glob("testdata/corpus/*.py")
	if len(scripts) < 20 {
		t.Fatalf("%d scripts", len(scripts))
	}
	wanted := map[string]ran{}
	for _, p := range stations(t) {
		t.Run(p.backend, func(t *testing.T) {
			if len(wanted) == len(scripts) {
				t.Parallel() // the others, after local
			}
			home := homeOf(t, p)
			for _, script := range scripts {
				t.Run(strings.TrimSuffix(filepath.Base(script), ".py"), func(t *testing.T) {
					got := runCorpus(t, bin, home, p.backend, script)
					want, known := wanted[script]
					if !known {
						wanted[script] = got
						return
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s differs from local (-local +%s):\n%s", p.backend, p.backend, diff)
					}
				})
			}
		})
	}
}

// homeOf makes a home with the configuration of a station.
func homeOf(t *testing.T, p station) string {
	t.Helper()
	home := t.TempDir()
	if err := errors.Join(os.Chmod(home, 0o755), os.Mkdir(filepath.Join(home, ".hermes"), 0o700),
		os.WriteFile(filepath.Join(home, ".hermes", "config.yaml"), []byte(p.config), 0o600)); err != nil {
		t.Fatal(err)
	}
	return home
}

// option reads "# name: value" from a script.
func option(code, name string) (string, bool) {
	_, rest, ok := strings.Cut(code, "# "+name+": ")
	value, _, _ := strings.Cut(rest, "\n")
	return value, ok
}

func runCorpus(t *testing.T, bin, home, backend, script string) ran {
	t.Helper()
	code, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	dir := corpusDir(t)
	args := []string{"--backend", backend, "--workdir", dir, "run", "--json"}
	for flag, name := range map[string]string{"--timeout": "timeout", "--max-tool-calls": "calls"} {
		if value, ok := option(string(code), name); ok {
			args = append(args, flag, value)
		}
	}
	cmd := exec.Command(bin, append(args, script, "x", "y z")...)
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + os.TempDir()}
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var got ran
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, errOut.String())
	}
	for _, text := range []*string{&got.Output, &got.Error, &got.Stderr} {
		*text = stagedScript.ReplaceAllString(*text, `"script.py"`)
	}
	if strings.Contains(got.Stderr, `"script.py"`) {
		got.StderrBytes = 0 // the name's length is in it
	}
	slices.SortFunc(got.Calls, func(a, b struct {
		Tool string
		OK   bool
	}) int {
		return strings.Compare(a.Tool, b.Tool)
	})
	return got
}

// corpusDir is a fresh work dir for one script.
func corpusDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hxc")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"data/a.txt": "hay\nneedle one\nstraw\n", "data/b.txt": "needle two\n", "mymodule.py": "def answer():\n    return 42\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if os.Getuid() == 0 { // a script is never root, and writes here
		if err := filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(name, 12345, 12345))
		}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
