package rpc

import "os/exec"

func asUser(*exec.Cmd, uint32) {}
