package tools

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools/patchtext"
)

const patchDoc = `Replace a passage in a file, or apply a patch. Returns dict with "success" and "diff".
mode="replace" (the default) puts new_string in place of old_string, which must be in the file once unless replace_all is set. Differences in blanks, indentation, quotes and escapes are tolerated; "strategy" says so when the passage was not found exactly.
mode="patch" takes a patch in the V4A format (*** Begin Patch, *** Update File: / Add File: / Delete File: / Move File: a -> b, @@ lines that say where, lines with ' ', '-' or '+' in front, *** End Patch) or a unified diff. All of it is applied, or nothing.
A file in another encoding than UTF-8 is decoded for that and encoded again.
The diff that is returned can be applied and reversed with git apply; where a file is not UTF-8 its exact bytes are in "diff_base64". "lint" says what a syntax check of the result found.`

type patchArgs struct {
	Mode         string  `json:"mode" doc:"How the change is given" default:"replace" enum:"replace,patch" required:"schema" pyafter:"replace_all"`
	Path         *string `json:"path" doc:"replace: the file: absolute, relative to the working directory, or ~/…"`
	OldString    *string `json:"old_string" doc:"replace: the passage to find, with enough around it to be the only one"`
	NewString    *string `json:"new_string" doc:"replace: what to put there; empty to delete"`
	ReplaceAll   bool    `json:"replace_all" doc:"replace: every occurrence" default:"false"`
	Patch        *string `json:"patch" doc:"patch: the patch"`
	CrossProfile bool    `json:"cross_profile" doc:"Accepted for compatibility; the engine's own profiles are never written" default:"false"`
}

// patchResult is what patch returns when all was applied.
type patchResult struct {
	Success       bool     `json:"success"`
	Diff          string   `json:"diff"`
	DiffBase64    string   `json:"diff_base64,omitempty"`
	FilesModified []string `json:"files_modified"` // absolute: what has new content, created files included
	FilesCreated  []string `json:"files_created,omitempty"`
	FilesDeleted  []string `json:"files_deleted,omitempty"`
	ResolvedPath  string   `json:"resolved_path,omitempty"`
	Lint          any      `json:"lint,omitempty"` // of the file, or by file
	Strategy      string   `json:"strategy,omitempty"`
	Replacements  int      `json:"replacements,omitempty"`
	Warning       string   `json:"_warning,omitempty"`
}

// patchFailure is what it returns when nothing was.
type patchFailure struct {
	Success      bool     `json:"success"`
	Error        string   `json:"error"`
	ResolvedPath string   `json:"resolved_path,omitempty"`
	SimilarFiles []string `json:"similar_files,omitempty"`
	Hint         string   `json:"_hint,omitempty"`
}

// refusedPatch answers a call that asks for nothing that could be tried.
type refusedPatch struct {
	Error string `json:"error"`
}

// maxDiff bounds the diff in a result, in bytes.
const maxDiff = 4 << 20

// patcher is the patch tool of one session.
type patcher struct {
	*session
	mu     sync.Mutex
	misses bounded[miss, int] // failures in a row
}

type miss struct{ session, path string }

func patchTool(s *session) registry.Tool {
	p := &patcher{session: s, misses: bounded[miss, int]{max: maxStamps}}
	t := registry.New("patch", "file", patchDoc, p.call)
	t.Emoji = "🔧"
	return t
}

func (p *patcher) call(ctx context.Context, caller registry.Caller, in patchArgs) (any, error) {
	if p.box == nil {
		return nil, ErrNoSandbox
	}
	p.reads.acted(caller.Session)
	if in.Mode == "replace" && in.Patch != nil && in.Path == nil && in.OldString == nil && in.NewString == nil {
		in.Mode = "patch" // nothing else can be meant
	}
	switch in.Mode {
	case "replace":
		switch {
		case in.Path == nil || *in.Path == "":
			return refusedPatch{"path required"}, nil
		case in.OldString == nil || in.NewString == nil:
			return refusedPatch{"old_string and new_string required"}, nil
		}
		return p.replace(ctx, caller, *in.Path, *in.OldString, *in.NewString, in.ReplaceAll)
	case "patch":
		if in.Patch == nil || *in.Patch == "" {
			return refusedPatch{"patch content required"}, nil
		}
		return p.patch(ctx, caller, *in.Patch)
	}
	return refusedPatch{"Unknown mode: " + clip(in.Mode, 80)}, nil
}

// replace changes a passage of one file.
func (p *patcher) replace(ctx context.Context, caller registry.Caller, name, old, fresh string, all bool) (any, error) {
	d := newDraft(p.session, caller)
	defer d.close()
	if err := d.open(ctx, name); err != nil {
		return p.failed(ctx, caller, "", err)
	}
	f, err := d.file(ctx, name, forText)
	if err != nil {
		failure := patchFailure{Error: err.Error(), ResolvedPath: d.resolved[name]}
		if errors.Is(err, errMissing) {
			failure.Error = "Failed to read file: " + name
			failure.SimilarFiles = p.similarFiles(ctx, name, d.resolved[name])
		}
		return failure, ctxErr(ctx)
	}
	count := 0
	text, how, err := edit(f.text, func(text string) (string, patchtext.Strategy, error) {
		got, err := patchtext.Replace(text, old, fresh, all)
		count = got.Count
		return got.Text, got.Strategy, err
	})
	if err != nil {
		return p.missed(caller, name, f.path, err), nil
	}
	f.text = text
	if err := d.commit(ctx); err != nil {
		return p.failed(ctx, caller, f.path, err)
	}
	p.forget(caller, f.path)
	out := d.result()
	out.ResolvedPath = f.path
	if checked := d.lintAll(ctx); len(checked) > 0 {
		out.Lint = checked[0].result
	}
	if how != patchtext.Exact {
		out.Strategy = string(how)
	}
	if count > 1 {
		out.Replacements = count
	}
	return out, nil
}

