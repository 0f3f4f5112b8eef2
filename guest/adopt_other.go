//go:build !linux

package guest

import "errors"

// Adopt is for Linux; elsewhere a lost guest's descendants stay lost.
func Adopt() error { return errors.ErrUnsupported }

// KillAdopted does nothing here.
func KillAdopted() {}
