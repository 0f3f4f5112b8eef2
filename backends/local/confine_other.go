//go:build unix && !linux

package local

import (
	"context"
	"fmt"
	"runtime"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

type host struct{}

func (*host) close() {}

func (b *Backend) limitFindings() []sandbox.Finding { return nil }

// confine refuses: what it takes is Linux's.
func (b *box) confine(_ context.Context, spec sandbox.Spec) error {
	called := spec.Policy.Name
	if called == "" {
		called = "unnamed"
	}
	return fmt.Errorf("policy %q asks for confinement, which %s has no means for here (--policy open runs without): %w",
		called, runtime.GOOS, sandbox.ErrPolicy)
}
