//go:build !linux

package files

import (
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func eachFiles(t *testing.T, test func(*testing.T, sandbox.Files)) { test(t, New()) }
