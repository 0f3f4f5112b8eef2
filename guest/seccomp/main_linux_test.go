package seccomp

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// role is the variable that makes a re-executed test binary something else:
// "filter" and "filter-offline" put it under the filter and execute its
// arguments, "probe" makes the calls of a group of probes and prints what they
// answered.
const role = "SECCOMP_TEST_ROLE"

func TestMain(m *testing.M) {
	switch r := os.Getenv(role); r {
	case "":
		os.Exit(m.Run())
	case "probe":
		answers := map[string]syscall.Errno{}
		probes[os.Args[1]](answers)
		json.NewEncoder(os.Stdout).Encode(answers)
	default:
		os.Setenv(role, "probe")
		fmt.Fprintln(os.Stderr, "filtered child:", become(Options{NoNetwork: r == "filter-offline"}, os.Args[1:]))
		os.Exit(125)
	}
}

// become executes args under the filter.
func become(o Options, args []string) error {
	runtime.LockOSThread()
	filter, err := Program(o)
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return err
	}
	if err := Install(filter); err != nil {
		return err
	}
	return syscall.Exec(path, args, os.Environ())
}

// command returns a command that runs under the filter, or "bare".
func command(t *testing.T, how string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if how != "bare" {
		args = append([]string{self}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	if how == "bare" {
		how = "probe"
	}
	cmd.Env = append(os.Environ(), role+"="+how, "GORACE=atexit_sleep_ms=0") // under -race it sleeps else
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// asked runs a group of probes in a child and returns its answers.
func asked(t *testing.T, how, group string) map[string]syscall.Errno {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd := command(t, how, self, group)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", how, group, err, stderr.String())
	}
	answers := map[string]syscall.Errno{}
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("%s %s: %v: %q", how, group, err, out)
	}
	return answers
}
