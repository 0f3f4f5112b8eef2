package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func main() {
	guest.Main() // returns at once unless this process was started as a guest
	if code, ok := guestCommand(os.Args[1:], os.Stderr); ok {
		os.Exit(code)
	}
	if err := protect(); err != nil {
		fmt.Fprintf(os.Stderr, "hermes-exec: %v\n", err)
		os.Exit(exitInternal)
	}
	os.Exit(command(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes of hermes-exec itself. They are those of timeout(1) and docker
// run, so that wrappers can tell our failure from the script's.
const (
	exitFailed      = 1
	exitTimeout     = 124
	exitInternal    = 125
	exitRefused     = 126
	exitInterrupted = 130
	exitPipe        = 128 + 13 // as a program that SIGPIPE ended
)

// command runs one command line and returns the exit code.
func command(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, broken, stop := withSignals(context.Background(), stderr)
	defer stop()
	stdout, stderr = watchPipe(stdout, broken), watchPipe(stderr, broken)
	a := &app{args: args, stdin: stdin, stdout: stdout, stderr: stderr}
	defer a.close()
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	var code exitCode
	// What nobody could read says nothing, whatever it said. Only of a run there
	// is something left to tell, the script's own code: see run.
	if lost := lostOutput(stdout); lost != nil && (err == nil || errors.As(err, &code)) && cmd.Name() != "run" {
		err = fmt.Errorf("not all output could be printed: %w", lost)
	}
	switch {
	case context.Cause(ctx) == errOutputClosed:
		return exitPipe
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintf(stderr, "hermes-exec: %s\n", tame(stderr, strings.TrimPrefix(err.Error(), "engine: ")+remedy(err)))
	return codeOf(err)
}

// remedy is what to do about an error that tells only the system's reason.
func remedy(err error) string {
	if errors.Is(err, syscall.EMFILE) {
		return "; allow it more open files: ulimit -n 4096"
	}
	return ""
}

// exitCode ends the command with a code and no further message: what there was
// to say has been said.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// codeOf maps an error of ours to an exit code.
func codeOf(err error) int {
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, engine.ErrRefused), errors.Is(err, sandbox.ErrPolicy):
		return exitRefused
	}
	return exitInternal
}
