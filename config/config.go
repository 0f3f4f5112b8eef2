package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Config is what the file and the environment say. Lists are nil unless set.
type Config struct {
	Home string // $HERMES_HOME, "" when there is none
	Path string // the configuration file, which need not exist

	CodeExecution    CodeExecution
	Terminal         Terminal
	ToolOutput       ToolOutput
	Security         Security
	Approvals        Approvals
	File             File
	Web              Web
	FileReadMaxChars int    // characters of one view of a file for a model
	Timezone         string // IANA name for scripts' TZ, "" for the system's

	// Backends are the places to run, by name. There are always local, docker
	// and ssh; what the last two need may be missing (SSH.Host is "").
	Backends map[string]Backend

	// Warnings are things a person should know that stop nothing.
	Warnings []string

	named   []*Backend // the backends section's, by name
	origins map[string]string
}

// CodeExecution is about running scripts.
type CodeExecution struct {
	Mode           string        // project or strict
	Timeout        time.Duration // of one run
	MaxToolCalls   int           // of one run
	MaxStdoutBytes int           // in the result
	MaxStderrBytes int           // in the result
	MaxFrameBytes  int           // of one message between a script and the engine
	Python         string        // interpreter, "" to find one
	Policy         string        // profile or policy file, "" for the mode's own
	AllowedTools   []string      // script tools besides the default seven
	DenyRead       []string      // paths closed to scripts besides the secret places
	OpenGuards     []string      // guards of the policy that are open

	// Limits of a session's box; 0 is for none. They take confinement.
	Memory int64   // bytes, of everything in it
	PIDs   int     // processes and threads
	CPU    float64 // cores
	Disk   int64   // bytes of scratch and private /tmp
}

// Terminal is about commands and the place where they run.
type Terminal struct {
	Backend              string
	Cwd                  string // "." is the directory the program was started in
	Timeout              time.Duration
	MaxForegroundTimeout time.Duration // the longest a call may ask for
	EnvPassthrough       []string
	HomeMode             string // auto, real or profile
	ShellInitFiles       []string
	AutoSourceBashrc     bool
	Policy               string // of sessions opened to call terminal, "" for code_execution's

	Docker     Docker        // of the backend docker
	SSH        SSH           // of the backend ssh
	Lifetime   time.Duration // after which what nobody uses may end
	SandboxDir string        // for what outlives a sandbox, "" for sandboxes in Home
}

// ToolOutput bounds what tools show to a model.
type ToolOutput struct{ MaxBytes, MaxLines, MaxLineLength int }

// Security is about secrets and the network.
type Security struct {
	RedactSecrets    bool
	AllowPrivateURLs bool
	WebsiteBlocklist WebsiteBlocklist
}

// WebsiteBlocklist names the sites web tools must not visit.
type WebsiteBlocklist struct {
	Enabled     bool
	Domains     []string
	SharedFiles []string
}

// Approvals is about asking a person.
type Approvals struct {
	Mode           string // manual, smart or off
	Timeout        time.Duration
	GatewayTimeout time.Duration
	CronMode       string // deny or approve
}

// File is about writing files.
type File struct {
	Fsync         bool
	WriteSafeRoot string // "" means no such bound
}

// Web chooses providers; "" lets the tool choose.
type Web struct{ Backend, SearchBackend, ExtractBackend string }

// Default is the configuration without any file or environment.
func Default() *Config {
	c := &Config{
		CodeExecution: CodeExecution{
			Mode: "project", Timeout: 300 * time.Second, MaxToolCalls: 50,
			MaxStdoutBytes: 50_000, MaxStderrBytes: 10_000, MaxFrameBytes: 16 << 20,
			PIDs: 1024, Disk: 4 << 30,
		},
		Terminal: Terminal{
			Backend: "local", Cwd: ".", Timeout: 180 * time.Second, MaxForegroundTimeout: 600 * time.Second,
			HomeMode: "auto", AutoSourceBashrc: true,
			Docker: defaultDocker(), Lifetime: 300 * time.Second,
		},
		ToolOutput:       ToolOutput{MaxBytes: 50_000, MaxLines: 2_000, MaxLineLength: 2_000},
		Security:         Security{RedactSecrets: true},
		Approvals:        Approvals{Mode: "manual", Timeout: 60 * time.Second, GatewayTimeout: 300 * time.Second, CronMode: "deny"},
		FileReadMaxChars: 100_000,
		origins:          map[string]string{},
	}
	c.Backends = c.places()
	return c
}

