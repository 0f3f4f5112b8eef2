package sandboxtest

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing/iotest"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func commandLaws() []law {
	return []law{
		{"arguments are passed exactly", argumentsExact},
		{"the environment is exact", environmentExact},
		{"a nil environment is the box's", environmentOfBox},
		{"a command starts in its directory", directory},
		{"a program is looked up on the PATH of its environment", lookup},
		{"what cannot be started is an error that says why", notStarted},
		{"stdin is delivered to its end", stdinDelivered},
		{"no stdin is the end of the file", stdinEmpty},
		{"a stdin that never ends does not hold Wait", stdinEndless},
		{"only descriptors 0, 1 and 2 are inherited", descriptorsInherited},
		{"exit codes are reported", exitCodes},
		{"a signal that ends a command is reported", exitSignals},
		{"usage is reported", usageReported},
	}
}

func argumentsExact(b *bench) {
	box := b.box()
	args := []string{
		"", " ", "a b", "'", `"`, `\`, "$HOME", "`id`", "$(id)", ";id", "|", "&", "<", ">", "*", "?", "[a]", "~", "#", "!",
		"-c", "--", "-", "a\nb", "a\tb", "a\rb", "\x01\x7f", "\xff\xfe", "é", "日本", "%s", "{a,b}", "a=b", strings.Repeat("x", 100_000),
	}
	var got []string
	if err := json.Unmarshal([]byte(b.output(box, Probe("args", args...)...)), &got); err != nil {
		b.Fatal(err)
	}
	if len(got) != len(args) {
		b.Fatalf("%d arguments arrived of %d", len(got), len(args))
	}
	for i := range args {
		if want := hex.EncodeToString([]byte(args[i])); got[i] != want {
			b.Errorf("argument %q arrived as %.200s", args[i], got[i])
		}
	}
}

func environmentExact(b *bench) {
	box := b.box()
	for _, env := range [][]string{
		{},
		{"A=1"},
		{"B=", "A=x=y", "EMPTY=", "SPACE= a b ", "LINE=a\nb", "BYTES=\xff\xfe", "PATH=/usr/bin:/bin"},
	} {
		stdout, stderr, exit := b.run(box, sandbox.Cmd{Args: []string{"/usr/bin/env", "-0"}, Env: env})
		if exit.Code != 0 {
			b.Fatalf("exit %+v, %s", exit, stderr)
		}
		got := strings.Split(stdout, "\x00")
		got = got[:len(got)-1]
		slices.Sort(got)
		want := slices.Sorted(slices.Values(env))
		if !slices.Equal(got, want) {
			b.Errorf("environment %q arrived as %q", want, got)
		}
	}
}

func environmentOfBox(b *bench) {
	b.options.Spec.Env = append(slices.Clone(b.options.Spec.Env), "LAW=kept")
	got := b.output(b.box(), sh(`printf %s "$LAW"`)...)
	if got != "kept" {
		b.Errorf("a command without an environment of its own has LAW=%q", got)
	}
}

func directory(b *bench) {
	box := b.box()
	if got := b.output(box, sh("pwd -P")...); got != box.Info().WorkDir+"\n" {
		b.Errorf("starts in %q, not in Info.WorkDir %q", got, box.Info().WorkDir)
	}
	dir := path.Join(box.Info().ScratchDir, "a dir; with 'odd' \"name\"")
	if err := box.Files().Mkdir(b.Context(), dir, 0o700); err != nil {
		b.Fatal(err)
	}
	out, _, exit := b.run(box, sandbox.Cmd{Args: sh("pwd -P"), Dir: dir})
	if exit.Code != 0 || out != dir+"\n" {
		b.Errorf("starts in %q, not in Cmd.Dir %q: %+v", out, dir, exit)
	}
}

func lookup(b *bench) {
	box := b.box()
	b.put(box, "bin/prog", "#!/bin/sh\necho found\n", 0o755)
	b.put(box, "plain/prog", "#!/bin/sh\necho wrong\n", 0o644)
	dir := box.Info().ScratchDir
	out, _, _ := b.run(box, sandbox.Cmd{Args: []string{"prog"}, Env: []string{"PATH=/nonexistent:" + dir + "/plain:" + dir + "/bin"}})
	if out != "found\n" {
		b.Errorf("looked up program wrote %q", out)
	}
	// What runs must not depend on where it runs.
	for _, path := range []string{"", ".", "bin", ":/nonexistent", "/nonexistent:."} {
		_, err := box.Start(b.within(), sandbox.Cmd{Args: []string{"prog"}, Env: []string{"PATH=" + path}, Dir: dir + "/bin"})
		if !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("PATH=%q, in the program's own directory: %v, want fs.ErrNotExist", path, err)
		}
	}
}

func notStarted(b *bench) {
	box := b.box()
	plain := b.put(box, "plain", "#!/bin/sh\n", 0o644)
	orphan := b.put(box, "orphan", "#!/nonexistent/interpreter\n", 0o755)
	scratch := box.Info().ScratchDir
	for _, c := range []struct {
		what string
		cmd  sandbox.Cmd
		want error
		says string
	}{
		{"no arguments", sandbox.Cmd{}, nil, ""},
		{"no such program on PATH", sandbox.Cmd{Args: []string{"no-such-program"}}, fs.ErrNotExist, "no-such-program"},
		{"no such file", sandbox.Cmd{Args: []string{scratch + "/missing"}}, fs.ErrNotExist, "missing"},
		{"an empty name", sandbox.Cmd{Args: []string{""}}, fs.ErrNotExist, ""},
		{"not executable", sandbox.Cmd{Args: []string{plain}}, fs.ErrPermission, "plain"},
		{"a directory", sandbox.Cmd{Args: []string{scratch}}, fs.ErrPermission, scratch},
		{"a missing interpreter", sandbox.Cmd{Args: []string{orphan}}, fs.ErrNotExist, "interpreter"},
		{"a missing directory", sandbox.Cmd{Args: sh(":"), Dir: scratch + "/nowhere"}, fs.ErrNotExist, "nowhere"},
		{"a directory that is a file", sandbox.Cmd{Args: sh(":"), Dir: plain}, nil, "plain"},
		{"NUL in an argument", sandbox.Cmd{Args: sh(":", "a\x00b")}, nil, "NUL"},
		{"NUL in the environment", sandbox.Cmd{Args: sh(":"), Env: []string{"A=\x00"}}, nil, "NUL"},
		{"NUL in the directory", sandbox.Cmd{Args: sh(":"), Dir: "/\x00"}, nil, "NUL"},
		{"arguments that are too long", sandbox.Cmd{Args: sh(":", strings.Repeat("x", 16<<20))}, nil, "too long"},
	} {
		_, err := box.Start(b.within(), c.cmd)
		switch {
		case err == nil:
			b.Errorf("%s: started", c.what)
		case c.want != nil && !errors.Is(err, c.want):
			b.Errorf("%s: %v, want %v", c.what, err, c.want)
		case !strings.Contains(err.Error(), c.says):
			b.Errorf("%s: %v, which does not say %q", c.what, err, c.says)
		}
	}
	done, cancel := context.WithCancelCause(context.Background())
	why := errors.New("changed my mind")
	cancel(why)
	if _, err := box.Start(done, sandbox.Cmd{Args: sh(":")}); !errors.Is(err, why) {
		b.Errorf("a context that is done: %v, want its cause", err)
	}
	if out := b.output(box, sh("echo still works")...); out != "still works\n" {
		b.Errorf("after all that a command writes %q", out)
	}
}

func stdinDelivered(b *bench) {
	box := b.box()
	content := bytes.Repeat([]byte("all\x00bytes\xff\n"), 100_000)
	var out lockedBuffer
	_, _, exit := b.run(box, sandbox.Cmd{Args: []string{"cat"}, Stdin: iotest.HalfReader(bytes.NewReader(content)), Stdout: &out})
	if exit.Code != 0 || out.String() != string(content) {
		b.Errorf("cat returned %d bytes of %d: %+v", len(out.String()), len(content), exit)
	}
	r, w, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if _, err := w.WriteString("from a file"); err != nil {
		b.Fatal(err)
	}
	w.Close()
	if got, _, _ := b.run(box, sandbox.Cmd{Args: []string{"cat"}, Stdin: r}); got != "from a file" {
		b.Errorf("cat returned %q of a file", got)
	}
}

func stdinEmpty(b *bench) {
	if got := b.output(b.box(), "cat"); got != "" {
		b.Errorf("cat read %q from nothing", got)
	}
}

// endless is a reader like a terminal at which nobody types.
type endless struct {
	once sync.Once
	read chan struct{}
	stop chan struct{}
}

func (e *endless) Read([]byte) (int, error) {
	e.once.Do(func() { close(e.read) })
	<-e.stop
	return 0, io.EOF
}

func stdinEndless(b *bench) {
	box := b.box()
	in := &endless{read: make(chan struct{}), stop: make(chan struct{})}
	defer close(in.stop)
	if _, _, exit := b.run(box, sandbox.Cmd{Args: sh(":"), Stdin: in}); exit.Code != 0 {
		b.Errorf("exit %+v", exit)
	}
	// And one that never blocks.
	if _, _, exit := b.run(box, sandbox.Cmd{Args: []string{"head", "-c", "1"}, Stdin: zeros{}}); exit.Code != 0 {
		b.Errorf("exit %+v", exit)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func descriptorsInherited(b *bench) {
	box := b.box()
	files := make([]*os.File, 0, 20)
	for range cap(files) { // things an engine has open
		f, err := os.Open(os.DevNull)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	b.socket(box)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			var out lockedBuffer
			p, err := box.Start(b.within(), sandbox.Cmd{Args: Probe("fds"), Stdin: strings.NewReader("x"), Stdout: &out})
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := p.Wait(); err != nil {
				b.Error(err)
			}
			if got := out.String(); got != "[0, 1, 2]\n" {
				b.Errorf("a command has descriptors %s", got)
			}
		})
	}
	all.Wait()
}

func exitCodes(b *bench) {
	box := b.box()
	for _, code := range []string{"0", "1", "2", "124", "125", "126", "127", "128", "130", "137", "255"} {
		_, _, exit := b.run(box, sandbox.Cmd{Args: sh("exit " + code)})
		want := 0
		for _, d := range code {
			want = want*10 + int(d-'0')
		}
		if exit.Code != want || exit.Signal != 0 {
			b.Errorf("exit %s is reported as %+v", code, exit)
		}
	}
}

func exitSignals(b *bench) {
	box := b.box()
	for name, want := range map[string]int{"KILL": 9, "TERM": 15, "INT": 2, "HUP": 1} {
		_, _, exit := b.run(box, sandbox.Cmd{Args: sh("kill -" + name + " $$")})
		if exit.Code != -1 || int(exit.Signal) != want {
			b.Errorf("kill -%s is reported as %+v", name, exit)
		}
	}
}

func usageReported(b *bench) {
	_, stderr, exit := b.run(b.box(), sandbox.Cmd{Args: Probe("usage")})
	if exit.Code != 0 {
		b.Fatalf("exit %+v, %s", exit, stderr)
	}
	u := exit.Usage
	if u.Wall <= 0 {
		b.Errorf("no wall time: %+v", u)
	}
	if cpu := u.User + u.System; cpu != 0 && cpu.Milliseconds() < 90 {
		b.Errorf("at least 100 ms of cpu time are reported as %v", cpu)
	}
	if u.MaxRSS != 0 && u.MaxRSS < 64<<20 {
		b.Errorf("at least 64 MiB of memory are reported as %d bytes", u.MaxRSS)
	}
}
