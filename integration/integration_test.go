package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary is the program under test.
func binary(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("HERMES_EXEC_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "hermes-exec")
	cmd := exec.Command("go", "build", "-o", bin, "../cmd/hermes-exec")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return bin
}

// TestScripts runs what is in testdata as it is without configuration: confined.
// What is in testdata/both must hold without confinement too.
func TestScripts(t *testing.T) {
	t.Parallel()
	bin := binary(t)
	scripts, _ := filepath.Glob("testdata/*.txtar")
	both, _ := filepath.Glob("testdata/both/*.txtar")
	if len(scripts) == 0 || len(both) == 0 {
		t.Fatal("no scripts in testdata, or none in testdata/both")
	}
	t.Run("confined", func(t *testing.T) {
		testscript.Run(t, params(t, bin, "", testscript.Params{Files: slices.Concat(scripts, both)}))
	})
	t.Run("open", func(t *testing.T) {
		testscript.Run(t, params(t, bin, "open", testscript.Params{Files: both}))
	})
}

// params adds to the scripts to run what they need; policy is what the
// configuration names, "" for no configuration.
func params(t *testing.T, bin, policy string, p testscript.Params) testscript.Params {
	p.RequireUniqueNames = true
	p.Setup = func(env *testscript.Env) error {
		// Beside the work dir, which must not contain them: a home, and a
		// scratch base that must be empty again in the end. The name of all
		// this is the mark by which processes of this script are found; it is
		// short, as socket paths are limited.
		base, err := os.MkdirTemp("", "hx")
		if err != nil {
			return err
		}
		home, tmp, prog := filepath.Join(base, "home"), filepath.Join(base, "t"), filepath.Join(base, "bin")
		for _, dir := range []string{home, tmp, prog} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
		}
		prog = filepath.Join(prog, "hermes-exec")
		if err := place(bin, prog); err != nil {
			return err
		}
		if policy != "" {
			file := filepath.Join(home, ".hermes", "config.yaml")
			if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755),
				os.WriteFile(file, []byte("code_execution:\n  policy: "+policy+"\n"), 0o644)); err != nil {
				return err
			}
		}
		env.Setenv("TMPDIR", tmp)
		env.Setenv("HOME", home)
		env.Setenv("PATH", filepath.Dir(prog)+":/usr/bin:/bin")
		env.Setenv("GOBIN", goBin())
		env.Setenv("LANG", "C.UTF-8")
		env.Setenv("BIN", prog)
		env.Setenv("HERMES_EXEC_TEST_MARK", filepath.Base(base))
		env.Defer(func() {
			defer os.RemoveAll(base)
			if left := waitFor(func() []string { return processes(filepath.Base(base)) }); len(left) > 0 {
				t.Errorf("%s: processes left: %v", env.WorkDir, left)
			}
			if left := waitFor(func() []string { return files(tmp) }); len(left) > 0 {
				t.Errorf("%s: left in the scratch base: %v", env.WorkDir, left)
			}
			if left := reservations(env.WorkDir); len(left) > 0 {
				t.Errorf("%s: reserved and left: %v", env.WorkDir, left)
			}
		})
		return nil
	}
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"exitcode":  cmdExitcode,
		"signalled": cmdSignalled,
		"gone":      cmdGone,
		"generate":  cmdGenerate,
	}
	p.Condition = func(cond string) (bool, error) {
		switch cond {
		case "cgroup":
			_, err := os.Stat("/sys/fs/cgroup/memory/tasks")
			return os.Getuid() == 0 && err == nil, nil
		case "userns":
			return exec.Command("unshare", "-Urm", "true").Run() == nil, nil
		case "soak":
			return os.Getenv("HERMES_EXEC_SOAK") != "", nil
		case "root":
			return os.Getuid() == 0, nil
		case "open":
			return policy == "open", nil
		}
		if tool, ok := strings.CutPrefix(cond, "has:"); ok {
			return has(tool)
		}
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	return p
}

// place gives a script a name of its own for the program, so that processes of
// it can be told by what they execute.
func place(bin, name string) error {
	if os.Link(bin, name) == nil {
		return nil
	}
	data, err := os.ReadFile(bin)
	if err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o755)
}

