//go:build !unix

package docker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Without locks that end with a process there are no leases, and without those
// no containers: what a crash leaves could not be told from what lives.

const keepDir = "keep"

type lease struct{ state, owner, id string }

func errHere(what string) error {
	return fmt.Errorf("%s on this system: %w", what, sandbox.ErrUnsupported)
}

func newName() string { return "" }

func defaultStateDir() string { return filepath.Join(os.TempDir(), "hermes-exec-docker") }

func openState(string) (string, error)         { return "", errHere("leases") }
func takeLease(string) (*lease, error)         { return nil, errHere("leases") }
func (l *lease) dir() string                   { return "" }
func (l *lease) release() error                { return nil }
func (l *lease) drop()                         {}
func deadLease(state, owner, id string) *lease { return nil }
func leases(string) []string                   { return nil }
func isName(string) bool                       { return false }
func workUser(string) (*user, error)           { return nil, nil }
func engineUser() *user                        { return nil }
func makeOwn(string, user) error               { return errHere("persistent directories") }
func sweepGuards(*slog.Logger)                 {}

func detach(*exec.Cmd) {}

func writableBy(string, user) bool { return true }
func ownedByRoot(string) bool      { return false }

type reservation struct{ guards []guard }

func reserve(_ context.Context, _ *slog.Logger, p posture) (*reservation, error) {
	if p.WorkDir != "" && !p.Open {
		return nil, errHere("guards of a work directory")
	}
	return &reservation{}, nil
}

func (r *reservation) stands() bool { return true }
func (r *reservation) release()     {}
func (r *reservation) futureInputs(context.Context, time.Time) ([]sandbox.FutureInput, bool, error) {
	return nil, false, nil
}
