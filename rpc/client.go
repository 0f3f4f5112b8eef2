package rpc

import (
	_ "embed"
	"strings"
)

//go:embed client.py
var clientSource string

// ClientSource returns client.py, the script's side of the wire: the module a
// script imports as hermes_tools once the generated functions have been
// appended. Its head says what a generated function looks like.
//
// It is for Serve alone: without what ServePoll needs it compiles in half the
// time, and it is compiled in every run.
func ClientSource() string {
	head, rest, _ := strings.Cut(clientSource, "# HERMES_RPC_DIR begins")
	_, tail, _ := strings.Cut(rest, "# HERMES_RPC_DIR ends.\n\n\n")
	return head + tail
}

// PollClientSource is the ClientSource for ServePoll, and for Serve as well.
func PollClientSource() string { return clientSource }

// SandboxCall is what hermes_tools.sandbox() sends as its tool. It is no tool:
// the Handler answers it itself, with what it enforces, whatever is granted and
// left. No tool can have a name that begins with an underscore.
const SandboxCall = "_sandbox"
