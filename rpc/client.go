package rpc

import _ "embed"

//go:embed client.py
var clientSource string

// ClientSource returns client.py, the script's side of the wire: the module a
// script imports as hermes_tools once the generated functions have been
// appended. Its head says what a generated function looks like.
func ClientSource() string { return clientSource }
