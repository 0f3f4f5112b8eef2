//go:build !linux

package local

import "testing"

func eachFiles(t *testing.T, test func(*testing.T, *files)) { test(t, newFiles()) }
