package engine

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/envfilter"
)

// sandboxEnv is the scrubbed environment of a session: what the filter passes,
// the HOME contract, then what the task sets on purpose.
func (e *Engine) sandboxEnv(passthrough, set []string) ([]string, error) {
	env := envfilter.Environ(e.decide(passthrough))
	env = homeEnv(env, e.cfg.HomeMode, e.cfg.HomeDir, getenv(e.cfg.Environ, "HERMES_REAL_HOME"), inContainer())
	if e.cfg.Timezone != "" {
		env = setenv(env, "TZ", e.cfg.Timezone)
	}
	return addEnv(env, set)
}

// addedEnv is what a session elsewhere gets besides the environment of that
// place: what the user lets through by name, the time zone, what the task sets.
func (e *Engine) addedEnv(passthrough, set []string) ([]string, error) {
	named := slices.Concat(e.cfg.Passthrough, passthrough)
	env := []string{}
	for _, kv := range envfilter.Environ(e.decide(passthrough)) {
		if name, _, _ := strings.Cut(kv, "="); slices.Contains(named, name) {
			env = append(env, kv)
		}
	}
	if e.cfg.Timezone != "" {
		env = setenv(env, "TZ", e.cfg.Timezone)
	}
	return addEnv(env, set)
}

// addEnv sets what a task sets on purpose.
func addEnv(env, set []string) ([]string, error) {
	for _, kv := range set {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" || strings.ContainsRune(kv, 0) {
			return nil, fmt.Errorf("%w: environment entry %q: want NAME=value", ErrRefused, clip(name, 80))
		}
		env = setenv(env, name, value)
	}
	return env, nil
}

// scriptEnv adds what a run needs to a session's environment. The scratch
// directory is importable first, then the project, then what the user had.
func (p *place) scriptEnv(scratch string, way []string) []string {
	env := append([]string(nil), p.env...)
	path := []string{scratch}
	if p.session.mode == Project {
		project := p.info.WorkDir
		if strings.Contains(project, ":") { // which PYTHONPATH cannot name: the script starts there
			project = "."
		}
		path = append(path, project)
	}
	if old := getenv(env, "PYTHONPATH"); old != "" {
		path = append(path, old)
	}
	for _, kv := range way {
		name, value, _ := strings.Cut(kv, "=")
		env = setenv(env, name, value)
	}
	for _, kv := range [][2]string{
		{"PYTHONPATH", strings.Join(path, ":")},
		{"PYTHONDONTWRITEBYTECODE", "1"},
		{"PYTHONIOENCODING", "utf-8"},
		{"PYTHONUTF8", "1"},
		// What was printed before a kill must have left the process.
		{"PYTHONUNBUFFERED", "1"},
	} {
		env = setenv(env, kv[0], kv[1])
	}
	return env
}

// homeEnv applies terminal.home_mode. HERMES_REAL_HOME always names the user's
// own home: what the engine was told of it, else its HOME, else the account's,
// the first that is not $HERMES_HOME/home. HOME is $HERMES_HOME/home under
// "profile", and under "auto" inside a container.
func homeEnv(env []string, mode, hermesHome, told string, container bool) []string {
	profile := ""
	if hermesHome != "" {
		profile = filepath.Join(hermesHome, "home")
	}
	home := getenv(env, "HOME")
	isOwn := func(dir string) bool { return dir != "" && dir != profile }
	real := "/tmp"
	if isOwn(told) {
		real = told
	} else if isOwn(home) {
		real = home
	} else if account, err := user.Current(); err == nil && isOwn(account.HomeDir) {
		real = account.HomeDir
	}
	env = setenv(env, "HERMES_REAL_HOME", real)
	if mode == "profile" || mode == "auto" && container {
		if info, err := os.Stat(profile); profile != "" && err == nil && info.IsDir() {
			return setenv(env, "HOME", profile)
		}
	}
	if mode == "real" || !isOwn(home) {
		return setenv(env, "HOME", real)
	}
	return env
}

func inContainer() bool {
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			return true
		}
	}
	return false
}

func getenv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}

// setenv sets name in env, in place when it is there already.
func setenv(env []string, name, value string) []string {
	for i := range env {
		if strings.HasPrefix(env[i], name+"=") {
			env[i] = name + "=" + value
			return env
		}
	}
	return append(env, name+"="+value)
}