// patch applies all of a patch or nothing.
func (p *patcher) patch(ctx context.Context, caller registry.Caller, text string) (any, error) {
	ops, err := patchtext.Parse(text)
	if err != nil {
		return patchFailure{Error: "Failed to parse patch: " + err.Error()}, nil
	}
	var names []string
	for _, op := range ops {
		for _, name := range []string{op.Path, op.To} {
			if name == "" {
				continue
			}
			if climbs(name) {
				return refusedPatch{"V4A patch header contains '..' traversal: '" + clip(name, 200) + "'. Use a path below the working directory or an absolute one."}, nil
			}
			names = append(names, name)
		}
	}
	d := newDraft(p.session, caller)
	defer d.close()
	if err := d.open(ctx, names...); err != nil {
		return p.failed(ctx, caller, "", err)
	}
	loosest, problems := d.simulate(ctx, ops)
	if err := ctxErr(ctx); err != nil {
		return nil, err
	}
	if len(problems) > 0 {
		const most = 20
		if n := len(problems); n > most {
			problems = append(problems[:most], fmt.Sprintf("… and %d more", n-most))
		}
		return patchFailure{Error: p.shown(caller, "Patch validation failed (no files were modified):\n  • "+strings.Join(problems, "\n  • "))}, nil
	}
	if err := d.commit(ctx); err != nil {
		return p.failed(ctx, caller, "", err)
	}
	out := d.result()
	if checked := d.lintAll(ctx); len(checked) > 0 {
		byFile := map[string]lintResult{}
		for _, c := range checked {
			byFile[c.name] = c.result
		}
		out.Lint = byFile
	}
	if loosest != "" && loosest != patchtext.Exact {
		out.Strategy = string(loosest)
	}
	return out, nil
}

// climbs reports a ".." in a path.
func climbs(name string) bool {
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part == ".." {
			return true
		}
	}
	return false
}

// failed turns an error of the files into a result; one of the call's end
// stays an error.
func (p *patcher) failed(ctx context.Context, caller registry.Caller, resolved string, err error) (any, error) {
	var broken *commitError
	if end := ctxErr(ctx); end != nil && !(errors.As(err, &broken) && len(broken.lost) > 0) {
		return nil, end
	}
	return patchFailure{Error: p.shown(caller, err.Error()), ResolvedPath: resolved}, nil
}

func ctxErr(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("patch: %w", context.Cause(ctx))
}

// missed answers when the passage could not be replaced. Who tries the same
// again and again is told to stop; a program is not.
func (p *patcher) missed(caller registry.Caller, name, resolved string, err error) patchFailure {
	out := patchFailure{Error: p.shown(caller, err.Error()), ResolvedPath: resolved}
	if caller.IsScript() {
		return out
	}
	p.mu.Lock()
	key := miss{caller.Session, resolved}
	n, _ := p.misses.get(key)
	n++
	p.misses.set(key, n)
	p.mu.Unlock()
	var none *patchtext.NoMatchError
	switch {
	case n >= 3:
		out.Hint = fmt.Sprintf("This is failure #%d patching '%s'. Stop retrying variations: read the file again with read_file and copy "+
			"old_string from what it says now, or write the whole file with write_file.", n, name)
	case errors.As(err, &none) && none.Similar == "":
		out.Hint = "old_string not found. Use read_file to see what the file says now, or search_files to find where the text is."
	}
	return out
}

func (p *patcher) forget(caller registry.Caller, resolved string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.misses.forget(func(m miss) bool { return m == miss{caller.Session, resolved} })
}

// shown is a text with parts of a file in it, as the caller may see it.
func (s *session) shown(caller registry.Caller, text string) string {
	if caller.IsScript() || s.cfg.Redact == nil {
		return text
	}
	return s.cfg.Redact(text)
}

// setDiff puts a diff into the result. JSON holds no bytes that are not
// UTF-8, so such a diff comes twice: to be read, and exact.
func (r *patchResult) setDiff(diff string) {
	if len(diff) > maxDiff {
		r.warn(fmt.Sprintf("The diff is %d bytes long and was left out.", len(diff)))
		return
	}
	r.Diff = diff
	if !utf8.ValidString(diff) {
		r.Diff = strings.ToValidUTF8(diff, "\uFFFD")
		r.DiffBase64 = base64.StdEncoding.EncodeToString([]byte(diff))
	}
}

func (r *patchResult) warn(text string) {
	if text == "" {
		return
	}
	if r.Warning != "" {
		r.Warning += "\n"
	}
	r.Warning += text
}
