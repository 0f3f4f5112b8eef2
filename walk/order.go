package walk

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"
)

// Order is a walk or a search that another process makes where the files are:
// Run does it there, Results reads here what it found.
type Order struct {
	Root     string   `json:"root"`
	Pattern  *string  `json:"pattern,omitempty"` // what to count in files; nil: find files
	Globs    []string `json:"globs,omitempty"`
	Hidden   bool     `json:"hidden,omitempty"`
	NoIgnore bool     `json:"no_ignore,omitempty"`
	MaxDepth int      `json:"max_depth,omitempty"`
}

// result is one line of Run's output: a file, or, as the last one, how it went.
// Paths are bytes because not all are UTF-8.
type result struct {
	Path  []byte     `json:"path,omitempty"`
	Count int        `json:"count,omitempty"`
	MTime *time.Time `json:"mtime,omitempty"`
	End   *Stats     `json:"end,omitempty"`
	Error string     `json:"error,omitempty"`
}

// maxOrder bounds an order, maxResult a line of the answer.
const (
	maxOrder  = 256 << 10
	maxResult = 64 << 10

	flushEvery = 20 * time.Millisecond
)

// Run reads one Order, one JSON object, and writes what it finds to out as it
// finds it: a JSON object a line. That the order cannot be carried out is the
// last line too; the error is about in and out.
func Run(ctx context.Context, fsys FS, in io.Reader, out io.Writer) error {
	var o Order
	d := json.NewDecoder(io.LimitReader(in, maxOrder))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return fmt.Errorf("walk: order: %w", err)
	}
	w := &resultWriter{out: bufio.NewWriterSize(out, 32<<10)}
	var cancel context.CancelCauseFunc
	ctx, cancel = context.WithCancelCause(ctx)
	defer cancel(nil)
	w.failed = cancel
	stats, err := o.run(ctx, fsys, w)
	last := result{End: &stats}
	if err != nil {
		last.Error = err.Error()
	}
	w.put(last)
	return errors.Join(w.err, w.out.Flush())
}

func (o *Order) run(ctx context.Context, fsys FS, w *resultWriter) (Stats, error) {
	opt := Options{Hidden: o.Hidden, NoIgnore: o.NoIgnore, MaxDepth: o.MaxDepth}
	for _, text := range o.Globs {
		g, err := ParseGlob(text)
		if err != nil {
			return Stats{}, err
		}
		opt.Globs = append(opt.Globs, g)
	}
	if o.Pattern != nil {
		p, err := Compile(*o.Pattern)
		if err != nil {
			return Stats{}, err
		}
		return Search(ctx, fsys, o.Root, opt, p, func(h Hit) { w.put(result{Path: []byte(h.Path), Count: h.Count}) })
	}
	return Walk(ctx, fsys, o.Root, opt, func(e Entry) error {
		if info, err := e.Info(); err == nil { // else it has gone meanwhile
			mtime := info.ModTime()
			w.put(result{Path: []byte(e.Path), MTime: &mtime})
		}
		return nil
	})
}

// resultWriter writes results, one at a time, and stops the walk when nobody
// reads them.
type resultWriter struct {
	mu      sync.Mutex
	out     *bufio.Writer
	flushed time.Time
	err     error
	failed  context.CancelCauseFunc
}

func (w *resultWriter) put(r result) {
	line, err := json.Marshal(r)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		_, w.err = w.out.Write(append(line, '\n'))
	}
	// What was found shall not be lost when the walk is ended early.
	if now := time.Now(); w.err == nil && now.Sub(w.flushed) > flushEvery {
		w.flushed, w.err = now, w.out.Flush()
	}
	if w.err != nil {
		w.failed(w.err)
	}
}

// Found is what Results hands on: of a search the lines that match, of a walk
// when the file was changed.
type Found struct {
	Hit
	ModTime time.Time
}

// ErrOrder is the error of an order that could not be carried out.
var ErrOrder = errors.New("walk: the order failed")

// Results reads Run's output and calls fn for what a walk here would have
// found; opt.Globs and opt.Skip are heeded on this side. Errors other than
// ErrOrder are those of r and of output that is not Run's; what fn got until
// then is right.
func Results(r io.Reader, root string, opt Options, fn func(Found)) (Stats, error) {
	in := bufio.NewReaderSize(r, maxResult)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF // there is always a last line
			}
			return Stats{}, fmt.Errorf("walk: results: %w", err)
		}
		var got result
		if err := json.Unmarshal(line, &got); err != nil {
			return Stats{}, fmt.Errorf("walk: results: %w", err)
		}
		switch {
		case got.Error != "":
			return Stats{}, fmt.Errorf("%w: %.200s", ErrOrder, got.Error)
		case got.End != nil:
			return *got.End, nil
		case got.Count < 0 || (got.Count == 0) == (got.MTime == nil) || !fs.ValidPath(validName(string(got.Path))) || string(got.Path) == ".":
			return Stats{}, fmt.Errorf("walk: results: cannot make sense of %.100q", line)
		}
		found := Found{Hit: Hit{Path: string(got.Path), Count: got.Count}}
		if got.MTime != nil {
			found.ModTime = *got.MTime
		}
		if opt.admits(root, found.Path) {
			fn(found)
		}
	}
}
