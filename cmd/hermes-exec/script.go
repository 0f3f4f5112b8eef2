package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/hermes-exec/hermes-exec/engine"
)

// script reads the script and its limits from flags and arguments.
func (a *app) script(ctx context.Context, f runFlags, inline bool, args []string) (engine.Script, error) {
	script := engine.Script{Interpreter: f.interpreter}
	if f.timeout != "" {
		d, err := parseTimeout(f.timeout)
		if err != nil {
			return script, err
		}
		script.Limits.Timeout = d
	}
	script.Limits.MaxToolCalls = int(f.maxCalls)
	switch {
	case inline:
		script.Code, script.Args = f.code, args
		return script, nil
	case len(args) == 0 && isTerminal(a.stdin):
		return script, errors.New("nothing to run: name a SCRIPT, - for standard input, or -c CODE (see hermes-exec run --help)")
	case len(args) == 0:
		args = []string{"-"}
	}
	code, err := a.readScript(ctx, args[0])
	script.Code, script.Args = code, args[1:]
	return script, err
}

// maxScript bounds what is read into memory; the engine's own limit is lower
// and says so more precisely.
const maxScript = 64 << 20

// readScript gives up when ctx ends: nobody may ever write to a FIFO or a pipe,
// and neither opening nor reading one can be called off.
func (a *app) readScript(ctx context.Context, name string) (string, error) {
	type read struct {
		text string
		err  error
	}
	done := make(chan read, 1)
	go func() {
		text, err := readAll(a.stdin, name)
		done <- read{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// readAll is what a file holds, for - what in has.
func readAll(in io.Reader, name string) (string, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("run: %w", err)
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return "", fmt.Errorf("run: %s is a directory, want a Python script", name)
		}
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxScript+1))
	if err != nil {
		return "", fmt.Errorf("run: read %s: %w", name, err)
	}
	if len(data) > maxScript {
		return "", fmt.Errorf("run: %s has more than %d MiB", name, maxScript>>20)
	}
	return string(data), nil
}

// parseTimeout reads seconds ("30", "1.5") or a duration ("90s", "5m").
func parseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		d, err = time.ParseDuration(s + "s")
	}
	const most = math.MaxInt64 / int64(time.Second)
	if n, _ := strconv.ParseFloat(s, 64); n > float64(most) {
		return 0, fmt.Errorf("--timeout %q: want at most %d seconds", s, most)
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--timeout %q: want a positive number of seconds, or a duration such as 90s or 5m", s)
	}
	return d, nil
}
