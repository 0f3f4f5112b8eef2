package sandboxtest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func boxLaws() []law {
	return []law{
		{"a box says what it is", boxInfo},
		{"boxes are apart", boxesApart},
		{"close may be repeated and ends everything", closeTwice},
		{"a closed backend makes no boxes", backendClosed},
		{"a box that closes removes its scratch directory", scratchRemoved},
		{"a process inside reaches a listener", listenerReached},
		{"only the box's user reaches a listener", listenerPrivate},
		{"a listener is gone when it is closed", listenerGone},
		{"check finds nothing wrong", check},
	}
}

func boxInfo(b *bench) {
	box := b.box()
	i := box.Info()
	if i.ID == "" || strings.ContainsAny(i.ID, "/\x00\n ") || i.Backend == "" || i.OS == "" || i.Arch == "" {
		b.Errorf("info %+v", i)
	}
	for _, dir := range []string{i.WorkDir, i.ScratchDir} {
		if !path.IsAbs(dir) {
			b.Errorf("%q is not absolute", dir)
			continue
		}
		if real, err := box.Files().Resolve(b.Context(), dir); err != nil || real != dir {
			b.Errorf("%q is %q, %v", dir, real, err)
		}
	}
	st, err := box.Files().Stat(b.Context(), i.ScratchDir)
	if err != nil || !st.IsDir() || st.Mode().Perm() != 0o700 {
		b.Errorf("scratch directory: %v, %v", st, err)
	}
	if i.UID >= 0 {
		if got := b.output(box, sh("id -u")...); strings.TrimSpace(got) != strconv.Itoa(i.UID) {
			b.Errorf("Info.UID is %d, but id says %s", i.UID, got)
		}
	}
	if len(i.Enforcement) == 0 {
		b.Error("no word about what is enforced")
	}
	for _, c := range i.Enforcement {
		if c.State != sandbox.Enforced && c.Why == "" {
			b.Errorf("%s is %s without a reason", c.Clause, c.State)
		}
		if c.State != sandbox.Unsupported && c.Mechanism == "" {
			b.Errorf("%s is %s without a mechanism", c.Clause, c.State)
		}
	}
}

func boxesApart(b *bench) {
	one, other := b.box(), b.box()
	if one.Info().ID == other.Info().ID {
		b.Errorf("two boxes share %+v and %+v", one.Info(), other.Info())
	}
	if dir := one.Info().ScratchDir; dir == other.Info().ScratchDir { // then each has its own under that name
		name := b.put(one, "file", "x", 0o600)
		if _, err := other.Files().Stat(b.Context(), name); !errors.Is(err, fs.ErrNotExist) {
			b.Errorf("two boxes share %s: %v", dir, err)
		}
	}
	_, tree := keep(b, b.within(), one)
	if err := other.Close(b.within()); err != nil {
		b.Error(err)
	}
	for _, line := range tree {
		line.lives()
	}
}

func closeTwice(b *bench) {
	box := b.box()
	l := b.socket(box)
	p := b.start(context.Background(), box, sandbox.Cmd{Args: Probe("stay", l.path, "", "setsid+double+deaf")})
	lines := []*lifeline{l.accept(), l.accept()}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := box.Close(b.within()); err != nil {
				b.Errorf("Close: %v", err)
			}
		})
	}
	all.Wait()
	if err := box.Close(b.within()); err != nil {
		b.Errorf("Close again: %v", err)
	}
	for _, line := range lines {
		line.dies()
	}
	b.wait(p)
	if _, err := box.Start(b.within(), sandbox.Cmd{Args: sh(":")}); !errors.Is(err, sandbox.ErrClosed) {
		b.Errorf("Start after Close: %v, want ErrClosed", err)
	}
	if _, _, err := box.Listen(b.within()); !errors.Is(err, sandbox.ErrClosed) {
		b.Errorf("Listen after Close: %v, want ErrClosed", err)
	}
	if box.Info().ID == "" {
		b.Error("a closed box does not know what it was")
	}
}

