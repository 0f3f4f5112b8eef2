package tools

import (
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Config bounds the tools and tells them what they must not touch. Its zero
// value is usable: zero limits mean the defaults named here.
type Config struct {
	MaxReadChars   int // characters of one read_file view for a model; 100,000
	MaxLines       int // lines of one such view; 2,000
	MaxLineLength  int // characters of a line in it before it is cut; 2,000
	MaxOutputBytes int // output of a terminal command; 50,000

	// Fsync makes write_file wait until content and name are on disk.
	Fsync bool

	// Home and HermesHome are the user's home directory and the engine's own
	// configuration and state on the engine's machine. What is secret beneath
	// them is denied, as it is beneath the home directory of the box.
	Home, HermesHome string
	// WriteRoot confines every write to a directory; "" means no such bound.
	WriteRoot string

	// Env is the scrubbed environment: of commands that a script asks for and
	// of syntax checkers. ModelEnv is the wider one of a model's own commands.
	Env, ModelEnv []string

	// Redact masks secrets in what a model reads; nil masks nothing. A script
	// gets the file as it is.
	Redact func(string) string

	// Web is what web_search and web_extract need to know.
	Web WebConfig

	// DefaultTimeout is a terminal command's, 180 s; MaxForegroundTimeout the
	// longest that may be asked for, 600 s.
	DefaultTimeout, MaxForegroundTimeout time.Duration
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	orInt := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	orInt(&c.MaxReadChars, 100_000)
	orInt(&c.MaxLines, 2_000)
	orInt(&c.MaxLineLength, 2_000)
	orInt(&c.MaxOutputBytes, 50_000)
	if c.DefaultTimeout <= 0 {
		c.DefaultTimeout = 180 * time.Second
	}
	if c.MaxForegroundTimeout <= 0 {
		c.MaxForegroundTimeout = 600 * time.Second
	}
	return c
}

// New returns the tools bound to box: the one list of what this module offers.
// They share one session state: the working directory, what was read and
// when. With a nil box the declarations are complete, for schemas and stubs,
// and every call fails with ErrNoSandbox.
func New(box sandbox.Sandbox, cfg Config) []registry.Tool {
	s := newSession(box, cfg)
	return append([]registry.Tool{
		readFileTool(s),
		writeFileTool(s),
		searchFilesTool(s),
		patchTool(s),
		terminalTool(s),
	}, webTools(s)...)
}
