package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// has tells whether the machine has a tool that a script works with: the
// condition [has:TOOL]. One that HERMES_EXEC_REQUIRE names must be there.
func has(tool string) (bool, error) {
	probe := map[string][]string{
		"pytest": {"/usr/bin/python3", "-c", "import pytest"},
		"venv":   {"/usr/bin/python3", "-c", "import venv, ensurepip"},
		"sqlite": {"/usr/bin/python3", "-c", "import sqlite3"},
		"mounts": {"unshare", "--mount", "true"},
	}[tool]
	if probe == nil {
		probe = []string{tool, "--version"}
		if tool == "go" {
			probe[1] = "version"
		}
	}
	err := exec.Command(probe[0], probe[1:]...).Run()
	if err != nil && slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), tool) {
		return false, fmt.Errorf("%s is required here: %w", tool, err)
	}
	return err == nil, nil
}

// goBin is the directory of the go command, which is seldom in /usr/bin; "" if
// there is none.
func goBin() string {
	name, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	return filepath.Dir(name)
}
