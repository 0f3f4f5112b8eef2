package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
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

// interpreter chooses the Python of a run. What the user named explicitly is
// used or refused, never replaced. Otherwise project mode tries VIRTUAL_ENV,
// then CONDA_PREFIX, then each python3 on PATH; strict mode tries each python3
// on PATH that no activated environment put there.
//
// In a box elsewhere the choice is made once a place: looking costs a journey.
func (p *place) interpreter(ctx context.Context, named string) (interpreter, error) {
	if !p.session.elsewhere || named != "" {
		return p.choose(ctx, named)
	}
	if found := p.chosen.Load(); found != nil {
		return *found, nil
	}
	found, err := p.choose(ctx, named)
	if err == nil {
		p.chosen.Store(&found)
	}
	return found, err
}

func (p *place) choose(ctx context.Context, named string) (interpreter, error) {
	if named == "" && p.session.mode == Strict && !p.session.elsewhere {
		named = p.session.engine.cfg.Python
	}
	if named != "" {
		found, err := p.lookInterpreter(ctx, named)
		if err != nil {
			return interpreter{}, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
		}
		return interpreter{path: found}, nil
	}

	var passed []string
	environ := p.environ
	venv, conda := getenv(environ, "VIRTUAL_ENV"), getenv(environ, "CONDA_PREFIX")
	if p.session.mode == Project {
		for _, env := range [][2]string{{"VIRTUAL_ENV", venv}, {"CONDA_PREFIX", conda}} {
			if env[1] == "" {
				continue
			}
			found, err := p.firstUsable(ctx, path.Join(env[1], "bin/python"), path.Join(env[1], "bin/python3"))
			if err == nil {
				return interpreter{path: found, warnings: passed}, nil
			}
			if p.lostWith(err) {
				return interpreter{}, err
			}
			passed = append(passed, fmt.Sprintf("%s=%s has no usable Python: %v", env[0], env[1], err))
		}
	}
	var names []string
	for _, dir := range strings.Split(getenv(p.env, "PATH"), ":") {
		if path.IsAbs(dir) && !(p.session.mode == Strict && p.activated(ctx, dir, venv, conda)) {
			names = append(names, path.Join(dir, "python3"))
		}
	}
	for len(names) > 0 {
		found, i, err := p.firstFound(ctx, names)
		if err == nil {
			return interpreter{path: found, warnings: passed}, nil
		}
		if p.lostWith(err) {
			return interpreter{}, err
		}
		if !errors.Is(err, fs.ErrNotExist) {
			passed = append(passed, err.Error())
		}
		names = names[min(i+1, len(names)):]
	}
	msg := "there is no python3 on PATH"
	if len(passed) > 0 {
		msg = strings.Join(passed, "; ")
	}
	return interpreter{}, fmt.Errorf("%w: %s; install Python 3.%d or newer, or name one with --interpreter or code_execution.python",
		ErrNoInterpreter, msg, minMinor)
}

// lookInterpreter finds an interpreter the user named: a path, or a name to
// look up on PATH.
func (p *place) lookInterpreter(ctx context.Context, named string) (string, error) {
	switch {
	case path.IsAbs(named):
		return p.firstUsable(ctx, named)
	case strings.HasPrefix(named, "~/"):
		return p.firstUsable(ctx, path.Join(p.info.Home, named[2:]))
	case strings.Contains(named, "/"):
		return p.firstUsable(ctx, path.Join(p.info.WorkDir, named))
	}
	var names []string
	for _, dir := range strings.Split(getenv(p.env, "PATH"), ":") {
		if path.IsAbs(dir) {
			names = append(names, path.Join(dir, named))
		}
	}
	found, err := p.firstUsable(ctx, names...)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not on PATH", named)
	}
	return found, err
}

// firstUsable returns the first usable interpreter; a broken one before it
// ends the search, as does the absence of all.
func (p *place) firstUsable(ctx context.Context, names ...string) (string, error) {
	err := fs.ErrNotExist
	for len(names) > 0 {
		var found string
		var i int
		if found, i, err = p.firstFound(ctx, names); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
		names = names[min(i+1, len(names)):]
	}
	return "", err
}

// firstFound returns the interpreter behind the first of the names that is there,
// and which that is.
func (p *place) firstFound(ctx context.Context, names []string) (found string, i int, err error) {
	i, real, info, err := sandbox.Find(ctx, p.box.Files(), names)
	if err != nil {
		return "", i, fmt.Errorf("%s: %w", names[min(i, len(names)-1)], err)
	}
	found, err = p.checkInterpreter(ctx, names[i], real, info)
	return found, i, err
}

// activated tells whether a PATH directory was put there by an environment the
// user activated.
func (p *place) activated(ctx context.Context, dir, venv, conda string) bool {
	root := path.Dir(path.Clean(dir))
	if root == path.Clean(venv) || root == path.Clean(conda) {
		return true
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
