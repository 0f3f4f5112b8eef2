package guest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
)

// TestReap: PID 1 waits for a thousand orphans of other sessions, and for no
// child that somebody in it waits for himself.
func TestReap(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), reaping+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil && len(out) == 0 {
		t.Skipf("no namespaces here: %v", err)
	}
	if err != nil || string(out) != "none is left\n" {
		t.Errorf("%v, %s", err, out)
	}
}

// reapStorm is PID 1 with a storm of orphans.
func reapStorm() int {
	fail := func(err error) int {
		fmt.Println(err)
		return 1
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fail(err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); guest.Reap(ctx) }()
	// The main process of a session leaves a thousand behind, which end at once.
	storm := exec.Command("/bin/sh", "-c", "i=0; while [ $i -lt 1000 ]; do : & i=$((i+1)); done")
	storm.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := storm.Start(); err != nil {
		return fail(err)
	}
	// And one of this session ends meanwhile, whom we wait for later.
	own := exec.Command("/bin/sh", "-c", "exit 7")
	if err := own.Start(); err != nil {
		return fail(err)
	}
	for stop := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := children()
		if len(left) == 1 && strings.HasPrefix(left[0], fmt.Sprint(own.Process.Pid)+" ") && strings.Contains(left[0], ") Z ") {
			break
		}
		if time.Now().After(stop) {
			return fail(fmt.Errorf("%d are left: %.500q", len(left), left))
		}
	}
	if err := own.Wait(); err == nil || own.ProcessState.ExitCode() != 7 {
		return fail(fmt.Errorf("our own child: %w", err))
	}
	cancel()
	<-done
	fmt.Println("none is left")
	return 0
}

// children are the processes of this namespace besides this one.
func children() (stats []string) {
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && name != "/proc/1/stat" {
			stats = append(stats, string(b))
		}
	}
	return stats
}
