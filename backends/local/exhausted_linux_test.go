package local_test

import (
	"bytes"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// An engine that had no descriptor left for a moment, at any step of making its
// first box, makes no weaker one later: root's boxes are never root's.
func TestNoDescriptors(t *testing.T) {
	if os.Getenv("LOCAL_TEST_EXHAUSTED") == "" { // it is about the first box of a process
		for _, spare := range []string{"0", "1", "2", "3", "5", "8"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestNoDescriptors$", "-test.v")
			cmd.Env = append(os.Environ(), "LOCAL_TEST_EXHAUSTED="+spare)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("with %s left: %v\n%s", spare, err, out)
			}
		}
		return
	}
	dir := t.TempDir()
	p := sandbox.Policy{
		Name: "exhausted", Read: []string{"/"}, Write: []string{dir}, DenyRead: []string{"/etc/shadow"}, Network: sandbox.NetworkHost,
		BestEffort: []sandbox.ClauseName{sandbox.ClauseResources},
	}
	b := backend(t, local.Config{})
	if l, err := net.Listen("unix", filepath.Join(dir, "s")); err != nil { // the runtime's own are there from now on
		t.Fatal(err)
	} else {
		l.Close()
	}
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: usual.Max}); err != nil {
		t.Fatal(err)
	}
	var taken []int
	for {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		taken = append(taken, fd)
	}
	spare, err := strconv.Atoi(os.Getenv("LOCAL_TEST_EXHAUSTED"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range taken[:spare] {
		unix.Close(fd)
	}
	taken = taken[spare:]
	box, err := b.Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: p})
	for _, fd := range taken {
		unix.Close(fd)
	}
	if e := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); e != nil {
		t.Fatal(e)
	}
	if err == nil {
		box.Close(context.Background())
	}
	t.Log("without descriptors:", err)
	if box, err = b.Create(t.Context(), sandbox.Spec{WorkDir: dir, Policy: p}); err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	var out bytes.Buffer
	proc, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "id -u; cat /etc/shadow && echo read"}, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := proc.Wait(); err != nil {
		t.Fatal(err)
	}
	if uid, rest, _ := strings.Cut(out.String(), "\n"); box.Info().UID == 0 || uid == "0" || strings.Contains(rest, "read") || strings.Contains(rest, ":") && !strings.Contains(rest, "denied") {
		t.Errorf("user %d, %s", box.Info().UID, out.String())
	}
}
