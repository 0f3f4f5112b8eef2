package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

func TestScripts(t *testing.T) {
	bin := binary(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			// A short scratch base (socket paths are limited) that must be empty
			// again in the end, a home of its own, and a mark by which processes
			// of this script are found.
			tmp, err := os.MkdirTemp("", "hx")
			if err != nil {
				return err
			}
			home := filepath.Join(env.WorkDir, "home")
			if err := os.Mkdir(home, 0o755); err != nil {
				return err
			}
			env.Setenv("TMPDIR", tmp)
			env.Setenv("HOME", home)
			env.Setenv("PATH", filepath.Dir(bin)+":/usr/bin:/bin")
			env.Setenv("LANG", "C.UTF-8")
			env.Setenv("BIN", bin)
			env.Setenv("HERMES_EXEC_TEST_MARK", filepath.Base(tmp))
			env.Defer(func() {
				defer os.RemoveAll(tmp)
				if left := waitFor(func() []string { return files(tmp) }); len(left) > 0 {
					t.Errorf("%s: left in the scratch base: %v", env.WorkDir, left)
				}
				if left := waitFor(func() []string { return processes(filepath.Base(tmp)) }); len(left) > 0 {
					t.Errorf("%s: processes left: %v", env.WorkDir, left)
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exitcode":  cmdExitcode,
			"signalled": cmdSignalled,
			"gone":      cmdGone,
			"generate":  cmdGenerate,
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "userns":
				return exec.Command("unshare", "-Urm", "true").Run() == nil, nil
			case "soak":
				return os.Getenv("HERMES_EXEC_SOAK") != "", nil
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
	})
}

// waitFor gives an end state five seconds to come: empty is what is wanted.
func waitFor(look func() []string) []string {
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := look()
		if len(left) == 0 || time.Now().After(deadline) {
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

// processes lists the processes whose environment or command line holds mark.
func processes(mark string) (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		if filepath.Base(dir) == fmt.Sprint(os.Getpid()) {
			continue
		}
		env, _ := os.ReadFile(filepath.Join(dir, "environ"))
		cmd, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte(mark)) || bytes.Contains(cmd, []byte(mark)) {
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
