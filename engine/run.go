package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/output"
	"github.com/hermes-exec/hermes-exec/rpc"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Script is one script to run.
type Script struct {
	Code string
	Args []string // sys.argv[1:]

	// Stdout and Stderr get the live stream, redacted and not capped; nil for
	// none. A writer that fails is not written to again; the run goes on. One
	// that blocks holds the script up, but not a timeout or an interrupt: soon
	// after the grace it is given up.
	Stdout, Stderr io.Writer
	// OnCall is told of each finished tool call, from the goroutine that
	// served it.
	OnCall func(ToolCall)

	// OnHeartbeat is told every 10 s that the script still runs, so that
	// whoever watches for inactivity does not give up on it.
	OnHeartbeat func(message string)

	Interpreter string // "" lets the session's mode choose
	Limits      Limits // zero fields mean the engine's
}

// Run runs a script to its end. When ctx is done the script is interrupted:
// SIGTERM to the whole tree, SIGKILL after the grace; the context's cause is
// named in the output.
//
// The Result is about the script. The error is about the engine: the session
// is closed, there is no interpreter, the scratch directory cannot be written.
// Even then the Result is a valid one, of status error.
func (s *Session) Run(ctx context.Context, script Script) (Result, error) {
	start := time.Now()
	r, err := s.run(ctx, script)
	if err != nil {
		r.Status, r.Error = Failed, err.Error()
	}
	r.DurationSeconds = seconds(time.Since(start))
	if r.Enforcement == nil { // there was no place for it
		s.current().describe(&r)
	}
	r.Warnings = append(s.Warnings(), r.Warnings...)
	if why := s.current().unguarded(); why != "" {
		r.Warnings = append(r.Warnings, s.engine.redact(why))
	}
	r.Error = s.engine.redact(r.Error)
	return r, err
}

func (s *Session) run(ctx context.Context, script Script) (r Result, err error) {
	done, err := s.enter()
	if err != nil {
		return r, err
	}
	defer done()
	limits := s.engine.limits(script.Limits)
	if err := limits.check(); err != nil {
		return r, fmt.Errorf("run: %w", err)
	}
	limits = limits.withDefaults()
	if err := checkCode(script.Code, limits.Code); err != nil {
		return r, err
	}

	// One context for all of the run: the caller's end, the session's end, the
	// timeout and the script's own end each cancel it with a cause. The first
	// three also cancel the one above it.
	stopped, interrupt := context.WithCancelCause(ctx)
	defer interrupt(errRunOver)
	defer context.AfterFunc(s.ctx, func() { interrupt(context.Cause(s.ctx)) })()
	ctx, cancel := context.WithCancelCause(stopped)
	defer cancel(errRunOver)
	started := false
	defer func() { // stopped before the script began: that is no failure of ours
		cause := or(context.Cause(stopped), context.Cause(s.ctx)) // the second may not have reached the first yet
		if err != nil && !started && cause != nil {
			r.stop(cause, limits.Timeout)
			err = nil
		}
	}()

	run := "run-" + strconv.FormatInt(s.runs.Add(1), 10)
	p, st, calls, err := s.prepare(ctx, script, run, &r)
	if err != nil {
		return r, err
	}
	remove := sync.OnceValue(func() error { return st.remove(ctx) })
	defer func() {
		if e := remove(); e != nil && !p.isLost() {
			r.Warnings = append(r.Warnings, "scratch directory not removed: "+e.Error())
		}
	}()

	dir := p.info.WorkDir
	if s.mode == Strict {
		dir = st.dir
	}
	g := &gate{
		place: p, run: run, granted: s.granted, max: int64(limits.MaxToolCalls), ctx: ctx, onCall: script.OnCall,
		cwd: dir, scratch: st.dir, timeout: limits.Timeout, deadline: time.Now().Add(limits.Timeout),
	}
	server, way, err := p.serve(ctx, g, limits.Frame, st.dir, calls)
	if err != nil {
		return r, err
	}
	defer server.Close()

	over, hold := patience(stopped, limits.Grace+livePatience)
	defer hold()
	stdout := s.engine.capture(limits.Stdout, script.Stdout, over)
	stderr := s.engine.capture(limits.Stderr, script.Stderr, over)
	defer stdout.close()
	defer stderr.close()
	began := time.Now()
	clock := time.AfterFunc(time.Until(g.deadline), func() { interrupt(errTimeout) })
	defer clock.Stop()
	proc, err := p.box.Start(ctx, sandbox.Cmd{
		Args:   append([]string{r.Interpreter, st.script()}, script.Args...),
		Dir:    dir,
		Env:    p.scriptEnv(st.dir, way),
		Stdout: stdout, Stderr: stderr,
		Grace: limits.Grace,
	})
	if err != nil {
		return r, fmt.Errorf("run: start %s: %w", r.Interpreter, err)
	}
	started = true
	go p.tools() // nobody needs them before the interpreter is up
	if script.OnHeartbeat != nil {
		go heartbeat(proc.Exited(), script.OnHeartbeat)
	}
	<-proc.Exited()
	cause := context.Cause(ctx) // before the deferred ends add their own
	clock.Stop()
	server.Stop() // calls of what the script left behind are refused
	exit, err := proc.Wait()
	audited := p.audit(ctx, began)
	server.Close()
	cancel(errRunOver)
	remove() // while others are at the audit

	r.ToolCallsMade, r.ToolCalls = int(g.made.Load()), g.ledger()
	r.StdoutBytes, r.StderrBytes = stdout.window.Total(), stderr.window.Total()
	out, outCut := stdout.finish()
	errText, errCut := stderr.finish()
	r.Truncated = outCut || errCut
	r.StdoutLost, r.StderrLost = stdout.lost, stderr.lost
	audited(&r)
	if err != nil {
		// What the script printed survives the loss of its supervisor.
		r.Output, r.Stderr = out, errText
		p.lostWith(err) // so that the next run knows
		return r, fmt.Errorf("run: %w", err)
	}
	r.Usage = Usage{
		CPUSeconds:  seconds(exit.Usage.User + exit.Usage.System),
		WallSeconds: seconds(exit.Usage.Wall),
		MaxRSSBytes: exit.Usage.MaxRSS,

		PeakMemoryBytes: exit.Usage.MaxMemory,
	}
	r.Limit = exit.Limit
	r.settle(exit, cause, limits.Timeout, out, errText)
	r.Denials = p.denials(ctx, p.complaints(errText, out, dir, g.complaints()))
	return r, nil
}

