package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ground is a home, a workspace and a place for temporary files that belong to
// one test. Their path is the mark of all processes started with them.
type ground struct {
	t                    *testing.T
	bin, base, home, tmp string
	work                 string
	// env is added to what every run gets.
	env      []string
	patience int // tenths of seconds; see again
}

// newGround makes one. When the test ends nothing may be left of what ran.
func newGround(t *testing.T, bin string) *ground {
	t.Helper()
	base, err := os.MkdirTemp("", "hx")
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t, base: base, home: filepath.Join(base, "home"), tmp: filepath.Join(base, "t"), work: filepath.Join(base, "work")}
	g.bin = filepath.Join(base, "bin", "hermes-exec")
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{g.home, g.tmp, g.work, filepath.Dir(g.bin)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := place(bin, g.bin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		defer os.RemoveAll(base)
		if left := waitFor(func() []string { return processes(base) }); len(left) > 0 {
			t.Errorf("processes left: %v", left)
		}
		if left := waitFor(func() []string { return files(g.tmp) }); len(left) > 0 {
			t.Errorf("left in the place for temporary files: %v", left)
		}
		if left := reservations(g.work); len(left) > 0 {
			t.Errorf("reserved and left: %v", left)
		}
	})
	return g
}

// write makes a file with its directories; a relative name is in the workspace.
func (g *ground) write(name, text string) string {
	g.t.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(g.work, name)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		g.t.Fatal(err)
	}
	return name
}

// give makes the workspace an ordinary user's.
func (g *ground) give() {
	g.t.Helper()
	if os.Getuid() == 0 {
		if err := os.Chown(g.work, 12345, 12345); err != nil {
			g.t.Fatal(err)
		}
	}
}

// command is the program, not yet started, in the workspace.
func (g *ground) command(args ...string) *exec.Cmd {
	cmd := exec.Command(g.bin, args...)
	cmd.Dir = g.work
	cmd.Env = append([]string{"PATH=" + filepath.Dir(g.bin) + ":/usr/bin:/bin", "HOME=" + g.home, "TMPDIR=" + g.tmp, "LANG=C.UTF-8"}, g.env...)
	return cmd
}

// outcome is what came of one run.
type outcome struct {
	exit           int
	stdout, stderr string

	// What --json says.
	Status       string            `json:"status"`
	Output       string            `json:"output"`
	Error        string            `json:"error"`
	ExitCode     *int              `json:"exit_code"`
	Stderr       string            `json:"stderr"`
	Limit        string            `json:"limit"`
	Rung         string            `json:"rung"`
	Enforcement  map[string]string `json:"enforcement"`
	FutureInputs []struct {
		Path string `json:"path"`
	} `json:"future_inputs"`
}

// do runs the program to its end.
func (g *ground) do(args ...string) outcome {
	g.t.Helper()
	for {
		cmd := g.command(args...)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		err := cmd.Run()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			g.t.Fatal(err)
		}
		o := outcome{exit: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errOut.String()}
		if !g.again(o.stdout + o.stderr) {
			return o
		}
	}
}

// again tells whether a run was refused because a script could connect to a
// socket of this machine, as it has to be where there are no namespaces. Other
// tests open such sockets for a while; where one stays, that is all there is to
// be tested here.
func (g *ground) again(said string) bool {
	g.t.Helper()
	if !strings.Contains(said, "a script could connect to sockets of this machine") {
		return false
	}
	if g.patience == 0 {
		g.patience = 600
	}
	// Those of other tests go again.
	if g.patience--; g.patience == 0 || !strings.Contains(said, "-selftest-") && !strings.Contains(said, os.TempDir()) {
		g.do("--policy", "open", "run", "-q", "-c", "pass") // sweeps what killed ones have left
		g.t.Skip("refused, as it must be: ", said)
	}
	time.Sleep(100 * time.Millisecond)
	return true
}

// run runs a script under a policy; args are further flags.
func (g *ground) run(policy, script string, args ...string) outcome {
	g.t.Helper()
	o := g.do(append(append([]string{"--policy", policy, "run", "-q", "--json"}, args...), "-c", script)...)
	if err := json.Unmarshal([]byte(o.stdout), &o); err != nil {
		g.t.Fatalf("run printed no result: %v\n%s%s", err, o.stdout, o.stderr)
	}
	return o
}
