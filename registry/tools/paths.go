package tools

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// intent is what a path is resolved for.
type intent int

const (
	toRead intent = iota
	toWrite
)

// maxPath is the longest path anybody may ask for, in bytes.
const maxPath = 4096

// resolve is the one way from what a caller wrote to a path that is opened:
// "~" and relative paths expanded, links followed once, the rules asked about
// the outcome. The path it returns is only ever used with box.Files(), whose
// methods refuse links, so what was judged is what is touched. With an error
// the path is "" unless it could be resolved but is denied.
//
// Errors are ready to be shown: they name the path as far as it may be named.
func (s *session) resolve(ctx context.Context, name string, in intent) (resolved string, err error) {
	if s.box == nil {
		return "", ErrNoSandbox
	}
	full, err := s.expand(name)
	if err != nil {
		return "", err
	}
	if last := name[strings.LastIndexByte(name, '/')+1:]; in == toWrite && (last == "" || last == "." || last == "..") {
		return "", &shownError{"'" + name + "' names a directory, not a file to write", sandbox.ErrNotRegular}
	}
	// /dev/stdin and its like lead somewhere harmless-looking.
	if plain := path.Clean(filepath.ToSlash(full)); s.rules().device(plain) {
		return "", deviceError(name, plain, in)
	}
	resolved, err = s.box.Files().Resolve(ctx, full)
	if err != nil {
		return "", pathTrouble(name, err)
	}
	return resolved, s.allowed(name, resolved, in)
}

// allowed asks the rules about a resolved path; name is how to call it when
// the answer is no. A tool that finds paths by itself (search) asks it about
// each of them.
func (s *session) allowed(name, resolved string, in intent) error {
	r := s.rules()
	p := filepath.ToSlash(resolved)
	switch {
	case r.device(p):
		return deviceError(name, resolved, in)
	case in == toRead && r.secret(p):
		return deniedError("Read denied: '" + name + "' holds credentials or the engine's own state.")
	case in == toWrite && r.system(p):
		return systemError(resolved)
	case in == toWrite && r.protected(p):
		return deniedError("Write denied: '" + resolved + "' is a protected system/credential file.")
	case in == toWrite && !r.inWriteRoot(p):
		return deniedError("Write denied: '" + resolved + "' is outside the directory that writes are confined to.")
	}
	return nil
}

// expand makes name absolute without looking at the disk.
func (s *session) expand(name string) (string, error) {
	switch {
	case name == "":
		return "", errors.New("path required")
	case strings.IndexByte(name, 0) >= 0:
		return "", errors.New("a path cannot contain a NUL byte")
	case len(name) > maxPath:
		return "", errors.New("the path is longer than 4096 bytes")
	}
	info := s.box.Info()
	if name == "~" || strings.HasPrefix(name, "~/") {
		if info.Home == "" {
			return "", errors.New("'" + name + "': there is no home directory here")
		}
		return info.Home + name[1:], nil
	}
	if path.IsAbs(name) && info.OS != "windows" || info.OS == "windows" && filepath.IsAbs(name) {
		return name, nil
	}
	// Not path.Join: what ".." means depends on the links before it.
	return strings.TrimSuffix(s.cwd(), "/") + "/" + name, nil
}

// deniedError is a refusal by rule.
type deniedError string

func (e deniedError) Error() string { return string(e) }
func (deniedError) Unwrap() error   { return fs.ErrPermission }

func deviceError(name, resolved string, in intent) error {
	if in == toWrite {
		return systemError(resolved)
	}
	return deniedError("Cannot read '" + name + "': this is a device file that would block or produce infinite output.")
}

func systemError(resolved string) error {
	return deniedError("Refusing to write to sensitive system path: " + resolved +
		"\nUse the terminal tool with sudo if this system file really has to change.")
}

// pathTrouble says in plain words why a path could not be resolved, opened or
// written.
func pathTrouble(name string, err error) error {
	text := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		text = "File not found: " + name
	case errors.Is(err, sandbox.ErrNotRegular):
		text = "Cannot use '" + name + "': not a regular file"
	case errors.Is(err, sandbox.ErrSymlink):
		text = "'" + name + "' was changed into a symbolic link while it was being opened; try again"
	case errors.Is(err, fs.ErrPermission):
		text = "Permission denied: " + name
	case errors.Is(err, syscall.ENAMETOOLONG):
		text = "File name too long: " + clip(name, 80)
	case errors.Is(err, syscall.ELOOP):
		text = "Too many levels of symbolic links: " + name
	case errors.Is(err, syscall.ENOTDIR):
		text = "A part of '" + name + "' is a file, not a directory"
	default:
		text = "'" + clip(name, 200) + "': " + bare(err).Error()
	}
	return &shownError{text, err}
}

// shownError is an error with a text for the caller; what it wraps is for us.
type shownError struct {
	text string
	err  error
}

func (e *shownError) Error() string { return e.text }
func (e *shownError) Unwrap() error { return e.err }

// bare is err without the path the file layer put in it.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// clip shortens foreign text for an error.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}