// prepare chooses the place and the interpreter of a run, stages it and has a
// socket made for its calls. A place that turns out to have been lost unnoticed
// gives way to a new one: nothing of the script has begun.
func (s *Session) prepare(ctx context.Context, script Script, run string, r *Result) (p *place, st *stage, calls socket, err error) {
	var news []string
	for range 2 {
		if p, err = s.take(ctx); err != nil {
			return nil, nil, calls, err
		}
		p.describe(r)
		news = append(news, p.tell()...)
		listening := listen(ctx, p.box)
		var stageErr error
		choice := p.choice(script.Interpreter)
		stage := func() { st, stageErr = newStage(ctx, p.box, run, p.module(), script.Code, choice) }
		var staged sync.WaitGroup
		if _, one := p.box.Files().(sandbox.Stager); s.elsewhere && !one { // each answer is a round trip away
			staged.Go(stage)
		} else { // to wake another thread takes longer
			stage()
		}
		var python interpreter
		python, err = choice.interpreter(ctx)
		r.Interpreter, r.Warnings = python.path, append(news, python.warnings...)
		staged.Wait()
		calls = listening()
		if err == nil {
			err = stageErr
		}
		if err == nil {
			err = calls.err
		}
		if err == nil {
			break
		}
		calls.close()
		if stageErr == nil {
			_ = st.remove(ctx) // nothing to tell, next to the other
		}
		if !p.lostWith(err) {
			break
		}
	}
	return p, st, calls, err
}

// socket is what the calls of a run come to.
type socket struct {
	net.Listener // nil where the box can have none
	path         string
	err          error
}

// listen begins to have a socket made, which the function it returns waits for.
func listen(ctx context.Context, box sandbox.Sandbox) (wait func() socket) {
	made := func(l net.Listener, path string, err error) socket {
		switch {
		case errors.Is(err, sandbox.ErrUnsupported):
			return socket{}
		case err != nil:
			return socket{err: fmt.Errorf("run: tool socket: %w", err)}
		}
		return socket{Listener: l, path: path}
	}
	if begin, ok := box.(sandbox.Listening); ok {
		listening := begin.BeginListen(ctx)
		return func() socket { return made(listening()) }
	}
	listening := make(chan socket, 1)
	go func() { listening <- made(box.Listen(ctx)) }()
	return func() socket { return <-listening }
}

func (s socket) close() {
	if s.Listener != nil {
		s.Listener.Close()
	}
}

