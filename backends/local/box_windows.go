package local

import (
	"context"
	"fmt"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// buffers, host and spare are of no use here.
type (
	buffers struct{}
	host    struct{}
	spare   struct{ program string }
)

func (*host) close()  {}
func (*spare) close() {}

func (b *Backend) create(context.Context, sandbox.Spec) (sandbox.Sandbox, error) {
	return nil, fmt.Errorf("%w on Windows: use a container or ssh backend", sandbox.ErrUnavailable)
}

// Check implements sandbox.Backend.
func (b *Backend) Check(context.Context) []sandbox.Finding {
	return []sandbox.Finding{{
		Severity: sandbox.Failure, Subject: "operating system", Detail: "windows",
		Fix: "use a container or ssh backend, or run in WSL",
	}}
}
