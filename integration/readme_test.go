package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// varies is what of a mechanism is this machine's and not the backend's.
var varies = regexp.MustCompile(` ?\b(ABI )?[0-9]+( MiB)?|, process limit of the user namespace|, cgroup v[12] [a-z, ]+|[,;]? (tmpfs|inside\b).*|tmpfs .*`)

// TestREADMESaysWhatIsEnforced compares the README's table of backends with what
// doctor says of a session on each, where all of them can be had.
// HERMES_EXEC_UPDATE=1 writes it.
func TestREADMESaysWhatIsEnforced(t *testing.T) {
	t.Parallel()
	all := stations(t)
	if len(all) < 3 {
		t.Skipf("only %d of 3 backends are here", len(all))
	}
	bin := binary(t)
	clauses := []string{"files", "guards", "network", "processes", "syscalls", "resources", "kill"}
	table := "| |"
	cells := map[string]map[string]string{}
	for _, s := range all {
		table += " " + s.backend + " |"
		cells[s.backend] = enforcement(t, bin, s)
	}
	table += "\n|---|" + strings.Repeat("---|", len(all)) + "\n"
	for _, c := range clauses {
		table += "| " + c + " |"
		for _, s := range all {
			table += " " + cells[s.backend][c] + " |"
		}
		table += "\n"
	}
	const begin, end = "<!-- what is enforced: integration/readme_test.go -->\n", "<!-- end -->"
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(readme), begin)
	old, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatal("README.md has no place for the table")
	}
	if os.Getenv("HERMES_EXEC_UPDATE") != "" {
		if err := os.WriteFile("../README.md", []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(old, "\n"), strings.Split(table, "\n")); diff != "" {
		t.Errorf("README.md differs from doctor (-README +doctor); HERMES_EXEC_UPDATE=1 writes it:\n%s", diff)
	}
}

// What the README shows of configuration and policy files is taken as it stands.
func TestREADMEShowsWhatIsAccepted(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	for _, block := range blocks {
		dir, home, user := t.TempDir(), t.TempDir(), t.TempDir()
		name := filepath.Join(home, "config.yaml")
		args := []string{"--home", home, "config", "check"}
		if strings.HasPrefix(block[1], "extends:") {
			args = []string{"--home", home, "policy", "check", name}
		}
		if err := errors.Join(os.Mkdir(filepath.Join(user, "out"), 0o700), os.WriteFile(name, []byte(block[1]), 0o600)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(binary(t), args...)
		cmd.Dir, cmd.Env = dir, []string{"HOME=" + user, "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s\n%q: %v\n%s", block[1], args, err, out)
		}
	}
}

// enforcement is what doctor says of a session on a backend, clause by clause.
func enforcement(t *testing.T, bin string, s station) map[string]string {
	t.Helper()
	dir, home := corpusDir(t), homeOf(t, s)
	cmd := exec.Command(bin, "--backend", s.backend, "--workdir", dir, "doctor", "--json")
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "TMPDIR=" + os.TempDir()}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var report []struct {
		Title    string
		Findings []struct{ Subject, Detail string }
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cells := map[string]string{}
	for _, section := range report {
		for _, f := range section.Findings {
			if section.Title != "Session" {
				continue
			}
			state, mechanism, _ := strings.Cut(f.Detail, " by ")
			mechanism, _, _ = strings.Cut(mechanism, ": ")
			state, _, _ = strings.Cut(state, ": ")
			mark := map[string]string{"enforced": "yes", "partial": "partly", "unsupported": "no"}[state]
			if mechanism = varies.ReplaceAllString(mechanism, ""); mechanism != "" && mark != "" {
				mark += fmt.Sprintf(": %s", mechanism)
			}
			cells[f.Subject] = mark
		}
	}
	if cells["kill"] == "" {
		t.Fatalf("doctor says nothing of a session on %s: %s", s.backend, out)
	}
	return cells
}