// reservations lists what is made where something guarded is missing, an empty
// directory or for git a file that says nothing: it must be gone again.
func reservations(dir string) (names []string) {
	filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		switch filepath.Base(name) {
		case ".git", ".envrc", ".mcp.json", ".vscode", ".idea", ".github", ".claude", ".cursor":
			if entries, err := os.ReadDir(name); err == nil && len(entries) == 0 {
				names = append(names, name)
			}
		case "commondir", "config.worktree":
			if filepath.Base(filepath.Dir(name)) == ".git" {
				names = append(names, name)
			}
		}
		return nil
	})
	return names
}

// waitFor gives an end state five seconds to come, and a hundred looks on a
// machine that stood still meanwhile: empty is what is wanted.
func waitFor(look func() []string) []string {
	deadline := time.Now().Add(5 * time.Second)
	for looks := 1; ; looks++ {
		left := look()
		if len(left) == 0 || looks >= 100 && time.Now().After(deadline) {
			return left
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// files lists what is below dir besides empty directories.
func files(dir string) (names []string) {
	filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return nil
	})
	return names
}

// processes lists the processes whose environment, command line or program
// holds mark.
func processes(mark string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == fmt.Sprint(os.Getpid()) {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		if bytes.Contains(env, []byte(mark)) || bytes.Contains(cmd, []byte(mark)) || strings.Contains(exe, mark) {
			found = append(found, filepath.Base(dir)+": "+string(bytes.ReplaceAll(cmd, []byte{0}, []byte{' '})))
		}
	}
	return found
}

// cmdExitcode runs a program and checks its exit code: exitcode N program args…
// Its output is for stdout and stderr, as with exec.
func cmdExitcode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exitcode N program [args…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// cmdSignalled runs a program, waits until it has written a file, and signals
// it: signalled SIGNAL[,SIGNAL…] FILE WANT-CODE program args… It is for what
// happens after, so it fails only when the file does not come or the code
// differs.
func cmdSignalled(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: signalled SIGNALS FILE CODE program [args…]")
	}
	path := args[3]
	if !strings.Contains(path, "/") {
		path = filepath.Join(filepath.Dir(ts.Getenv("BIN")), path)
	}
	cmd := exec.Command(path, args[4:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "HERMES_EXEC_TEST_MARK"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	ts.Check(cmd.Start())
	name := ts.MkAbs(args[1])
	missing := waitFor(func() []string {
		if _, err := os.Stat(name); err != nil {
			return []string{name}
		}
		return nil
	})
	if len(missing) > 0 {
		cmd.Process.Kill()
		cmd.Wait()
		ts.Fatalf("%s did not appear\n%s%s", name, out.String(), errOut.String())
	}
	for s := range strings.SplitSeq(args[0], ",") {
		sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP}[s]
		ts.Check(cmd.Process.Signal(sig))
		if strings.Contains(args[0], ",") {
			time.Sleep(300 * time.Millisecond) // two signals at once are one
		}
	}
	cmd.Wait()
	fmt.Fprint(ts.Stdout(), out.String())
	fmt.Fprint(ts.Stderr(), errOut.String())
	ts.Check(os.WriteFile(ts.MkAbs("stdout.txt"), out.Bytes(), 0o644))
	ts.Check(os.WriteFile(ts.MkAbs("stderr.txt"), errOut.Bytes(), 0o644))
	code := cmd.ProcessState.ExitCode()
	if fmt.Sprint(code) != args[2] {
		ts.Fatalf("exit code %d, want %s\n%s%s", code, args[2], out.String(), errOut.String())
	}
}

// cmdGone waits until no process of this script is left.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	if left := waitFor(func() []string { return processes(ts.Getenv("HERMES_EXEC_TEST_MARK")) }); len(left) > 0 {
		ts.Fatalf("processes left: %v", left)
	}
}

// cmdGenerate writes a file of SIZE bytes made of a repeated text: generate
// FILE SIZE TEXT.
func cmdGenerate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: generate FILE SIZE TEXT")
	}
	var size int
	fmt.Sscan(args[1], &size)
	text := strings.ReplaceAll(args[2], `\n`, "\n")
	data := bytes.Repeat([]byte(text), size/len(text)+1)[:size]
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o644))
}
