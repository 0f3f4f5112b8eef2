package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/walk"
)

// Bounds of one search.
const (
	searchBudget    = 60 * time.Second
	maxSearchLimit  = 10_000  // results of one answer
	maxSearchAround = 50      // lines of context on either side
	maxSearchLines  = 20_000  // of one answer, context included
	maxSearchHits   = 500_000 // files remembered
)

const searchDoc = `Search file contents (target="content") or find files by name (target="files"). Returns dict with "matches".
Content: pattern is a regular expression (RE2: no look-around, no backreferences; \w \d \b are ASCII), matched line by line; the answer is ordered by path and line. output_mode "content" gives the lines ("matches": path, line, content; lines around a match, asked for with context, are marked "context"), "files_only" the paths ("files"), "count" how many lines match in each file ("counts").
Files: pattern is a glob ("*.py", "test_*", "src/**/*.go"; a bare name matches that name in any directory); "files" lists them, the newest first.
Ignored (.gitignore, .ignore), hidden and binary files are left out, unless path or a glob names them. file_glob limits the files looked at. "total_count" is exact unless "total_is_lower_bound" is there; when "truncated" is true, go on at offset=next_offset.`

type searchArgs struct {
	Pattern    string  `json:"pattern" doc:"Regular expression to look for, or glob of names when target is files"`
	Target     string  `json:"target" doc:"Look into files, or for files" enum:"content,files" default:"content"`
	Path       string  `json:"path" doc:"Directory or file to search" default:"."`
	FileGlob   *string `json:"file_glob" doc:"Only files of this name, e.g. *.py; with a leading ! only others"`
	Limit      int     `json:"limit" doc:"How many results at most" default:"50"`
	Offset     int     `json:"offset" doc:"How many results to skip" default:"0"`
	OutputMode string  `json:"output_mode" doc:"What to tell about the files that match" enum:"content,files_only,count" default:"content"`
	Context    int     `json:"context" doc:"Lines to show before and after each match" default:"0"`
}

// searchResult is what search_files returns, in this order of keys. For a
// script the list it asked for is there even when it is empty.
type searchResult struct {
	TotalCount  int             `json:"total_count"`
	LowerBound  bool            `json:"total_is_lower_bound,omitempty"`
	Matches     *[]searchMatch  `json:"matches,omitempty"`
	Files       *[]string       `json:"files,omitempty"`
	Counts      *map[string]int `json:"counts,omitempty"`
	Truncated   bool            `json:"truncated,omitempty"`
	LimitReason string          `json:"limit_reason,omitempty"`
	NextOffset  int             `json:"next_offset,omitempty"`
	Error       string          `json:"error,omitempty"`
	Warning     string          `json:"_warning,omitempty"`
	Hint        string          `json:"hint,omitempty"`
}

type searchMatch struct {
	Path    string `json:"path"`
	Line    int    `json:"line"`
	Content string `json:"content"`
	Context bool   `json:"context,omitempty"`
}

// blockedSearch is the answer to a model that asks the same thing over and over.
type blockedSearch struct {
	Error           string `json:"error"`
	Pattern         string `json:"pattern"`
	AlreadySearched int    `json:"already_searched"`
}

// Why a search ended before it had seen everything; what limit_reason says.
var (
	errSearchTime = errors.New("search_timeout")
	errSearchHits = errors.New("too_many_files")
)

// searcher is search_files bound to a session.
type searcher struct {
	*session
	noRipgrep atomic.Bool   // the box has none
	budget    time.Duration // of one search
	headStart time.Duration // before ripgrep is asked
}

func searchFilesTool(s *session) registry.Tool {
	return (&searcher{session: s, budget: searchBudget, headStart: headStart}).tool()
}

func (t *searcher) tool() registry.Tool {
	tool := registry.New("search_files", "file", searchDoc, t.search)
	tool.Emoji = "🔎"
	return tool
}

// query is a search that is ready to run.
type query struct {
	searchArgs
	caller registry.Caller
	root   string // what is searched, resolved
	single bool   // it is a file
	opt    walk.Options
	globs  []string // the text of opt.Globs
}

