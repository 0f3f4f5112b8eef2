package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// minMinor is the oldest Python 3 that hermes_tools.py supports.
const minMinor = 8

// interpreter is a usable Python.
type interpreter struct {
	path     string
	warnings []string // why a preferred one was passed over
}

// interpreterCache remembers what a shim led to, since asking one costs more
// than the rest of a run together.
type interpreterCache struct {
	mu    sync.Mutex
	found map[string]probed
}

type probed struct {
	path  string
	minor int
}

// choice chooses the Python of a run. What the user named explicitly is
// used or refused, never replaced. Otherwise project mode tries VIRTUAL_ENV,
// then CONDA_PREFIX, then each python3 on PATH; strict mode tries each python3
// on PATH that no activated environment put there.
type choice struct {
	p     *place
	named string // or ""

	asked []string // names that have been looked for already
	told  sandbox.Found
}

// choice is of a run whose user has named an interpreter, or "".
func (p *place) choice(named string) *choice {
	if named == "" && p.session.mode == Strict && !p.session.elsewhere {
		named = p.session.engine.cfg.Python
	}
	return &choice{p: p, named: named}
}

// first is what will be looked for first.
func (c *choice) first() []string {
	if c.named != "" {
		return c.namesOf(c.named)
	}
	if all := c.environments(); len(all) > 0 {
		return all[0].names
	}
	return c.onPath("python3")
}

// interpreter makes the choice. In a box elsewhere one without a name is made once
// a place: looking costs a journey.
func (c *choice) interpreter(ctx context.Context) (interpreter, error) {
	once := c.p.session.elsewhere && c.named == ""
	if once {
		if found := c.p.chosen.Load(); found != nil {
			return *found, nil
		}
	}
	found, err := c.choose(ctx)
	if err == nil && once {
		c.p.chosen.Store(&found)
	}
	return found, err
}

func (c *choice) choose(ctx context.Context) (interpreter, error) {
	if c.named != "" {
		found, err := c.firstUsable(ctx, c.namesOf(c.named))
		if errors.Is(err, fs.ErrNotExist) && !strings.Contains(c.named, "/") {
			err = fmt.Errorf("%s is not on PATH", c.named)
		}
		if err != nil {
			if closed := c.closed(c.namesOf(c.named)); closed != nil {
				err = closed
			}
			return interpreter{}, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
		}
		return interpreter{path: found}, nil
	}
	var passed []string
	for _, env := range c.environments() {
		found, err := c.firstUsable(ctx, env.names)
		if err == nil {
			return interpreter{path: found, warnings: passed}, nil
		}
		if c.p.lostWith(err) {
			return interpreter{}, err
		}
		passed = append(passed, fmt.Sprintf("%s has no usable Python: %v", env.variable, err))
	}
	for names := c.onPath("python3"); len(names) > 0; {
		told := c.find(ctx, names)
		at := told.Index
		if at == len(names) || c.p.session.mode != Strict || !c.p.activated(ctx, path.Dir(names[at])) {
			found, err := c.usable(ctx, names, told)
			if err == nil {
				return interpreter{path: found, warnings: passed}, nil
			}
			if c.p.lostWith(err) {
				return interpreter{}, err
			}
			if !errors.Is(err, fs.ErrNotExist) {
				passed = append(passed, err.Error())
			}
		}
		names = names[min(at+1, len(names)):]
	}
	all := c.onPath("python3")
	for _, env := range c.environments() {
		all = append(all, env.names...)
	}
	if err := c.closed(all); err != nil {
		return interpreter{}, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
	}
	msg := "there is no python3 on PATH"
	if len(passed) > 0 {
		msg = strings.Join(passed, "; ")
	}
	return interpreter{}, fmt.Errorf("%w: %s; install Python 3.%d or newer, or name one with --interpreter or code_execution.python",
		ErrNoInterpreter, msg, minMinor)
}

