//go:build unix && !linux

package local

import (
	"context"
	"runtime"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// checkConfined says that there is nothing to check.
func (b *Backend) checkConfined(context.Context) []sandbox.Finding {
	return []sandbox.Finding{{
		Severity: sandbox.Warning, Subject: "confinement",
		Detail: "none on " + runtime.GOOS + ": only the policy open can be kept, the others are refused",
		Fix:    "--policy open, or run it on Linux",
	}}
}