func (t *searcher) search(ctx context.Context, caller registry.Caller, in searchArgs) (any, error) {
	if t.box == nil {
		return nil, ErrNoSandbox
	}
	ctx, stop := context.WithTimeoutCause(ctx, t.budget, errSearchTime)
	defer stop()
	q, refusal := t.prepare(ctx, caller, in)
	var result searchResult
	var err error
	switch {
	case refusal != "":
		result.Error = refusal
	case q.Target == "files":
		result, err = t.searchNames(ctx, q)
	default:
		result, err = t.searchContent(ctx, q)
	}
	if cause := context.Cause(ctx); cause != nil && cause != errSearchTime {
		return nil, fmt.Errorf("search_files: %w", cause)
	}
	switch {
	case errors.Is(err, fs.ErrPermission):
		result = searchResult{Error: pathTrouble(in.Path, err).Error()}
	case err != nil:
		result = searchResult{Error: "Search failed: " + err.Error()}
	}
	return t.unlessRepeated(q, result), nil
}

// prepare checks and completes the arguments. A refusal is for the caller.
func (t *searcher) prepare(ctx context.Context, caller registry.Caller, in searchArgs) (q query, refusal string) {
	in.Target = cmp.Or(map[string]string{"grep": "content", "find": "files"}[in.Target], in.Target, "content")
	in.OutputMode = cmp.Or(in.OutputMode, "content")
	in.Path = cmp.Or(in.Path, ".")
	in.Limit = min(max(in.Limit, 1), maxSearchLimit)
	in.Offset = max(in.Offset, 0)
	in.Context = min(max(in.Context, 0), maxSearchAround)
	q = query{searchArgs: in, caller: caller}
	switch {
	case in.Pattern == "":
		return q, "pattern required"
	case in.Target != "content" && in.Target != "files":
		return q, fmt.Sprintf("Unknown target: %s. Use content or files.", clip(in.Target, 80))
	case !slices.Contains([]string{"content", "files_only", "count"}, in.OutputMode):
		return q, fmt.Sprintf("Unknown output_mode: %s. Use content, files_only or count.", clip(in.OutputMode, 80))
	}
	q.opt.Skip = func(name string, _ bool) bool { return t.allowed(name, name, toRead) != nil }
	if in.FileGlob != nil && *in.FileGlob != "" {
		if err := q.only(*in.FileGlob); err != nil {
			return q, "Search failed: file_glob: " + err.Error()
		}
	}
	var err error
	if q.root, err = t.resolve(ctx, in.Path, toRead); err != nil {
		return q, err.Error()
	}
	info, err := t.box.Files().Stat(ctx, q.root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return q, "Path not found: " + in.Path + t.similarPaths(ctx, in.Path, q.root)
	case err != nil:
		return q, pathTrouble(in.Path, err).Error()
	case info.Mode().IsRegular():
		q.single = true
	case !info.IsDir():
		return q, "Search failed: '" + in.Path + "' is neither a file nor a directory"
	}
	return q, ""
}

// only adds a glob that files must fit. One that names hidden files shows them.
func (q *query) only(text string) error {
	text = strings.TrimPrefix(text, "./")
	g, err := walk.ParseGlob(text)
	if err != nil {
		return err
	}
	q.opt.Globs, q.globs = append(q.opt.Globs, g), append(q.globs, text)
	q.opt.Hidden = q.opt.Hidden || g.Hidden()
	return nil
}

// show is a found path as the caller would write it.
func (q *query) show(rel string) string {
	if q.single {
		return q.Path
	}
	from := q.Path
	for strings.HasPrefix(from, "./") {
		from = strings.TrimLeft(from[2:], "/")
	}
	switch from {
	case "", ".":
		return rel
	case "~":
		return "~/" + rel
	}
	return strings.TrimSuffix(from, "/") + "/" + rel
}

// similarPaths names what is beside a path that does not exist and is called
// like it.
func (t *searcher) similarPaths(ctx context.Context, name, resolved string) string {
	dir, base := path.Dir(resolved), path.Base(resolved)
	entries, err := t.box.Files().ReadDir(ctx, dir)
	if err != nil {
		return ""
	}
	prefix := name[:strings.LastIndexByte(strings.TrimRight(name, "/"), '/')+1]
	var names []string
	for _, e := range entries[:min(len(entries), maxSimilarScan)] {
		if similarity(base, e.Name()) > 0 && t.allowed("", path.Join(dir, e.Name()), toRead) == nil {
			names = append(names, prefix+e.Name())
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return ". Similar paths: " + strings.Join(names[:min(len(names), maxSimilar)], ", ")
}
