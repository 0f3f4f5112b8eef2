//go:build unix

package rpc

import (
	"os/exec"
	"syscall"
)

func asUser(cmd *exec.Cmd, uid uint32) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}
