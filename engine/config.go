package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Mode says where a script runs and with which interpreter.
type Mode string

// The two modes of code_execution.mode.
const (
	// Project runs in the session's working directory with the project's
	// interpreter: the active venv, else python3 on PATH.
	Project Mode = "project"
	// Strict runs in the scratch directory with a fixed interpreter, whatever
	// the user has activated.
	Strict Mode = "strict"
)

// Limits bound one run. A zero field means its default.
type Limits struct {
	Timeout      time.Duration // wall clock of the script; default 5 min
	MaxToolCalls int           // calls a script may make; default 50, NoToolCalls for none
	Stdout       int           // bytes of stdout in the result; default 50,000
	Stderr       int           // bytes of stderr in the result; default 10,000
	Frame        int           // bytes of one RPC message; default 16 MiB
	Code         int           // bytes of source; default 10 MiB
	Grace        time.Duration // between SIGTERM and SIGKILL; default 5 s
}

// NoToolCalls as Limits.MaxToolCalls lets a script make no call at all.
const NoToolCalls = -1

func (l Limits) withDefaults() Limits {
	l.Timeout = or(l.Timeout, 5*time.Minute)
	l.MaxToolCalls = or(l.MaxToolCalls, 50)
	l.Stdout = or(l.Stdout, 50_000)
	l.Stderr = or(l.Stderr, 10_000)
	l.Frame = or(l.Frame, 16<<20)
	l.Code = or(l.Code, 10<<20)
	l.Grace = or(l.Grace, 5*time.Second)
	if l.MaxToolCalls < 0 {
		l.MaxToolCalls = 0
	}
	return l
}

func (l Limits) check() error {
	switch {
	case l.Timeout < 0:
		return fmt.Errorf("timeout %s is negative", l.Timeout)
	case l.Stdout < 0 || l.Stderr < 0:
		return errors.New("an output limit is negative")
	case l.Frame < 0 || l.Frame > 0 && l.Frame < 4096:
		return fmt.Errorf("frame limit of %d bytes is below 4096", l.Frame)
	case l.Code < 0 || l.Grace < 0:
		return errors.New("a limit is negative")
	}
	return nil
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// ScriptTools are the tools a script may call unless told otherwise, in the
// order they are described to a model.
func ScriptTools() []string {
	return []string{"web_search", "web_extract", "read_file", "write_file", "search_files", "patch", "terminal"}
}

// Config makes an Engine. Backends is required; every other zero value is a
// safe default.
type Config struct {
	// Backends are the places to run, by name. The engine owns them: Close
	// closes them.
	Backends map[string]sandbox.Backend
	// Backend names the default one; "" means "local".
	Backend string
	// Tools makes the tools of a session, bound to its sandbox. It is called
	// with nil for declarations only. nil means no tools.
	Tools func(box sandbox.Sandbox) []registry.Tool
	// AllowedTools are granted to scripts by default besides ScriptTools.
	AllowedTools []string

	Mode   Mode   // "" means Project
	Python string // interpreter of strict mode; "" finds python3 outside any venv
	Limits Limits

	// Environ is the environment scripts get a scrubbed part of; nil means the
	// process's own.
	Environ []string
	// Passthrough names variables to let through; see envfilter.
	Passthrough []string
	// HomeDir is HERMES_HOME, "" if there is none; HomeMode is
	// terminal.home_mode: "auto" (default), "real" or "profile".
	HomeDir, HomeMode string
	// Timezone is the TZ of scripts, "" to leave it.
	Timezone string

	// ShowSecrets turns redaction off.
	ShowSecrets bool
	// Log gets what is worth knowing about the engine itself; nil discards.
	Log *slog.Logger
}

// neverGranted cannot be called by a script whatever the configuration says:
// a script that starts scripts or agents escapes its own budget.
func neverGranted(name string) bool { return name == "execute_code" || name == "delegate_task" }

func (c Config) withDefaults() (Config, error) {
	c.Backend = or(c.Backend, "local")
	c.Mode = or(c.Mode, Project)
	c.HomeMode = or(c.HomeMode, "auto")
	if c.Mode != Project && c.Mode != Strict {
		return c, fmt.Errorf("mode %q: want %q or %q", c.Mode, Project, Strict)
	}
	if _, ok := c.Backends[c.Backend]; !ok {
		return c, fmt.Errorf("%w: backend %q is not configured, have %s", ErrRefused, c.Backend, strings.Join(sortedKeys(c.Backends), ", "))
	}
	for _, name := range c.AllowedTools {
		if neverGranted(name) {
			return c, fmt.Errorf("tool %q can never be granted to a script", name)
		}
	}
	if err := c.Limits.check(); err != nil {
		return c, err
	}
	c.Limits = c.Limits.withDefaults()
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	if c.Tools == nil {
		c.Tools = func(sandbox.Sandbox) []registry.Tool { return nil }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}
