package guest

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// RootAs returns a user namespace in which this machine's root is the given
// user: a mount that is shown through it shows root's files as that user's. The
// caller closes it.
func RootAs(uid, gid int) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	proc, err := os.StartProcess("/proc/self/exe", []string{argv0, hold}, &os.ProcAttr{
		Dir: "/", Env: []string{marker + "=1"}, Files: []*os.File{r},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}},
			Pdeathsig:   syscall.SIGKILL,
		},
	})
	r.Close()
	if err != nil {
		return nil, fmt.Errorf("guest: user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", proc.Pid))
	_ = proc.Kill()
	_, _ = proc.Wait()
	if err != nil {
		return nil, fmt.Errorf("guest: user namespace: %w", err)
	}
	return f, nil
}

// holdOne does nothing until the other end of its input closes.
func holdOne() int {
	var b [1]byte
	_, _ = os.Stdin.Read(b[:])
	return 0
}
