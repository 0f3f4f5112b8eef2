package tools

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// maxRaw bounds the page a script gets, in bytes. It is what a frame of the
// wire can hold, and keeps a file of one endless line out of our memory.
const maxRaw = 16 << 20

const readDoc = `Read a file (1-indexed lines). Returns dict with "content" and "total_lines".
Long files are read in pages: ask for the lines from offset on, at most limit of them. When there is more, "truncated" is true and "hint" says where to go on. Lines come as "N|text", very long ones cut; other encodings than UTF-8 are recognised and named in "encoding"; the text of notebooks, Word, Excel and PDF files is extracted. Reading the same unchanged region again returns a note instead of the text.
A script gets the exact text of those lines instead, with no numbers, cuts or repeats withheld, and limit=0 reads to the end; a file that is not UTF-8 comes with encoding "base64", the page's bytes encoded.`

type readArgs struct {
	Path   string `json:"path" doc:"File to read: absolute, relative to the working directory, or ~/…"`
	Offset int    `json:"offset" doc:"First line, counted from 1" default:"1" min:"1"`
	Limit  int    `json:"limit" doc:"How many lines at most" default:"500" max:"2000"`
}

// readResult is what read_file returns, in this order of keys. An error leaves
// the others zero.
type readResult struct {
	Content    string   `json:"content"`
	TotalLines int      `json:"total_lines"`
	FileSize   int64    `json:"file_size"`
	Truncated  bool     `json:"truncated"`
	Hint       string   `json:"hint,omitempty"`
	IsBinary   bool     `json:"is_binary"`
	IsImage    bool     `json:"is_image"`
	Encoding   string   `json:"encoding,omitempty"`
	Extracted  bool     `json:"extracted_document,omitempty"`
	SizeHint   string   `json:"_hint,omitempty"`
	Warning    string   `json:"_warning,omitempty"`
	Error      string   `json:"error,omitempty"`
	Similar    []string `json:"similar_files,omitempty"`
}

// AppendJSON is what encoding/json would give, many times as fast for a long
// content.
func (r readResult) AppendJSON(dst []byte) []byte {
	content := r.Content
	r.Content = ""
	var rest bytes.Buffer
	e := json.NewEncoder(&rest)
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		panic(err) // strings, numbers and bools always have a JSON form
	}
	const key = `{"content":`
	dst = slices.Grow(dst, len(content)+len(content)/16+rest.Len())
	dst = registry.AppendString(append(dst, key...), content)
	return append(dst, bytes.TrimSuffix(rest.Bytes()[len(key+`""`):], []byte{'\n'})...)
}

// unchangedResult says that the caller has the text already.
type unchangedResult struct {
	Status   string `json:"status"`
	Message  string `json:"message"`
	Path     string `json:"path"`
	Dedup    bool   `json:"dedup"`
	Returned bool   `json:"content_returned"`
}

const unchangedText = "File unchanged since last read. What the earlier read_file call returned is still what the file holds; use that."

// refusedRead is an error with what the caller needs to ask better.
type refusedRead struct {
	Error       string `json:"error"`
	Path        string `json:"path"`
	AlreadyRead int    `json:"already_read,omitempty"`
	TotalLines  *int   `json:"total_lines,omitempty"`
	FileSize    *int64 `json:"file_size,omitempty"`
}

func readFileTool(s *session) registry.Tool {
	t := registry.New("read_file", "file", readDoc, s.readFile)
	t.Emoji = "📖"
	return t
}

func (s *session) readFile(ctx context.Context, caller registry.Caller, in readArgs) (any, error) {
	resolved, err := s.resolve(ctx, in.Path, toRead)
	if errors.Is(err, ErrNoSandbox) {
		return nil, err
	}
	if err != nil {
		return readResult{Error: err.Error()}, nil
	}
	ext := strings.ToLower(path.Ext(resolved))
	if !caller.IsScript() && (hasExt(binaryExts, ext) || hasExt(imageExts, ext)) {
		return binaryResult(in.Path, ext), nil
	}
	file, err := s.box.Files().Open(ctx, resolved)
	if err != nil {
		return s.openFailed(ctx, in.Path, resolved, err), nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return readResult{Error: pathTrouble(in.Path, err).Error()}, nil
	}
	in.Offset = max(in.Offset, 1)
	var result any
	if caller.IsScript() {
		result, err = s.readRaw(ctx, caller, in, resolved, file, info)
	} else {
		result, err = s.readView(ctx, caller, in, resolved, file, info)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("read_file: %w", context.Cause(ctx))
		}
		return readResult{Error: pathTrouble(in.Path, err).Error()}, nil
	}
	return result, nil
}

