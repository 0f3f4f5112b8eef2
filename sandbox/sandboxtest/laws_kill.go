package sandboxtest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// escapes are ways in which a descendant may try to outlive its command.
func escapes() []string {
	return []string{
		"child", "setsid", "group", "double", "setsid+double", "deaf", "setsid+double+deaf",
		"stop", "setsid+double+deaf+stop", "closed", "setsid+double+deaf+closed", "setsid+double+deaf+chatter",
	}
}

func killLaws() []law {
	return []law{
		{"cancel ends the whole tree", func(b *bench) {
			endsTree(b, sandbox.Cmd{}, func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := cancelable(ctx)
				return ctx, func() { cancel(errors.New("cancelled")) }
			})
		}},
		{"a deadline ends the whole tree", func(b *bench) {
			endsTree(b, sandbox.Cmd{}, func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := cancelable(ctx)
				// The deadline must not pass before the tree stands.
				return ctx, func() { time.AfterFunc(10*time.Millisecond, func() { cancel(context.DeadlineExceeded) }) }
			})
		}},
		{"cancel ends the whole tree of a kept command", func(b *bench) {
			endsTree(b, sandbox.Cmd{Keep: true}, func(ctx context.Context) (context.Context, func()) {
				ctx, cancel := cancelable(ctx)
				return ctx, func() { cancel(errors.New("cancelled")) }
			})
		}},
		{"what success leaves behind is ended", leftovers},
		{"what is kept lives until its context is done", keptUntilDone},
		{"what is kept lives until the box closes", keptUntilClose},
		{"the first request to end is SIGTERM", termFirst},
		{"a command that is deaf to SIGTERM is killed after the grace", termIgnored},
		{"a script may kill its own process group", ownGroup},
		{"a tree that forks without end is killed", storm},
	}
}

func cancelable(parent context.Context) (context.Context, context.CancelCauseFunc) {
	return context.WithCancelCause(parent)
}

// endsTree starts one command with every kind of descendant and ends it.
func endsTree(b *bench, cmd sandbox.Cmd, ending func(context.Context) (context.Context, func())) {
	box := b.box()
	l := b.socket(box)
	ctx, end := ending(b.within())
	cmd.Args = Probe("stay", append([]string{l.path, ""}, escapes()...)...)
	var out lockedBuffer
	cmd.Stdout = &out
	p := b.start(ctx, box, cmd)
	var tree []*lifeline
	for range escapes() {
		line := l.accept()
		if !line.stops {
			line.lives()
		}
		tree = append(tree, line)
	}
	tree = append(tree, l.accept())
	end()
	b.wait(p)
	for _, line := range tree {
		line.dies()
	}
}

func leftovers(b *bench) {
	box := b.box()
	l := b.socket(box)
	var out lockedBuffer
	p := b.start(b.within(), box, sandbox.Cmd{Args: Probe("leave", append([]string{l.path, "done"}, escapes()...)...), Stdout: &out})
	var tree []*lifeline
	for range escapes() {
		tree = append(tree, l.accept())
	}
	if exit := b.wait(p); exit.Code != 0 || exit.Signal != 0 {
		b.Errorf("exit %+v", exit)
	}
	for _, line := range tree {
		line.dies()
	}
	if !strings.Contains(out.String(), "done") {
		b.Errorf("output %q", out.String())
	}
}

// keep starts a command that leaves descendants behind, which live.
func keep(b *bench, ctx context.Context, box sandbox.Sandbox) (sandbox.Process, []*lifeline) {
	l := b.socket(box)
	hows := slices.DeleteFunc(escapes(), func(how string) bool { return strings.Contains(how, "stop") })
	var out lockedBuffer
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("leave", append([]string{l.path, "done"}, hows...)...), Stdout: &out, Keep: true})
	var tree []*lifeline
	for range hows {
		tree = append(tree, l.accept())
	}
	if exit := b.wait(p); exit.Code != 0 || !strings.Contains(out.String(), "done") {
		b.Errorf("exit %+v, output %q", exit, out.String())
	}
	for _, line := range tree {
		line.lives()
	}
	// Others come and go meanwhile.
	b.output(box, sh(":")...)
	for _, line := range tree {
		line.lives()
	}
	return p, tree
}

func keptUntilDone(b *bench) {
	ctx, cancel := cancelable(b.within())
	_, tree := keep(b, ctx, b.box())
	cancel(errors.New("enough"))
	for _, line := range tree {
		line.dies()
	}
}

func keptUntilClose(b *bench) {
	box := b.box()
	p, tree := keep(b, context.Background(), box)
	if err := box.Close(b.within()); err != nil {
		b.Errorf("Close: %v", err)
	}
	for _, line := range tree {
		line.dies()
	}
	if exit := b.wait(p); exit.Code != 0 {
		b.Errorf("after Close, Wait says %+v", exit)
	}
}

func termFirst(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	var out lockedBuffer
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("trap", l.path, "42"), Stdout: &out, Grace: Bound})
	l.accept().lives()
	cancel(errors.New("enough"))
	if exit := b.wait(p); exit.Code != 42 || exit.Signal != 0 || out.String() != "asked\n" {
		b.Errorf("exit %+v, output %q", exit, out.String())
	}
}

func termIgnored(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("deaf", l.path), Grace: 50 * time.Millisecond})
	line := l.accept()
	line.lives()
	cancel(errors.New("enough"))
	if exit := b.wait(p); exit.Code != -1 || exit.Signal != syscall.SIGKILL {
		b.Errorf("exit %+v", exit)
	}
	line.dies()
}

func ownGroup(b *bench) {
	box := b.box()
	l := b.socket(box)
	p := b.start(b.within(), box, sandbox.Cmd{Args: Probe("killgroup", l.path, "child", "setsid+double+deaf")})
	one, other := l.accept(), l.accept()
	if exit := b.wait(p); exit.Code != -1 || exit.Signal != syscall.SIGKILL {
		b.Errorf("exit %+v", exit)
	}
	one.dies()
	other.dies()
	b.output(box, sh(":")...) // nothing else was hit
}

func storm(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("storm", l.path, "30")})
	line := l.accept() // inherited by all
	line.lives()
	cancel(errors.New("enough"))
	b.wait(p)
	line.dies()
}
