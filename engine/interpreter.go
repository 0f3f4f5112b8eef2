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
// In a box elsewhere the choice is made once a session: looking costs a journey.
func (s *Session) interpreter(ctx context.Context, named string) (interpreter, error) {
	if !s.elsewhere || named != "" {
		return s.choose(ctx, named)
	}
	if found := s.chosen.Load(); found != nil {
		return *found, nil
	}
	found, err := s.choose(ctx, named)
	if err == nil {
		s.chosen.Store(&found)
	}
	return found, err
}

func (s *Session) choose(ctx context.Context, named string) (interpreter, error) {
	if named == "" && s.mode == Strict && !s.elsewhere {
		named = s.engine.cfg.Python
	}
	if named != "" {
		found, err := s.lookInterpreter(ctx, named)
		if err != nil {
			return interpreter{}, fmt.Errorf("%w: %w", ErrNoInterpreter, err)
		}
		return interpreter{path: found}, nil
	}

	var passed []string
	environ := s.environ
	venv, conda := getenv(environ, "VIRTUAL_ENV"), getenv(environ, "CONDA_PREFIX")
	if s.mode == Project {
		for _, env := range [][2]string{{"VIRTUAL_ENV", venv}, {"CONDA_PREFIX", conda}} {
			if env[1] == "" {
				continue
			}
			found, err := s.firstUsable(ctx, path.Join(env[1], "bin/python"), path.Join(env[1], "bin/python3"))
			if err == nil {
				return interpreter{path: found, warnings: passed}, nil
			}
			passed = append(passed, fmt.Sprintf("%s=%s has no usable Python: %v", env[0], env[1], err))
		}
	}
	for _, dir := range strings.Split(getenv(s.env, "PATH"), ":") {
		if !path.IsAbs(dir) || s.mode == Strict && s.activated(ctx, dir, venv, conda) {
			continue
		}
		found, err := s.checkInterpreter(ctx, path.Join(dir, "python3"))
		if err == nil {
			return interpreter{path: found, warnings: passed}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			passed = append(passed, err.Error())
		}
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
func (s *Session) lookInterpreter(ctx context.Context, named string) (string, error) {
	switch {
	case path.IsAbs(named):
		return s.checkInterpreter(ctx, named)
	case strings.HasPrefix(named, "~/"):
		return s.checkInterpreter(ctx, path.Join(s.info.Home, named[2:]))
	case strings.Contains(named, "/"):
		return s.checkInterpreter(ctx, path.Join(s.info.WorkDir, named))
	}
	var names []string
	for _, dir := range strings.Split(getenv(s.env, "PATH"), ":") {
		if path.IsAbs(dir) {
			names = append(names, path.Join(dir, named))
		}
	}
	found, err := s.firstUsable(ctx, names...)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s is not on PATH", named)
	}
	return found, err
}

// firstUsable returns the first usable interpreter; a broken one before it
// ends the search, as does the absence of all.
func (s *Session) firstUsable(ctx context.Context, names ...string) (string, error) {
	err := fs.ErrNotExist
	for _, name := range names {
		var found string
		if found, err = s.checkInterpreter(ctx, name); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return found, err
		}
	}
	return "", err
}

// activated tells whether a PATH directory was put there by an environment the
// user activated.
func (s *Session) activated(ctx context.Context, dir, venv, conda string) bool {
	root := path.Dir(path.Clean(dir))
	if root == path.Clean(venv) || root == path.Clean(conda) {
		return true
	}
	_, err := s.box.Files().Stat(ctx, path.Join(root, "pyvenv.cfg"))
	return err == nil
}

// checkInterpreter returns the interpreter behind name if it is a Python of at
// least 3.8. Most of the time the name of the real file says the version
// (python3.11); only a shim or an unusual name is asked by running it.
func (s *Session) checkInterpreter(ctx context.Context, name string) (string, error) {
	files := s.box.Files()
	real, err := files.Resolve(ctx, name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	info, err := files.Stat(ctx, real)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", name, err)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a file", name)
	case info.Mode().Perm()&0o111 == 0:
		return "", fmt.Errorf("%s is not executable: %w", name, fs.ErrPermission)
	}
	found, minor := name, 0
	if m, ok := minorOf(path.Base(real)); ok && !s.isText(ctx, real) {
		minor = m
	} else if found, minor, err = s.probe(ctx, name, real, info); err != nil {
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

// isText tells whether a program is a script, as the shims of pyenv and asdf
// are.
func (s *Session) isText(ctx context.Context, name string) bool {
	f, err := s.box.Files().Open(ctx, name)
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
func (s *Session) probe(ctx context.Context, name, real string, info fs.FileInfo) (string, int, error) {
	environ := s.environ
	key := strings.Join([]string{s.backend, s.image, name, real, info.ModTime().String(), s.info.WorkDir,
		getenv(environ, "PYENV_VERSION"), getenv(environ, "ASDF_PYTHON_VERSION")}, "\x00")
	cache := &s.engine.interpreters
	cache.mu.Lock()
	p, ok := cache.found[key]
	cache.mu.Unlock()
	if ok {
		return p.path, p.minor, nil
	}

	env := append([]string(nil), s.env...)
	for _, v := range []string{"PYENV_VERSION", "ASDF_PYTHON_VERSION"} {
		if value := getenv(environ, v); value != "" {
			env = setenv(env, v, value)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, probeTimeout, fmt.Errorf("no answer within %s", probeTimeout))
	defer cancel()
	var out, errOut bytes.Buffer
	proc, err := s.box.Start(ctx, sandbox.Cmd{
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
	if executable == "" || !s.isText(ctx, real) {
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
