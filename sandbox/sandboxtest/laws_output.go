package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func outputLaws() []law {
	return []law{
		{"stdout and stderr are apart", outputApart},
		{"one writer for both gets one stream in order", outputTogether},
		{"8 MiB on both streams do not deadlock", outputLarge},
		{"a nil writer discards", outputDiscarded},
		{"a slow writer gets everything", outputSlow},
		{"a writer that fails does not disturb the command", outputFailing},
		{"a descendant that holds the pipe cannot hold Wait", outputHeld},
		{"what was written before a kill is delivered", outputBeforeKill},
		{"a main process that forks and exits is the end", outputForkExit},
	}
}

func outputApart(b *bench) {
	stdout, stderr, _ := b.run(b.box(), sandbox.Cmd{Args: sh("printf out; printf err >&2; printf out; printf 'err\\0\\377' >&2")})
	if stdout != "outout" || stderr != "errerr\x00\xff" {
		b.Errorf("stdout %q, stderr %q", stdout, stderr)
	}
}

// uncomparable is a writer that cannot be compared.
type uncomparable struct{ to []*lockedBuffer }

func (u uncomparable) Write(p []byte) (int, error) { return u.to[0].Write(p) }

func outputTogether(b *bench) {
	box := b.box()
	const script = `i=0; while [ $i -lt 300 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done`
	var want strings.Builder
	for i := range 300 {
		fmt.Fprintf(&want, "o%d\ne%d\n", i, i)
	}
	var both lockedBuffer
	b.run(box, sandbox.Cmd{Args: sh(script), Stdout: &both, Stderr: &both})
	if both.String() != want.String() {
		b.Errorf("the order is lost: %.200q", both.String())
	}
	// Writers that cannot be compared are two.
	both = lockedBuffer{}
	w := uncomparable{[]*lockedBuffer{&both}}
	b.run(box, sandbox.Cmd{Args: sh(script), Stdout: w, Stderr: w})
	if len(both.String()) != want.Len() {
		b.Errorf("%d bytes of %d arrived", len(both.String()), want.Len())
	}
}

func outputLarge(b *bench) {
	const size = 8 << 20
	stdout, stderr, exit := b.run(b.box(), sandbox.Cmd{
		Args: sh(fmt.Sprintf("head -c %d /dev/zero & head -c %d /dev/zero >&2; wait", size, size)),
	})
	if len(stdout) != size || len(stderr) != size || exit.Code != 0 {
		b.Errorf("%d and %d bytes arrived of %d: %+v", len(stdout), len(stderr), size, exit)
	}
}

func outputDiscarded(b *bench) {
	p := b.start(b.within(), b.box(), sandbox.Cmd{Args: sh("head -c 1000000 /dev/zero && echo x >&2")})
	if exit := b.wait(p); exit.Code != 0 {
		b.Errorf("exit %+v", exit)
	}
}

// slowWriter does not return from its first Write until it may.
type slowWriter struct {
	lockedBuffer
	once    sync.Once
	entered chan struct{}
	release chan struct{}
}

func (s *slowWriter) Write(p []byte) (int, error) {
	s.once.Do(func() {
		close(s.entered)
		<-s.release
	})
	return s.lockedBuffer.Write(p)
}

func outputSlow(b *bench) {
	for _, keep := range []bool{false, true} {
		box := b.box()
		l := b.socket(box)
		const rest = 60_000 // fits into a pipe
		slow := &slowWriter{entered: make(chan struct{}), release: make(chan struct{})}
		in, more := io.Pipe()
		p := b.start(b.within(), box, sandbox.Cmd{
			// The main process writes the rest while the writer is busy, and
			// is long gone when it is not; a descendant holds the pipe.
			Args:  sh(`echo first; read x; exec python3 -c "$1" leave "$2" "$3" setsid+deaf`, probe, l.path, strings.Repeat("x", rest)),
			Stdin: in, Stdout: slow, Keep: keep,
		})
		<-slow.entered
		if _, err := io.WriteString(more, "go on\n"); err != nil {
			b.Error(err)
		}
		more.Close()
		line := l.accept()
		if !keep {
			line.dies()
		}
		time.Sleep(300 * time.Millisecond) // longer than the drain grace
		close(slow.release)
		b.wait(p)
		if got := slow.String(); got != "first\n"+strings.Repeat("x", rest) {
			b.Errorf("keep %v: %d bytes arrived of %d", keep, len(got), rest+6)
		}
	}
}

