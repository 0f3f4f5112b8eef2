package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func processLaws() []law {
	return []law{
		{"any number of callers may wait", waitMany},
		{"a signal reaches the whole tree", signalTree},
		{"a signal after the end is os.ErrProcessDone", signalLate},
		{"a tree can be stopped and continued", stopContinue},
		{"commands run side by side", parallel},
		{"resize without a terminal is an error", resize},
	}
}

func waitMany(b *bench) {
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: sh("exit 9")})
	var all sync.WaitGroup
	exits := make([]sandbox.Exit, 20)
	for i := range exits {
		all.Go(func() {
			exit, err := p.Wait()
			if err != nil {
				b.Error(err)
			}
			exits[i] = exit
		})
	}
	all.Wait()
	again := b.wait(p)
	for _, exit := range exits {
		if exit != again || exit.Code != 9 {
			b.Errorf("one waiter got %+v, another %+v", exit, again)
		}
	}
	if p.PID() <= 0 {
		b.Errorf("pid %d", p.PID())
	}
}

func signalTree(b *bench) {
	box := b.box()
	l := b.socket(box)
	p := b.start(b.within(), box, sandbox.Cmd{Args: Probe("stay", l.path, "", "setsid+double", "child")})
	lines := []*lifeline{l.accept(), l.accept(), l.accept()}
	for _, line := range lines {
		line.lives()
	}
	if err := p.Signal(userSignal); err != nil { // which ends who does not expect it
		b.Fatal(err)
	}
	if exit := b.wait(p); exit.Signal != userSignal {
		b.Errorf("exit %+v", exit)
	}
	for _, line := range lines {
		line.dies()
	}
}

func signalLate(b *bench) {
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: sh(":")})
	b.wait(p)
	if !eventually(func() bool { return errors.Is(p.Signal(syscall.SIGTERM), os.ErrProcessDone) }) {
		b.Errorf("Signal after the end: %v", p.Signal(syscall.SIGTERM))
	}
	if exit := b.wait(p); exit.Code != 0 {
		b.Errorf("exit %+v", exit)
	}
}

func stopContinue(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("stay", l.path, "", "setsid+double+deaf")})
	lines := []*lifeline{l.accept(), l.accept()}
	for _, sig := range []syscall.Signal{stopSignal, continueSignal} {
		if err := p.Signal(sig); err != nil {
			b.Fatal(err)
		}
	}
	for _, line := range lines {
		line.lives()
	}
	if err := p.Signal(stopSignal); err != nil {
		b.Fatal(err)
	}
	cancel(errors.New("enough")) // ends a stopped tree, too
	b.wait(p)
	for _, line := range lines {
		line.dies()
	}
}

func parallel(b *bench) {
	box := b.box()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			var out, errs lockedBuffer
			text := strings.Repeat(fmt.Sprint(i, " "), 5000)
			p, err := box.Start(context.Background(), sandbox.Cmd{
				Args: sh(`cat; echo "$1" >&2; exit "$1"`, fmt.Sprint(i)), Stdin: strings.NewReader(text), Stdout: &out, Stderr: &errs,
			})
			if err != nil {
				b.Error(err)
				return
			}
			exit, err := p.Wait()
			if err != nil || exit.Code != i || out.String() != text || errs.String() != fmt.Sprintln(i) {
				b.Errorf("command %d: %+v, %v, %d bytes, stderr %q", i, exit, err, len(out.String()), errs.String())
			}
		})
	}
	all.Wait()
}

func resize(b *bench) {
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: sh(":")})
	if err := p.Resize(24, 80); err == nil {
		b.Error("a command without a terminal was resized")
	}
	b.wait(p)
}