// Options says where to look.
type Options struct {
	// Home is $HERMES_HOME; "" takes it from Environ.
	Home string
	// Path is the file to read; "" is config.yaml in Home. A file that was
	// named here must exist.
	Path string
	// Environ is the environment; nil is the process's.
	Environ []string
	// DotEnv are variables of a .env file. They count as environment, below Environ.
	DotEnv []Variable
}

// Load reads the configuration. The error, when there is one, joins every
// mistake found, and the Config is then nil.
func Load(opt Options) (*Config, error) {
	if opt.Environ == nil {
		opt.Environ = os.Environ()
	}
	c := Default()
	if c.Home = opt.Home; c.Home == "" {
		c.Home = Home(opt.Environ)
	}
	if c.Path = opt.Path; c.Path == "" && c.Home != "" {
		c.Path = filepath.Join(c.Home, "config.yaml")
	}
	settings := c.settings()
	var errs []error
	if c.Path != "" {
		errs = c.readFile(settings, opt.Path != "")
	}
	errs = append(errs, c.readEnv(settings, opt)...)
	c.Backends = c.places()
	if err := c.checkBackend(); err != nil {
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// Home is the directory of configuration and state that an environment names:
// HERMES_HOME, else .hermes in the home directory (on Windows hermes in
// LOCALAPPDATA). "" means that it names none.
func Home(environ []string) string {
	home, _ := lookup(environ, "HOME")
	if dir, ok := lookup(environ, "HERMES_HOME"); ok {
		if rest, tilde := strings.CutPrefix(dir, "~"); tilde && home != "" && (rest == "" || os.IsPathSeparator(rest[0])) {
			dir = home + rest
		}
		if abs, err := filepath.Abs(dir); err == nil {
			return abs
		}
		return dir
	}
	if runtime.GOOS == "windows" {
		if dir, ok := lookup(environ, "LOCALAPPDATA"); ok {
			return filepath.Join(dir, "hermes")
		}
		home, _ = lookup(environ, "USERPROFILE")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".hermes")
}

// lookup finds a variable that is set and not blank: an empty one means unset,
// as the reference has it.
func lookup(environ []string, name string) (string, bool) {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			value = strings.TrimSpace(value)
			return value, value != ""
		}
	}
	return "", false
}

// readEnv applies the variables that have a setting.
func (c *Config) readEnv(settings []setting, opt Options) (errs []error) {
	for _, s := range settings {
		if s.env == "" {
			continue
		}
		origin := "env " + s.env
		value, ok := lookup(opt.Environ, s.env)
		for _, v := range opt.DotEnv {
			if text := strings.TrimSpace(v.Value); !ok && v.Name == s.env && text != "" {
				value, ok = text, true
				origin = fmt.Sprintf("%s:%d %s", v.File, v.Line, v.Name)
			}
		}
		if !ok {
			continue
		}
		if err := s.value.parse(value); err != nil {
			errs = append(errs, fmt.Errorf("config: %s (%s): %w", origin, s.key, err))
			continue
		}
		c.origins[s.key] = origin
	}
	return errs
}

// Origin says where a setting's value comes from: "default", "FILE:LINE",
// "env NAME" or "FILE:LINE NAME" for a .env file; "" for an unknown key.
func (c *Config) Origin(key string) string {
	if origin, ok := c.origins[key]; ok {
		return origin
	}
	if slices.ContainsFunc(c.settings(), func(s setting) bool { return s.key == key }) {
		return "default"
	}
	return ""
}

// Mistake puts an error about a setting's value, which only its reader could
// find, into the shape of those that Load finds.
func (c *Config) Mistake(key string, err error) error {
	switch origin := c.Origin(key); {
	case origin == "" || origin == "default":
		return fmt.Errorf("config: %s: %w", key, err)
	case strings.HasPrefix(origin, c.Path+":"):
		return fmt.Errorf("config: %s: %s: %w", origin, key, err)
	default:
		return fmt.Errorf("config: %s (%s): %w", origin, key, err)
	}
}

// Setting is one value as a person reads it.
type Setting struct{ Key, Value, Origin string }

// Show lists every setting, section by section.
func (c *Config) Show() []Setting {
	settings := c.settings()
	shown := make([]Setting, len(settings))
	for i, s := range settings {
		shown[i] = Setting{Key: s.key, Value: s.value.show(), Origin: c.Origin(s.key)}
	}
	return shown
}
