package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// Causes of a context that a signal ended.
var (
	errInterrupted = errors.New("interrupted")
	// errOutputClosed: whoever read our output went away, as head does.
	errOutputClosed = errors.New("the reader of the output is gone")
)

// withSignals cancels the context at the first SIGINT, SIGTERM or SIGHUP, or
// when broken is called. At the second signal the process ends at once: the
// supervisors of its commands see that and kill what is left.
func withSignals(parent context.Context, stderr io.Writer) (ctx context.Context, broken, stop func()) {
	var cancel context.CancelCauseFunc
	ctx, cancel = context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// SIGPIPE would end us before we cleaned up. It comes for any pipe or socket
	// once it is asked for, so it says nothing: see watchPipe.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		for first := true; ; {
			select {
			case sig := <-ch:
				if !first {
					killed(stderr)
				}
				first = false
				cancel(fmt.Errorf("%w by %s", errInterrupted, sourceOf(sig)))
			case <-done:
				return
			}
		}
	}()
	return ctx, func() { cancel(errOutputClosed) }, func() {
		signal.Stop(ch)
		signal.Stop(pipes)
		close(done)
		cancel(nil)
	}
}

// watched is a file that calls broken when it is a pipe without a reader, and
// remembers the first error of writing to it.
type watched struct {
	file   *os.File
	broken func()
	lost   *atomic.Pointer[error]
}

func (w watched) Fd() uintptr { return w.file.Fd() }

// watchPipe makes a watched of an *os.File and leaves others as they are.
func watchPipe(w io.Writer, broken func()) io.Writer {
	if f, ok := w.(*os.File); ok {
		return watched{f, broken, new(atomic.Pointer[error])}
	}
	return w
}

func (w watched) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		w.broken()
	}
	if err != nil {
		w.lost.CompareAndSwap(nil, &err)
	}
	return n, err
}

// lostOutput is why not all that was written to w arrived, nil when it did.
func lostOutput(w io.Writer) error {
	if w, ok := w.(watched); ok {
		if err := w.lost.Load(); err != nil {
			return *err
		}
	}
	return nil
}

// killed ends the process at once. Nobody may be reading what it says.
func killed(stderr io.Writer) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(stderr, "hermes-exec: interrupted twice, killing the script")
	}()
	select {
	case <-said:
	case <-time.After(100 * time.Millisecond):
	}
	os.Exit(exitInterrupted)
}

func sourceOf(sig os.Signal) string {
	if sig == os.Interrupt {
		return "the keyboard"
	}
	return "signal: " + sig.String()
}