func backendClosed(b *bench) {
	box := b.box()
	_, tree := keep(b, context.Background(), box)
	for range 2 {
		if err := b.backend.Close(); err != nil {
			b.Errorf("Close: %v", err)
		}
	}
	for _, line := range tree {
		line.dies()
	}
	if _, err := b.backend.Create(b.within(), b.options.Spec); !errors.Is(err, sandbox.ErrClosed) {
		b.Errorf("Create after Close: %v, want ErrClosed", err)
	}
	if _, err := box.Start(b.within(), sandbox.Cmd{Args: sh(":")}); !errors.Is(err, sandbox.ErrClosed) {
		b.Errorf("Start after the backend's Close: %v, want ErrClosed", err)
	}
}

func scratchRemoved(b *bench) {
	box, witness := b.box(), b.box()
	dir := box.Info().ScratchDir
	b.put(box, "file", "x", 0o600)
	// An ordinary user cannot remove what is in such a directory at once.
	b.output(box, sh(`cd "$1" && mkdir -p a/b && echo x >a/b/c && ln -s / link && mkfifo fifo && chmod 0 a/b a`, dir)...)
	if err := box.Close(b.within()); err != nil {
		b.Fatal(err)
	}
	if dir == witness.Info().ScratchDir {
		dir = path.Join(dir, "file") // what the box had, not the name both know
	}
	if _, err := witness.Files().Stat(b.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		b.Errorf("the scratch directory of a closed box: %v, want fs.ErrNotExist", err)
	}
}

func listenerReached(b *bench) {
	box := b.box()
	l := b.socket(box)
	if len(l.path) > 107 || !path.IsAbs(l.path) {
		b.Errorf("a process cannot dial %q", l.path)
	}
	done := make(chan error, 1)
	go func() {
		conn, err := l.l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err == nil {
			_, err = io.WriteString(conn, strings.ToUpper(line))
		}
		done <- err
	}()
	if got := b.output(box, Probe("echo", l.path, "hello\n")...); got != "HELLO\n" {
		b.Errorf("echoed %q", got)
	}
	if err := <-done; err != nil {
		b.Error(err)
	}
}

func listenerPrivate(b *bench) {
	box := b.box()
	l := b.socket(box)
	for name, want := range map[string]fs.FileMode{l.path: 0o600 | fs.ModeSocket, path.Dir(l.path): 0o700 | fs.ModeDir} {
		st, err := box.Files().Stat(b.Context(), name)
		if err != nil {
			b.Error(err)
			continue
		}
		if st.Mode() != want {
			b.Errorf("%s has mode %v, want %v", name, st.Mode(), want)
		}
	}
	other := b.socket(box)
	if path.Dir(other.path) == path.Dir(l.path) {
		b.Errorf("two sockets share %s", path.Dir(l.path))
	}
}

func listenerGone(b *bench) {
	box := b.box()
	gone := func(what, name string) {
		b.Helper()
		if !eventually(func() bool {
			_, err := box.Files().Stat(context.Background(), name)
			return errors.Is(err, fs.ErrNotExist)
		}) {
			b.Errorf("%s: %s is still there", what, name)
		}
	}
	l := b.socket(box)
	if err := l.l.Close(); err != nil {
		b.Error(err)
	}
	gone("closed", l.path)
	gone("closed", path.Dir(l.path))

	ctx, cancel := cancelable(b.within())
	inner, name, err := box.Listen(ctx)
	if err != nil {
		b.Fatal(err)
	}
	cancel(errors.New("enough"))
	if _, err := inner.Accept(); err == nil {
		b.Error("accepted although the context is done")
	}
	gone("context done", path.Dir(name))

	l = b.socket(box)
	if err := box.Close(b.within()); err != nil {
		b.Error(err)
	}
	if _, err := l.l.Accept(); err == nil {
		b.Error("accepted although the box is closed")
	}
}

func check(b *bench) {
	findings := b.backend.Check(b.within())
	if len(findings) == 0 {
		b.Error("nothing was checked")
	}
	for _, f := range findings {
		if f.Severity == sandbox.Failure || f.Subject == "" || f.Detail == "" {
			b.Errorf("finding %+v", f)
		}
		if f.Severity != sandbox.OK && f.Fix == "" {
			b.Errorf("finding %+v does not say what to do", f)
		}
	}
}