// errTooMuch ends the reading of a page that is too large for anybody.
var errTooMuch = errors.New("page too large")

// readRaw is what a script gets: the bytes of the lines it asked for.
func (s *session) readRaw(ctx context.Context, caller registry.Caller, in readArgs, resolved string, file sandbox.File, info fs.FileInfo) (any, error) {
	var page strings.Builder
	if in.Limit <= 0 {
		page.Grow(int(min(info.Size(), maxRaw)))
	}
	found, err := scan(ctx, file, info.Size(), in.Offset, lastLine(in), func(p []byte) error {
		if page.Len()+len(p) > maxRaw {
			return errTooMuch
		}
		page.Write(p)
		return nil
	})
	if errors.Is(err, errTooMuch) {
		return readResult{
			FileSize: info.Size(),
			Error:    fmt.Sprintf("These lines hold more than %d MiB; ask for fewer, or open() the file.", maxRaw>>20),
		}, nil
	}
	if err != nil {
		return nil, err
	}
	out := readResult{Content: page.String(), TotalLines: found.lines, FileSize: found.bytes}
	out.paging(in)
	if !found.utf8 {
		out.Content = base64.StdEncoding.EncodeToString([]byte(out.Content))
		out.Encoding, out.IsBinary = "base64", true
		out.IsImage = hasExt(imageExts, path.Ext(resolved))
	}
	s.reads.saw(caller.Session, view{resolved, in.Offset, in.Limit}, stampOf(info), in.Offset > 1 || out.Truncated, false)
	return out, nil
}

// readView is what a reader gets: numbered, cut, capped, redacted.
func (s *session) readView(ctx context.Context, caller registry.Caller, in readArgs, resolved string, file sandbox.File, info fs.FileInfo) (any, error) {
	in.Limit = min(max(in.Limit, 1), s.cfg.MaxLines)
	model := caller.Kind != registry.Shell
	seen, now := view{resolved, in.Offset, in.Limit}, stampOf(info)
	if model {
		if times, same := s.reads.unchanged(caller.Session, seen, now); times > 1 {
			return blockedRead(in.Path, times+1), nil
		} else if same {
			return unchangedResult{Status: "unchanged", Message: unchangedText, Path: in.Path, Dedup: true}, nil
		}
	}
	out, chars, err := s.render(ctx, in, resolved, file, info.Size())
	if err != nil || out.Error != "" {
		return out, err
	}
	if chars > s.cfg.MaxReadChars {
		return refusedRead{
			Error: fmt.Sprintf("Read produced %d characters which exceeds the safety limit (%d). "+
				"Ask for fewer lines with offset and limit; the file has %d.", chars, s.cfg.MaxReadChars, out.TotalLines),
			Path: in.Path, TotalLines: &out.TotalLines, FileSize: &out.FileSize,
		}, nil
	}
	if model {
		switch times := s.reads.repeat(caller.Session, seen); {
		case times >= 4:
			return blockedRead(in.Path, times), nil
		case times == 3:
			out.Warning = fmt.Sprintf("This is read_file call %d in a row for this exact region. Use what it returned.", times)
		}
	}
	if out.Truncated && info.Size() > 512_000 && in.Limit > 200 {
		out.SizeHint = fmt.Sprintf("This file is large (%d bytes). search_files finds the lines that matter; a smaller limit saves context.", info.Size())
	}
	s.reads.saw(caller.Session, seen, now, in.Offset > 1 || out.Truncated, model)
	return out, nil
}