// closed names the policy as the reason that there is no interpreter, when it lets
// none of the names be read.
func (c *choice) closed(names []string) error {
	s := c.p.session
	readable := func(name string) bool { return s.spec.Policy.Access(path.Clean(name)).Read }
	if s.elsewhere || len(names) == 0 || slices.ContainsFunc(names, readable) {
		return nil
	}
	return fmt.Errorf("%w: the policy %s lets none be read; extends: sealed in its file gives those of the system", ErrRefused, s.policy)
}

// environment is one the user activated.
type environment struct {
	variable string // NAME=VALUE
	names    []string
}

// environments are what project mode tries before PATH.
func (c *choice) environments() (all []environment) {
	if c.p.session.mode != Project {
		return nil
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if root := getenv(c.p.environ, name); root != "" {
			all = append(all, environment{name + "=" + root, []string{path.Join(root, "bin/python"), path.Join(root, "bin/python3")}})
		}
	}
	return all
}

// namesOf are the paths an interpreter the user named may have: a path is one, a
// name is looked up on PATH.
func (c *choice) namesOf(named string) []string {
	switch {
	case path.IsAbs(named):
		return []string{named}
	case strings.HasPrefix(named, "~/"):
		return []string{path.Join(c.p.info.Home, named[2:])}
	case strings.Contains(named, "/"):
		return []string{path.Join(c.p.info.WorkDir, named)}
	}
	return c.onPath(named)
}

func (c *choice) onPath(program string) (names []string) {
	for _, dir := range strings.Split(getenv(c.p.env, "PATH"), ":") {
		if path.IsAbs(dir) {
			names = append(names, path.Join(dir, program))
		}
	}
	return names
}

// firstUsable returns the first usable interpreter; a broken one before it
// ends the search, as does the absence of all.
func (c *choice) firstUsable(ctx context.Context, names []string) (string, error) {
	err := fs.ErrNotExist
	for len(names) > 0 {
		told := c.find(ctx, names)
		var found string
		if found, err = c.usable(ctx, names, told); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		names = names[min(told.Index+1, len(names)):]
	}
	return "", err
}

// find is sandbox.Find.
func (c *choice) find(ctx context.Context, names []string) (told sandbox.Found) {
	if slices.Equal(names, c.asked) {
		c.asked = nil
		return c.told
	}
	told.Index, told.Real, told.Info, told.Err = sandbox.Find(ctx, c.p.box.Files(), names)
	return told
}

// usable returns the interpreter of what was found of the names.
func (c *choice) usable(ctx context.Context, names []string, told sandbox.Found) (string, error) {
	if told.Err != nil {
		return "", fmt.Errorf("%s: %w", names[min(told.Index, len(names)-1)], told.Err)
	}
	return c.p.checkInterpreter(ctx, names[told.Index], told.Real, told.Info)
}

// activated tells whether a PATH directory was put there by an environment the
// user activated.
func (p *place) activated(ctx context.Context, dir string) bool {
	root := path.Dir(dir)
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if value := getenv(p.environ, name); value != "" && root == path.Clean(value) {
			return true
		}
	}
	_, err := p.box.Files().Stat(ctx, path.Join(root, "pyvenv.cfg"))
	return err == nil
}

// checkInterpreter returns the interpreter behind name, which is real's, if it is
// a Python of at least 3.8. Most of the time the name of the real file says the
// version (python3.11); only a shim or an unusual name is asked by running it.
func (p *place) checkInterpreter(ctx context.Context, name, real string, info fs.FileInfo) (_ string, err error) {
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	case info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable: %w", name, fs.ErrPermission)
	}
	found, minor := name, 0
	if m, ok := minorOf(path.Base(real)); ok && (info.Size() > largestShim || !p.isText(ctx, real)) {
		minor = m
	} else if found, minor, err = p.probe(ctx, name, real, info); err != nil {
		return "", err
	}
	if minor < minMinor {
		return "", fmt.Errorf("%s is Python 3.%d, older than 3.%d", name, minor, minMinor)
	}
	return found, nil
}

