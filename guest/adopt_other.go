//go:build !linux

package guest

import (
	"context"
	"errors"
)

// Adopt is for Linux; elsewhere a lost guest's descendants stay lost.
func Adopt() error { return errors.ErrUnsupported }

// KillAdopted does nothing here.
func KillAdopted() {}

// Reap is for PID 1 of a container, which is Linux.
func Reap(ctx context.Context) { <-ctx.Done() }
