package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

const writeDoc = `Write content to a file (always overwrites). Returns dict with status.
Missing directories are made. The file appears in one step or not at all, keeps the mode, owner, byte order mark and line endings of the one it replaces, and is checked for syntax errors: "lint" says what was found, "_warning" that somebody else changed the file or that it was not read in full. Use patch to change a part of a file.`

type writeArgs struct {
	Path         string `json:"path" doc:"File to write: absolute, relative to the working directory, or ~/…"`
	Content      string `json:"content" doc:"The whole new content"`
	CrossProfile bool   `json:"cross_profile" doc:"Accepted for compatibility; the engine's own profiles are never written" default:"false"`
}

// writeResult is what write_file returns, in this order of keys. An error
// leaves the others zero.
type writeResult struct {
	BytesWritten  int         `json:"bytes_written"`
	DirsCreated   bool        `json:"dirs_created"`
	Lint          *lintResult `json:"lint,omitempty"`
	Warning       string      `json:"_warning,omitempty"`
	Error         string      `json:"error,omitempty"`
	ResolvedPath  string      `json:"resolved_path,omitempty"`
	FilesModified []string    `json:"files_modified,omitempty"`
}

func writeFileTool(s *session) registry.Tool {
	t := registry.New("write_file", "file", writeDoc, s.writeFile)
	t.Emoji = "✍️"
	return t
}

func (s *session) writeFile(ctx context.Context, caller registry.Caller, in writeArgs) (writeResult, error) {
	s.reads.acted(caller.Session)
	resolved, err := s.resolve(ctx, in.Path, toWrite)
	if errors.Is(err, ErrNoSandbox) {
		return writeResult{}, err
	}
	if err != nil {
		return writeResult{Error: err.Error(), ResolvedPath: resolved}, nil
	}
	if strings.TrimSpace(in.Content) == unchangedText {
		return writeResult{ResolvedPath: resolved, Error: "The content is read_file's note that a file is unchanged, not the text of a file; nothing was written."}, nil
	}
	unlock, err := s.locks.lock(ctx, resolved)
	if err != nil {
		return writeResult{}, fmt.Errorf("write_file: %w", err)
	}
	defer unlock()

	old, err := s.lookAtOld(ctx, caller, resolved)
	if err != nil {
		return writeResult{ResolvedPath: resolved, Error: s.writeTrouble(ctx, resolved, err)}, nil
	}
	warning := s.outside(in.Path, resolved)
	if old.exists {
		if w := s.reads.stale(caller.Session, resolved, old.stamp); w != "" {
			warning = w
		}
	}
	content := old.form.apply(in.Content)
	made, err := s.put(ctx, resolved, content)
	if err != nil {
		if ctx.Err() != nil {
			return writeResult{}, fmt.Errorf("write_file: %w", context.Cause(ctx))
		}
		return writeResult{ResolvedPath: resolved, Error: s.writeTrouble(ctx, resolved, err)}, nil
	}
	if info, err := s.box.Files().Stat(ctx, resolved); err == nil {
		s.reads.wrote(caller.Session, resolved, stampOf(info))
	}
	lint := s.lint(ctx, caller, resolved, content, old)
	return writeResult{
		BytesWritten: len(content), DirsCreated: made, Lint: &lint, Warning: warning,
		ResolvedPath: resolved, FilesModified: []string{resolved},
	}, nil
}

// put writes a whole file, with its directories if need be; when that fails,
// those it made are gone again. It is the one way the tools write.
func (s *session) put(ctx context.Context, resolved, content string) (dirsMade bool, err error) {
	opt := sandbox.CreateOptions{Sync: s.cfg.Fsync}
	w, err := s.box.Files().Create(ctx, resolved, opt)
	if errors.Is(err, fs.ErrNotExist) {
		var undo func(context.Context)
		if undo, err = s.makeDirs(ctx, path.Dir(resolved)); err != nil {
			undo(context.WithoutCancel(ctx))
			return false, err
		}
		defer func() {
			if err != nil {
				undo(context.WithoutCancel(ctx))
			}
		}()
		dirsMade = true
		w, err = s.box.Files().Create(ctx, resolved, opt)
	}
	if err != nil {
		return false, err
	}
	defer w.Discard()
	if _, err := io.WriteString(w, content); err != nil {
		return false, err
	}
	return dirsMade, w.Commit()
}

