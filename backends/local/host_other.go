//go:build unix && !linux

package local

import "github.com/hermes-exec/hermes-exec/sandbox"

// maxSocketPath is how long a path in a socket address may be, without the NUL
// that ends it.
const maxSocketPath = 103

func killClause() sandbox.Clause {
	return sandbox.Clause{
		Clause: sandbox.ClauseKill, State: sandbox.Partial, Mechanism: "process group",
		Why: "a process that starts a session of its own is not found on this system",
	}
}

func usable() error { return nil }
