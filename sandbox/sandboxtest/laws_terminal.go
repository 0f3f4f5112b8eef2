package sandboxtest

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func terminalLaws() []law {
	return []law{
		{"a terminal is one, and the command's own", terminalIs},
		{"what is typed is read to its end", terminalTyped},
		{"a terminal nobody types at is at its end", terminalEmpty},
		{"a terminal can be resized", terminalResize},
		{"a terminal's keys send signals", terminalKeys},
		{"a terminal delivers everything", terminalOutput},
		{"a command at a terminal can be ended", terminalEnded},
	}
}

func size() *sandbox.Winsize { return &sandbox.Winsize{Rows: 31, Cols: 117} }

// lines is what a terminal has shown, with the line ends of files.
func lines(out *lockedBuffer) string { return strings.ReplaceAll(out.String(), "\r\n", "\n") }

func terminalIs(b *bench) {
	var out, errs lockedBuffer
	p := b.start(b.within(), b.box(), sandbox.Cmd{
		Args: sh(`test -t 0 && test -t 1 && test -t 2 && stty size && echo own >/dev/tty && echo error >&2`), PTY: size(), Stdout: &out, Stderr: &errs,
	})
	if exit := b.wait(p); exit.Code != 0 || lines(&out) != "31 117\nown\nerror\n" || errs.String() != "" {
		b.Errorf("%+v, %q, stderr %q", exit, out.String(), errs.String())
	}
}

func terminalTyped(b *bench) {
	box := b.box()
	for typed, want := range map[string]string{"one\ntwo\n": "got one\ntwo\n", "one\ntail": "got one\ntail", "one\n": "got one\n"} {
		var out lockedBuffer
		p := b.start(b.within(), box, sandbox.Cmd{Args: sh(`stty -echo; echo ready; read a; echo "got $a"; exec cat`), PTY: size(),
			Stdin: &after{out: &out, text: "ready", r: strings.NewReader(typed)}, Stdout: &out})
		if exit := b.wait(p); exit.Code != 0 || lines(&out) != "ready\n"+want {
			b.Errorf("typed %q: %+v, %q", typed, exit, out.String())
		}
	}
}

// idle is a keyboard at which nobody types until a context is done.
type idle struct{ ctx context.Context }

func (i idle) Read([]byte) (int, error) {
	<-i.ctx.Done()
	return 0, io.EOF
}

// after reads once a text was shown.
type after struct {
	out  *lockedBuffer
	text string
	r    io.Reader
}

func (a *after) Read(p []byte) (int, error) {
	if !eventually(func() bool { return strings.Contains(a.out.String(), a.text) }) {
		return 0, errors.New("it was not shown")
	}
	return a.r.Read(p)
}

func terminalEmpty(b *bench) {
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: []string{"cat"}, PTY: size()})
	if exit := b.wait(p); exit.Code != 0 {
		b.Errorf("%+v", exit)
	}
}

func terminalResize(b *bench) {
	var out lockedBuffer
	ctx, cancel := cancelable(b.within())
	p := b.start(ctx, b.box(), sandbox.Cmd{
		Args: []string{"python3", "-c", `import os, signal
def changed(*_):
    s = os.get_terminal_size()
    os.write(1, b"%d %d\n" % (s.lines, s.columns))
signal.signal(signal.SIGWINCH, changed)
os.write(1, b"ready\n")
while True: signal.pause()`}, PTY: size(), Stdin: idle{ctx}, Stdout: &out})
	if !eventually(func() bool { return strings.Contains(out.String(), "ready") }) {
		b.Fatalf("%q", out.String())
	}
	if err := p.Resize(50, 200); err != nil {
		b.Fatal(err)
	}
	if !eventually(func() bool { return strings.Contains(out.String(), "50 200") }) {
		b.Errorf("%q", out.String())
	}
	cancel(errors.New("enough"))
	b.wait(p)
	if !eventually(func() bool { return p.Resize(1, 1) != nil }) {
		b.Error("resized after the end")
	}
}

func terminalKeys(b *bench) {
	var out lockedBuffer
	ctx, cancel := cancelable(b.within())
	defer cancel(errors.New("enough"))
	p := b.start(ctx, b.box(), sandbox.Cmd{Args: sh("echo ready; exec sleep 1000"), PTY: size(), Stdout: &out,
		Stdin: io.MultiReader(&after{out: &out, text: "ready", r: strings.NewReader("\x03")}, idle{ctx})})
	if exit := b.wait(p); exit.Signal != syscall.SIGINT {
		b.Errorf("%+v, %q", exit, out.String())
	}
}

func terminalOutput(b *bench) {
	var out lockedBuffer
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: []string{"seq", "200000"}, PTY: size(), Stdout: &out})
	exit := b.wait(p)
	text := lines(&out)
	if exit.Code != 0 || strings.Count(text, "\n") != 200000 || !strings.HasSuffix(text, "\n200000\n") {
		b.Errorf("%+v, %d lines", exit, strings.Count(text, "\n"))
	}
}

func terminalEnded(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("stay", l.path, "", "setsid+double+deaf"), PTY: size(), Stdin: idle{ctx}})
	both := []*lifeline{l.accept(), l.accept()}
	cancel(errors.New("enough"))
	if exit := b.wait(p); exit.Code == 0 {
		b.Errorf("%+v", exit)
	}
	for _, line := range both {
		line.dies()
	}
}
