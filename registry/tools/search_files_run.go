package tools

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/walk"
)

// searchWorkers is how many files are open at once when we search ourselves: on
// a far box waiting, not computing, takes the time.
const searchWorkers = 8

// boxFS is a box's files as a walk sees them.
type boxFS struct{ sandbox.Files }

func (b boxFS) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	return b.Files.Open(ctx, name)
}

func (b boxFS) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	return b.Files.ReadDir(ctx, name)
}

// found is what a search came to know before the page is cut.
type found struct {
	hits       []walk.Hit // ordered by path
	unreadable bool       // not all could be read
	limit      error      // why it is not all; nil when it is
}

// searchContent counts the lines that match in every file first, which is
// quick and gives exact totals and a stable order; then it cuts the page out of
// the few files the page is about.
func (t *searcher) searchContent(ctx context.Context, q query) (searchResult, error) {
	p, err := walk.Compile(q.Pattern)
	if err != nil {
		return searchResult{}, err
	}
	var all found
	var binary bool
	if q.single {
		all, binary, err = t.countOne(ctx, q, p)
	} else {
		// A part of the budget is left for cutting the page.
		counting, stop := context.WithTimeoutCause(ctx, t.budget*9/10, errSearchTime)
		all, err = t.countAll(counting, q, p)
		stop()
	}
	if err != nil {
		return searchResult{}, err
	}
	slices.SortFunc(all.hits, func(a, b walk.Hit) int { return cmp.Compare(a.Path, b.Path) })
	result, err := t.page(ctx, q, p, all)
	if binary {
		result.Hint = "'" + q.Path + "' is a binary file: there are no lines to search."
	}
	return result, err
}

func (t *searcher) countOne(ctx context.Context, q query, p *walk.Pattern) (all found, binary bool, err error) {
	f, err := t.box.Files().Open(ctx, q.root)
	if err != nil {
		return all, false, pathTrouble(q.Path, err)
	}
	defer f.Close()
	n, err := p.Count(ctx, f)
	switch {
	case errors.Is(err, walk.ErrBinary):
		return all, true, nil
	case n > 0:
		all.hits = []walk.Hit{{Count: n}}
	}
	if all, err = all.ended(ctx, err); err != nil {
		err = pathTrouble(q.Path, err)
	}
	return all, false, err
}

// headStart is how long we search ourselves before ripgrep is started. Most
// searches are over by then, sooner than a process has begun; for the others
// the box's own program, near its files, is worth the start.
const headStart = 30 * time.Millisecond

var errHeadStart = errors.New("the head start is over")

// countAll counts in all files: ourselves while that is quick, else by a
// program near the files, ripgrep or the guest, if the box has one. All ways
// give the same answer.
func (t *searcher) countAll(ctx context.Context, q query, p *walk.Pattern) (found, error) {
	args, ok := walk.Ripgrep(p, q.root, q.opt)
	ok = ok && !t.noRipgrep.Load()
	if !ok && !t.hasGuest() {
		return t.countOurselves(ctx, q, p)
	}
	if t.headStart > 0 {
		quick, stop := context.WithTimeoutCause(ctx, t.headStart, errHeadStart)
		all, err := t.countOurselves(quick, q, p)
		over := context.Cause(quick) == errHeadStart
		stop()
		if err == nil || !over {
			return all, err
		}
	}
	if ok {
		if all, ok := t.ripgrep(ctx, q, args); ok {
			return all, nil
		}
	}
	if all, ok := t.guestCount(ctx, q); ok {
		return all, nil
	}
	return t.countOurselves(ctx, q, p)
}

func (t *searcher) countOurselves(ctx context.Context, q query, p *walk.Pattern) (all found, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	q.opt.Workers = searchWorkers
	stats, err := walk.Search(ctx, boxFS{t.box.Files()}, q.root, q.opt, p, all.add(stop))
	all.unreadable = stats.Unreadable > 0
	return all.ended(ctx, err)
}

// add collects hits, and stops the search when they are too many.
func (f *found) add(stop context.CancelCauseFunc) func(walk.Hit) {
	return func(h walk.Hit) {
		if len(f.hits) == maxSearchHits {
			stop(errSearchHits)
			return
		}
		f.hits = append(f.hits, h)
	}
}

// ended tells an early end that keeps what was found from an error.
func (f found) ended(ctx context.Context, err error) (found, error) {
	if cause := context.Cause(ctx); err != nil && (cause == errSearchTime || cause == errSearchHits) {
		f.limit, err = cause, nil
	}
	return f, err
}

// ripgrep runs the box's ripgrep; ok is false when there is none, or when it
// did not do what is expected of it: then the search is up to us.
func (t *searcher) ripgrep(ctx context.Context, q query, args []string) (all found, ok bool) {
	var err error
	exit, complained, lost := t.near(ctx, sandbox.Cmd{Args: append([]string{"rg"}, args...), Env: t.cfg.Env}, func(ctx context.Context, out io.Reader, stop context.CancelCauseFunc) error {
		err = walk.RipgrepHits(ctx, out, boxFS{t.box.Files()}, q.root, q.opt, all.add(stop))
		return err
	}, &all)
	if errors.Is(lost, fs.ErrNotExist) {
		t.noRipgrep.Store(true)
	}
	if all.limit != nil {
		return all, true
	}
	// 0: found, 1: found nothing, 2: could not read everything, or, and then it
	// says why, did not even try.
	if err != nil || lost != nil || exit.Signal != 0 || exit.Code > 2 || exit.Code < 0 || complained {
		return found{}, false
	}
	all.unreadable = exit.Code == 2
	return all, true
}

// near runs a program in the box and has its output read. When read returns an
// error, or calls stop, the program is ended. all.limit tells if the search was
// ended early.
func (t *searcher) near(ctx context.Context, cmd sandbox.Cmd, read func(context.Context, io.Reader, context.CancelCauseFunc) error, all *found) (exit sandbox.Exit, complained bool, lost error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out, in := io.Pipe()
	stderr := &flag{}
	cmd.Stdout, cmd.Stderr, cmd.Grace = in, stderr, time.Second
	proc, err := t.box.Start(ctx, cmd)
	if err != nil {
		return exit, false, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		exit, lost = proc.Wait()
		in.Close()
	}()
	err = read(ctx, out, stop)
	out.CloseWithError(io.ErrClosedPipe)
	if err != nil {
		stop(err)
	}
	<-ended
	*all, _ = all.ended(ctx, ctx.Err())
	return exit, stderr.raised(), lost
}

// flag is a writer that only remembers whether anything was written.
type flag struct {
	mu sync.Mutex
	up bool
}

func (f *flag) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.up = f.up || len(p) > 0
	return len(p), nil
}

func (f *flag) raised() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up
}

// result begins an answer with what is true of all pages.
func (f found) result(total int) searchResult {
	r := searchResult{TotalCount: total}
	if f.limit != nil {
		r.LowerBound, r.Truncated, r.LimitReason = true, true, f.limit.Error()
		r.Hint = "The search ended before it had seen everything. Narrow path, file_glob or pattern."
	}
	if f.unreadable {
		r.Warning = "Some files or directories could not be read and were not searched."
	}
	return r
}
