package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxCheck is how long a checker process may take.
const maxCheck = 30 * time.Second

// The program prints what python itself would say. It parses, it runs nothing.
const pythonCheck = `import ast, sys
try:
    ast.parse(sys.stdin.buffer.read(), "file")
except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
    at = f" (line {e.lineno}, column {e.offset})" if getattr(e, "lineno", None) else ""
    sys.stdout.buffer.write(f"{type(e).__name__}: {getattr(e, 'msg', None) or e}{at}".encode("utf-8", "replace"))
`

func (s *session) checkPython(ctx context.Context, _, content string) (string, error) {
	out, _, err := s.runChecker(ctx, strings.NewReader(content), "python3", "-I", "-S", "-W", "ignore", "-c", pythonCheck)
	return out, err
}

func (s *session) checkJavaScript(ctx context.Context, name, content string) (string, error) {
	out, err := s.nodeCheck(ctx, name, content)
	if err == nil && out != "" && path.Ext(name) == ".js" {
		// An ES module may be called .js; what a package.json says of it is not
		// known here, so it is wrong only when it is wrong as either.
		if as, err := s.nodeCheck(ctx, name+".mjs", content); err == nil && as == "" {
			return "", nil
		}
	}
	return out, err
}

func (s *session) nodeCheck(ctx context.Context, name, content string) (string, error) {
	return s.onCopy(ctx, name, content, func(file string) (string, error) {
		out, code, err := s.runChecker(ctx, nil, "node", "--check", file)
		if err != nil || code == 0 {
			return "", err
		}
		line := ""
		if rest, ok := strings.CutPrefix(out, file+":"); ok {
			line, _, _ = strings.Cut(rest, "\n")
		}
		for l := range strings.Lines(out) {
			if l = strings.TrimSpace(l); strings.HasPrefix(l, "SyntaxError") {
				if line != "" {
					l += " (line " + line + ")"
				}
				return l, nil
			}
		}
		return "", fmt.Errorf("node --check ended with %d", code)
	})
}

// checkTypeScript asks for syntax errors alone (TS1xxx): types cannot be judged
// without the rest of the program.
func (s *session) checkTypeScript(ctx context.Context, name, content string) (string, error) {
	return s.onCopy(ctx, name, content, func(file string) (string, error) {
		out, _, err := s.runChecker(ctx, nil, "tsc", "--noEmit", "--noResolve", "--skipLibCheck", "--pretty", "false", file)
		return grepLines(out, file, func(l string) bool { return strings.Contains(l, "error TS1") && !strings.Contains(l, "error TS18") }), err
	})
}

// checkRust formats the file to nowhere; what cannot be parsed cannot be formatted.
func (s *session) checkRust(ctx context.Context, name, content string) (string, error) {
	out, code, err := s.runChecker(ctx, strings.NewReader(content), "rustfmt", "--edition", "2021", "--emit", "stdout", "--quiet")
	if err != nil || code == 0 {
		return "", err
	}
	text := grepLines(out, "", func(l string) bool {
		l = strings.TrimSpace(l)
		return strings.HasPrefix(l, "error") || strings.HasPrefix(l, "--> <stdin>")
	})
	if !strings.HasPrefix(text, "error") {
		return "", fmt.Errorf("rustfmt ended with %d", code)
	}
	return text, nil
}

// grepLines keeps the lines that match, without the copy's name.
func grepLines(out, file string, match func(string) bool) string {
	var kept []string
	for l := range strings.Lines(out) {
		if l = strings.TrimRight(l, "\r\n"); match(l) {
			if file != "" {
				l = strings.ReplaceAll(l, file, path.Base(file))
			}
			kept = append(kept, strings.TrimSpace(l))
		}
	}
	return strings.Join(kept, "\n")
}

// onCopy runs a checker that wants a file on a copy in the scratch directory:
// old and new text are judged alike, and the file itself is on disk already.
func (s *session) onCopy(ctx context.Context, name, content string, check func(file string) (string, error)) (string, error) {
	files := s.box.Files()
	scratch, err := files.Resolve(ctx, s.box.Info().ScratchDir)
	if err != nil {
		return "", errNoChecker
	}
	dir := path.Join(scratch, "check-"+strconv.FormatUint(rand.Uint64(), 36))
	if err := files.Mkdir(ctx, dir, 0o700); err != nil {
		return "", errNoChecker
	}
	defer files.RemoveAll(context.WithoutCancel(ctx), dir)
	file := path.Join(dir, name)
	w, err := files.Create(ctx, file, sandbox.CreateOptions{Perm: 0o600})
	if err != nil {
		return "", errNoChecker
	}
	defer w.Discard()
	if _, err = io.WriteString(w, content); err == nil {
		err = w.Commit()
	}
	if err != nil {
		return "", errNoChecker
	}
	return check(file)
}

// runChecker runs a program in the box and returns what it printed and its
// exit code. A program that is not there is an error, and so is one that was
// ended.
func (s *session) runChecker(ctx context.Context, stdin io.Reader, args ...string) (string, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxCheck, errors.New("the check took too long"))
	defer cancel()
	out := &capped{max: 64 << 10}
	env := s.cfg.Env
	proc, err := s.box.Start(ctx, sandbox.Cmd{
		Args: args, Dir: s.box.Info().ScratchDir, Env: env,
		Stdin: stdin, Stdout: out, Stderr: out, Grace: 100 * time.Millisecond,
	})
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return "", 0, fmt.Errorf("%s is not available", args[0])
	}
	if err != nil {
		return "", 0, err
	}
	exit, err := proc.Wait()
	switch {
	case err != nil:
		return "", 0, err
	case ctx.Err() != nil:
		return "", 0, context.Cause(ctx)
	case exit.Code < 0 || exit.Code == 126 || exit.Code == 127: // a shim without the program behind it
		return "", 0, fmt.Errorf("%s could not be run", args[0])
	}
	return out.String(), exit.Code, nil
}