// serve answers the run's calls: on a socket, or where the box can have none, in
// a directory of scratch. way is what tells the script.
func (p *place) serve(ctx context.Context, g *gate, frame int, scratch string, calls socket) (server *rpc.Server, way []string, err error) {
	token, log := rpc.NewToken(), p.session.engine.cfg.Log
	server, err = rpc.NewServer(rpc.Config{
		Token: token, Handler: g.handle, MaxFrame: frame, PeerUID: p.info.UID, Log: log,
		Bulky: func(tool string) bool { return tool == "read_file" || tool == "search_files" }, // long and at once
	})
	if err != nil {
		calls.close()
		return nil, nil, fmt.Errorf("run: %w", err)
	}
	serve, way := func() error { return server.Serve(calls.Listener) }, []string{"HERMES_RPC_SOCKET=" + calls.path}
	if calls.Listener == nil {
		dir := callDir{files: p.box.Files(), name: path.Join(scratch, "calls")}
		if err := dir.files.Mkdir(ctx, dir.name, 0o700); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("run: directory of tool calls: %w", err), server.Close())
		}
		serve, way = func() error { return server.ServePoll(ctx, dir) }, []string{"HERMES_RPC_SOCKET=", "HERMES_RPC_DIR=" + dir.name}
	}
	go func() {
		// With the run's end what it serves on is closed under it.
		if err := serve(); err != nil && ctx.Err() == nil {
			log.Warn("tool calls are no longer served", "run", g.run, "error", err)
		}
	}()
	return server, append(way, "HERMES_RPC_TOKEN="+token), nil
}

func (e *Engine) limits(over Limits) Limits {
	base := e.cfg.Limits
	return Limits{
		Timeout:      or(over.Timeout, base.Timeout),
		MaxToolCalls: or(over.MaxToolCalls, or(base.MaxToolCalls, NoToolCalls)),
		Stdout:       or(over.Stdout, base.Stdout),
		Stderr:       or(over.Stderr, base.Stderr),
		Frame:        or(over.Frame, base.Frame),
		Code:         or(over.Code, base.Code),
		Grace:        or(over.Grace, base.Grace),
	}
}

// ErrNoCode is returned for a script without code.
//
//lint:ignore ST1005 the wording agents know
var ErrNoCode = errors.New("No code provided.")

func checkCode(code string, limit int) error {
	if strings.TrimSpace(code) == "" {
		return ErrNoCode
	}
	if len(code) > limit {
		return fmt.Errorf("run: the script has %d bytes, the limit is %d: put the data in a file and read it from there", len(code), limit)
	}
	if offset, line, bad := invalidUTF8(code); bad {
		return fmt.Errorf("run: the script is not UTF-8: byte %d (line %d) is 0x%02x", offset, line, code[offset])
	}
	if i := strings.IndexByte(code, 0); i >= 0 {
		return fmt.Errorf("run: the script has a NUL byte at %d (line %d): Python cannot read it", i, 1+strings.Count(code[:i], "\n"))
	}
	return nil
}

func (e *Engine) redact(text string) string {
	if e.redactor == nil {
		return text
	}
	return e.redactor.Redact(text)
}

// capture is one output stream: a window for the result and, for a live
// writer, the redacted stream.
type capture struct {
	window   *output.Window
	redactor *output.Redactor
	live     io.WriteCloser // nil without one, or after it failed
	out      io.Closer      // what live writes to, or nil
	lost     error          // why live failed
}

// capture keeps 40 % of limit from the head and the rest from the tail.
func (e *Engine) capture(limit int, live io.Writer, over <-chan struct{}) *capture {
	head := limit * 2 / 5
	c := &capture{window: output.NewWindow(head, limit-head), redactor: e.redactor}
	if live == nil {
		return c
	}
	out := newLiveWriter(live, over)
	c.out = out
	if e.redactor == nil {
		c.live = plainWriter{out}
	} else {
		c.live = e.redactor.Writer(out)
	}
	return c
}

// Write never fails: a reader that went away must not end the script.
func (c *capture) Write(p []byte) (int, error) {
	c.window.Write(p)
	if c.live != nil {
		if _, err := c.live.Write(p); err != nil {
			c.live, c.lost = nil, err
		}
	}
	return len(p), nil
}

// finish flushes the live stream and renders the window.
func (c *capture) finish() (text string, truncated bool) {
	if c.live != nil {
		c.lost = c.live.Close()
	}
	return c.window.Render(c.redactor)
}

// close ends what a live writer needs, finished or not.
func (c *capture) close() {
	if c.out != nil {
		c.out.Close()
	}
}

type plainWriter struct{ io.Writer }

func (plainWriter) Close() error { return nil }

func isPlainCancel(cause error) bool {
	return cause == context.Canceled || errors.Is(cause, ErrNewMessage)
}