type failingWriter struct{ calls int }

func (f *failingWriter) Write([]byte) (int, error) {
	f.calls++
	return 0, errors.New("full")
}

func outputFailing(b *bench) {
	w := &failingWriter{}
	exit := b.wait(b.start(b.within(), b.box(), sandbox.Cmd{Args: sh("head -c 4000000 /dev/zero && exit 7"), Stdout: w}))
	if exit.Code != 7 {
		b.Errorf("exit %+v: the command was disturbed", exit)
	}
	if w.calls != 1 {
		b.Errorf("the writer was called %d times after its failure", w.calls-1)
	}
}

// outputHeld: the reference lost all that was written, and waited for seconds,
// when a background child had inherited stdout.
func outputHeld(b *bench) {
	for _, keep := range []bool{false, true} {
		box := b.box()
		l := b.socket(box)
		text := strings.Repeat("0123456789", 3000) + "end"
		var out, errs lockedBuffer
		p := b.start(b.within(), box, sandbox.Cmd{
			Args: Probe("leave", l.path, text, "setsid+double+deaf"), Stdout: &out, Stderr: &errs, Keep: keep,
		})
		line := l.accept()
		if exit := b.wait(p); exit.Code != 0 || exit.Signal != 0 {
			b.Errorf("keep %v: exit %+v", keep, exit)
		}
		if out.String() != text || errs.String() != "" {
			b.Errorf("keep %v: %d bytes arrived of %d; stderr %q", keep, len(out.String()), len(text), errs.String())
		}
		if keep {
			line.lives()
		} else {
			line.dies()
		}
	}
	// One that writes without end cannot hold it either, and is not read after Wait.
	box := b.box()
	l := b.socket(box)
	var out lockedBuffer
	p := b.start(b.within(), box, sandbox.Cmd{Args: Probe("leave", l.path, "text\n", "setsid+deaf+chatter"), Stdout: &out, Keep: true})
	line := l.accept()
	b.wait(p)
	after := out.String()
	if !strings.Contains(after, "text\n") {
		b.Errorf("the main process's output is missing: %.100q", after)
	}
	for range 100 { // it is disturbed neither by SIGPIPE nor by a full pipe
		line.lives()
	}
	if now := out.String(); now != after {
		b.Errorf("the writer was called after Wait: %d bytes more", len(now)-len(after))
	}
}

func outputBeforeKill(b *bench) {
	box := b.box()
	l := b.socket(box)
	ctx, cancel := cancelable(b.within())
	var out lockedBuffer
	p := b.start(ctx, box, sandbox.Cmd{Args: Probe("stay", l.path, "partial", "deaf"), Stdout: &out})
	l.accept()
	l.accept() // the main process, after its output
	cancel(errors.New("enough"))
	if exit := b.wait(p); exit.Code != -1 {
		b.Errorf("exit %+v", exit)
	}
	if out.String() != "partial" {
		b.Errorf("output %q", out.String())
	}
}

func outputForkExit(b *bench) {
	box := b.box()
	l := b.socket(box)
	var out lockedBuffer
	p := b.start(b.within(), box, sandbox.Cmd{
		Args: sh(`python3 -c "$1" leave "$2" ready setsid & wait; echo end; exit 3`, probe, l.path), Stdout: &out,
	})
	line := l.accept()
	if exit := b.wait(p); exit.Code != 3 {
		b.Errorf("exit %+v, want the main process's", exit)
	}
	if !bytes.HasSuffix([]byte(out.String()), []byte("end\n")) {
		b.Errorf("output %q", out.String())
	}
	line.dies()
}