// minorOf reads 11 from "python3.11".
func minorOf(base string) (int, bool) {
	digits, ok := strings.CutPrefix(base, "python3.")
	if !ok {
		return 0, false
	}
	minor, err := strconv.Atoi(digits)
	return minor, err == nil
}

// largestShim is what a shim never reaches, and a program of a linker's always.
const largestShim = 8 << 10

// isText tells whether a program is a script, as the shims of pyenv and asdf
// are.
func (p *place) isText(ctx context.Context, name string) bool {
	f, err := p.box.Files().Open(ctx, name)
	if err != nil {
		return true // let probe find out
	}
	defer f.Close()
	var magic [2]byte
	n, _ := f.Read(magic[:])
	return string(magic[:n]) == "#!"
}

// probeTimeout bounds how long an interpreter may take to say who it is.
const probeTimeout = 10 * time.Second

// probe asks a program which Python it is. A shim's answer depends on the
// directory, so the directory is part of the key.
func (p *place) probe(ctx context.Context, name, real string, info fs.FileInfo) (string, int, error) {
	environ := p.environ
	key := strings.Join([]string{p.session.backend, p.session.spec.Image, name, real, info.ModTime().String(), p.info.WorkDir,
		getenv(environ, "PYENV_VERSION"), getenv(environ, "ASDF_PYTHON_VERSION")}, "\x00")
	cache := &p.session.engine.interpreters
	cache.mu.Lock()
	known, ok := cache.found[key]
	cache.mu.Unlock()
	if ok {
		return known.path, known.minor, nil
	}

	env := append([]string(nil), p.env...)
	for _, v := range []string{"PYENV_VERSION", "ASDF_PYTHON_VERSION"} {
		if value := getenv(environ, v); value != "" {
			env = setenv(env, v, value)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	var out, errOut bytes.Buffer
	proc, err := p.box.Start(ctx, sandbox.Cmd{
		Args: []string{name, "-I", "-S", "-c", "import sys, json; print(json.dumps([sys.version_info[0], sys.version_info[1], sys.executable]))"},
		Env:  env, Stdout: &boundedBuffer{&out}, Stderr: &boundedBuffer{&errOut}, Grace: time.Second,
	})
	if err != nil {
		return "", 0, fmt.Errorf("%s cannot be run: %w", name, err)
	}
	exit, err := proc.Wait()
	if cause := context.Cause(ctx); err == nil && cause != nil {
		err = cause
	}
	if err == nil && (exit.Code != 0 || exit.Signal != 0) {
		err = fmt.Errorf("exit code %d: %s", exit.Code, clip(strings.TrimSpace(errOut.String()), 200))
	}
	if err != nil {
		return "", 0, fmt.Errorf("%s does not run: %w", name, err)
	}
	var answer []any
	if json.Unmarshal(out.Bytes(), &answer) != nil || len(answer) != 3 {
		return "", 0, fmt.Errorf("%s is not a Python: it printed %q", name, clip(out.String(), 80))
	}
	major, _ := answer[0].(float64)
	minor, _ := answer[1].(float64)
	executable, _ := answer[2].(string)
	if major != 3 {
		return "", 0, fmt.Errorf("%s is Python %v.%v", name, answer[0], answer[1])
	}
	// Only a shim is replaced: a venv's python must be started by its own name
	// to find its packages.
	if executable == "" || !p.isText(ctx, real) {
		executable = name
	}
	cache.mu.Lock()
	if cache.found == nil {
		cache.found = map[string]probed{}
	}
	cache.found[key] = probed{executable, int(minor)}
	cache.mu.Unlock()
	return executable, int(minor), nil
}

// boundedBuffer keeps the first 4 KiB.
type boundedBuffer struct{ *bytes.Buffer }

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if room := 4096 - b.Len(); room > 0 {
		b.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
