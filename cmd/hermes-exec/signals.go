package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted")

// withSignals cancels the context at the first SIGINT, SIGTERM or SIGHUP. At
// the second the process ends at once: the supervisors of its commands see
// that and kill what is left.
func withSignals(parent context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		select {
		case sig := <-ch:
			cancel(fmt.Errorf("%w by %s", errInterrupted, sourceOf(sig)))
		case <-done:
			return
		}
		select {
		case <-ch:
			fmt.Fprintln(stderr, "hermes-exec: interrupted twice, killing the script")
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(ch)
		close(done)
		cancel(nil)
	}
}

func sourceOf(sig os.Signal) string {
	if sig == os.Interrupt {
		return "the keyboard"
	}
	return "signal: " + sig.String()
}
