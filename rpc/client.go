package rpc

import _ "embed"

//go:embed client.py
var clientSource string

// ClientSource returns client.py, the script's side of the wire: the module a
// script imports as hermes_tools once the generated functions have been
// appended. Its head says what a generated function looks like.
func ClientSource() string { return clientSource }

// SandboxCall is what hermes_tools.sandbox() sends as its tool. It is no tool:
// the Handler answers it itself, with what it enforces, whatever is granted and
// left. No tool can have a name that begins with an underscore.
const SandboxCall = "_sandbox"
