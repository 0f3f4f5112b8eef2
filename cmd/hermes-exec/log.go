package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/sirupsen/logrus"
	logrusslog "github.com/sirupsen/logrus/hooks/slog"
	"golang.org/x/term"

	"github.com/hermes-exec/hermes-exec/output"
)

// newLog routes slog to logrus on stderr: libraries of this module know only
// slog, users get the formats they know.
func newLog(w io.Writer, level, format string, debugTools bool) (*slog.Logger, error) {
	l := logrus.New()
	l.SetOutput(w)
	switch level {
	case "debug", "info", "warn", "error":
		parsed, err := logrus.ParseLevel(level)
		if err != nil {
			return nil, err
		}
		l.SetLevel(parsed)
	default:
		return nil, fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	if debugTools && l.GetLevel() < logrus.InfoLevel {
		l.SetLevel(logrus.InfoLevel) // HERMES_DEBUG_TOOLS=1 asks for a line per tool call
	}
	switch format {
	case "text":
		l.SetFormatter(&logrus.TextFormatter{DisableColors: !colour(w), FullTimestamp: true})
	case "json":
		l.SetFormatter(&logrus.JSONFormatter{})
	default:
		return nil, fmt.Errorf("--log-format %q: want text or json", format)
	}
	return slog.New(logrusslog.NewHandler(l, nil)), nil
}

// tame is a text as it is to be shown on w: what a script has named, such as a
// file, commands no terminal.
func tame(w io.Writer, text string) string {
	if !isTerminal(w) {
		return text
	}
	var shown strings.Builder
	t := output.NewTerminalWriter(&shown)
	_, _ = t.Write([]byte(text))
	_ = t.Close()
	return shown.String()
}

// isTerminal tells whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour tells whether to colour what is written to w: on a terminal, unless
// NO_COLOR (https://no-color.org) says otherwise.
func colour(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// paint wraps text in a colour when w takes colours.
func paint(w io.Writer, code, text string) string {
	if !colour(w) {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	dim    = "2"
)