// makeDirs makes dir and what is missing above it. undo, never nil, removes
// what was made, as far as nobody uses it by then.
func (s *session) makeDirs(ctx context.Context, dir string) (undo func(context.Context), err error) {
	files := s.box.Files()
	var missing []string // innermost first
	undo = func(ctx context.Context) {
		for _, p := range missing {
			_ = files.Remove(ctx, p) // fails when it was never made, or is in use
		}
	}
	for p := dir; ; p = path.Dir(p) {
		_, err := files.Stat(ctx, p)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || p == path.Dir(p) {
			missing = nil
			return undo, err
		}
		missing = append(missing, p)
	}
	if len(missing) == 0 {
		return undo, nil
	}
	return undo, files.MkdirAll(ctx, dir, 0o777)
}

// oldFile is what is known of the file that will be replaced.
type oldFile struct {
	exists bool
	stamp  stamp
	form   fileForm
	text   string // its beginning
	whole  bool   // text is all of it
}

// formSample is how much of a file tells its line endings.
const formSample = 4096

// lookAtOld reads what is needed of a file before it is replaced: its form,
// and as much as a checker will want to compare.
func (s *session) lookAtOld(ctx context.Context, caller registry.Caller, resolved string) (oldFile, error) {
	file, err := s.box.Files().Open(ctx, resolved)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) { // may be writable, though not readable
		return oldFile{}, nil
	}
	if err != nil {
		return oldFile{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return oldFile{}, err
	}
	want := int64(formSample)
	if n := s.compared(caller, resolved); info.Size() <= n {
		want = n
	}
	buf := make([]byte, min(want, info.Size()))
	n, err := file.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return oldFile{}, err
	}
	return oldFile{
		exists: true, stamp: stampOf(info), form: formOf(buf[:min(n, formSample)]),
		text: string(buf[:n]), whole: int64(n) == info.Size(),
	}, nil
}

// fileForm is what a new content takes over from the old one.
type fileForm struct{ bom, crlf bool }

// formOf judges by the beginning of a file. A file of mixed endings has no
// form to keep.
func formOf(sample []byte) fileForm {
	newlines := bytes.Count(sample, []byte{'\n'})
	return fileForm{
		bom:  bytes.HasPrefix(sample, []byte(bom)),
		crlf: newlines > 0 && newlines == bytes.Count(sample, []byte("\r\n")),
	}
}

// apply gives content the form. Content that has carriage returns or NULs of
// its own means what it says.
func (f fileForm) apply(content string) string {
	if f.crlf && !strings.ContainsAny(content, "\r\x00") {
		content = strings.ReplaceAll(content, "\n", "\r\n")
	}
	if f.bom && !strings.HasPrefix(content, bom) {
		content = bom + content
	}
	return content
}

// outside warns when a relative path leads out of the workspace: the working
// directory may be another than the caller believes.
func (s *session) outside(name, resolved string) string {
	root := s.box.Info().WorkDir
	if path.IsAbs(name) || strings.HasPrefix(name, "~") || root == "" || under(resolved, root) {
		return ""
	}
	return "Relative path '" + name + "' means " + resolved + ", which is OUTSIDE the active workspace " + root + ". Use an absolute path if that is what you want."
}

// writeTrouble says why a file could not be written.
func (s *session) writeTrouble(ctx context.Context, resolved string, err error) string {
	if errors.Is(err, sandbox.ErrNotRegular) {
		if info, serr := s.box.Files().Stat(ctx, resolved); serr == nil && info.IsDir() {
			return "Failed to write file: '" + resolved + "' is a directory"
		}
		return systemError(resolved).Error()
	}
	return "Failed to write file: " + pathTrouble(resolved, err).Error()
}