// render makes the view of a page and counts its characters.
func (s *session) render(ctx context.Context, in readArgs, resolved string, file sandbox.File, size int64) (out readResult, chars int, err error) {
	ext := strings.ToLower(path.Ext(resolved))
	if isDocument(ext) {
		if text, err := extractText(ctx, ext, file, size); err == nil {
			return s.renderText(ctx, in, text, size)
		} else if ctx.Err() != nil {
			return out, 0, err
		} // not what its name says: look at the bytes
	}
	head := make([]byte, min(size, sniffSize))
	n, err := file.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return out, 0, err
	}
	if bytes.HasPrefix(head[:n], []byte("%PDF-")) {
		text, err := pdfText(ctx, file, size)
		if ctx.Err() != nil {
			return out, 0, err
		} else if err != nil {
			return readResult{FileSize: size, IsBinary: true, Error: "Cannot read '" + in.Path + "' as text: " + err.Error() + "."}, 0, nil
		}
		return s.renderText(ctx, in, text, size)
	}
	form := sniff(head[:n])
	if form.binary {
		return readResult{FileSize: size, IsBinary: true, IsImage: hasExt(imageExts, ext),
			Error: "Binary file - cannot display as text. Use the terminal to inspect '" + in.Path + "'."}, 0, nil
	}
	chars, err = s.number(ctx, in, file, size, form, &out)
	if errors.Is(err, errNotUTF8) { // only somewhere further down
		sample := make([]byte, sniffSize)
		n, _ := file.ReadAt(sample, out.FileSize)
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return out, 0, err
		}
		out = readResult{}
		chars, err = s.number(ctx, in, file, size, legacy(sample[:n]), &out)
	}
	return out, chars, err
}

// renderText makes the view of what was extracted from a file of some size.
func (s *session) renderText(ctx context.Context, in readArgs, text string, size int64) (out readResult, chars int, err error) {
	chars, err = s.number(ctx, in, strings.NewReader(text), int64(len(text)), textForm{}, &out)
	out.Extracted, out.FileSize = true, size
	return out, chars, err
}

// errNotUTF8 comes with the place in FileSize.
var errNotUTF8 = errors.New("not UTF-8")

// number fills in a page of a text.
func (s *session) number(ctx context.Context, in readArgs, text io.Reader, size int64, form textForm, out *readResult) (chars int, err error) {
	v := numbered{maxLine: s.cfg.MaxLineLength, maxChars: s.cfg.MaxReadChars, redact: s.cfg.Redact, line: in.Offset}
	found, err := scan(ctx, form.reader(text), size, in.Offset, lastLine(in), v.write)
	if err != nil {
		return 0, err
	}
	if !found.utf8 && form.codec == nil {
		out.FileSize = max(found.badAt, 0)
		return 0, errNotUTF8
	}
	v.close()
	out.Content, out.TotalLines, out.FileSize, out.Encoding = v.out.String(), found.lines, size, form.name
	if s.cfg.Redact != nil {
		out.Content = s.cfg.Redact(out.Content)
	}
	out.paging(in)
	if in.Offset > max(found.lines, 1) {
		out.Error, out.Hint = out.Hint, ""
	}
	return v.chars, nil
}

// lastLine is the number of the page's last line, 0 for that of the file.
func lastLine(in readArgs) int {
	if in.Limit <= 0 || in.Offset > math.MaxInt-in.Limit {
		return 0
	}
	return in.Offset + in.Limit - 1
}

// paging says what there is beyond the page.
func (r *readResult) paging(in readArgs) {
	last := lastLine(in)
	switch {
	case in.Offset > max(r.TotalLines, 1):
		r.Hint = fmt.Sprintf("offset %d is past the end: the file has %d lines.", in.Offset, r.TotalLines)
	case last > 0 && r.TotalLines > last:
		r.Truncated = true
		r.Hint = fmt.Sprintf("Use offset=%d to continue reading (showing %d-%d of %d lines)", last+1, in.Offset, last, r.TotalLines)
	}
}

func binaryResult(name, ext string) readResult {
	return readResult{
		IsBinary: true, IsImage: hasExt(imageExts, ext),
		Error: "Cannot read binary file '" + name + "' (" + ext + "). Use vision_analyze for images, or terminal to inspect binary files.",
	}
}

func blockedRead(name string, times int) refusedRead {
	return refusedRead{
		Error: fmt.Sprintf("BLOCKED: You have called read_file on this exact region %d times and its content has not been returned again: "+
			"you have it. Go on with the task.", times),
		Path: name, AlreadyRead: times,
	}
}

// openFailed explains why there is nothing to read.
func (s *session) openFailed(ctx context.Context, name, resolved string, err error) readResult {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return readResult{Error: "File not found: " + name, Similar: s.similarFiles(ctx, name, resolved)}
	case errors.Is(err, sandbox.ErrNotRegular):
		if info, serr := s.box.Files().Stat(ctx, resolved); serr == nil && info.IsDir() {
			return readResult{Error: "'" + name + "' is a directory, not a file. search_files with target=\"files\" lists what is in it."}
		}
		return readResult{Error: deviceError(name, resolved, toRead).Error()}
	}
	return readResult{Error: pathTrouble(name, err).Error()}
}
