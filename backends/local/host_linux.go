package local

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxSocketPath is how long a path in a socket address may be, without the NUL
// that ends it.
const maxSocketPath = 107

func killClause() sandbox.Clause {
	return sandbox.Clause{Clause: sandbox.ClauseKill, State: sandbox.Enforced, Mechanism: "subreaper"}
}

// usable tells why boxes cannot be kept here.
func usable() error {
	if err := unix.Access("/proc/self/stat", unix.R_OK); err != nil {
		return fmt.Errorf("%w: processes are found in /proc, which cannot be read: %w", sandbox.ErrUnavailable, err)
	}
	return nil
}
