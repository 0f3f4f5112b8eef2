package sandboxtest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

func TestFakeFails(t *testing.T) {
	ctx := context.Background()
	wrong := errors.New("as asked")
	if _, err := (&sandboxtest.Fake{CreateErr: wrong}).Create(ctx, sandbox.Spec{}); !errors.Is(err, wrong) {
		t.Errorf("Create: %v", err)
	}
	f := &sandboxtest.Fake{StartErr: wrong, ListenErr: wrong, CloseErr: wrong}
	box, err := f.Create(ctx, sandbox.Spec{ID: "mine"})
	if err != nil || box.Info().ID != "mine" {
		t.Fatal(box, err)
	}
	if _, err := box.Start(ctx, sandbox.Cmd{Args: []string{"x"}}); !errors.Is(err, wrong) {
		t.Errorf("Start: %v", err)
	}
	if _, _, err := box.Listen(ctx); !errors.Is(err, wrong) {
		t.Errorf("Listen: %v", err)
	}
	if err := box.Close(ctx); !errors.Is(err, wrong) {
		t.Errorf("Close: %v", err)
	}
	if started := f.Boxes()[0].Started(); len(started) != 1 || started[0].Args[0] != "x" {
		t.Errorf("started %+v", started)
	}
	lost := fmt.Errorf("%w: as asked", sandbox.ErrLost)
	box, err = (&sandboxtest.Fake{Lost: lost}).Create(ctx, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := box.Start(ctx, sandbox.Cmd{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
}

func TestFakeRuns(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	enough := errors.New("enough")
	f := &sandboxtest.Fake{Run: func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
		fmt.Fprint(cmd.Stdout, "working")
		cancel(enough)
		<-ctx.Done()
		if context.Cause(ctx) != enough {
			t.Errorf("the command ends because of %v", context.Cause(ctx))
		}
		return sandbox.Exit{Code: -1, Signal: syscall.SIGTERM}
	}}
	box, err := f.Create(context.Background(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	defer r.Close()
	go io.Copy(io.Discard, r)
	p, err := box.Start(ctx, sandbox.Cmd{Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(); err != nil || exit.Signal != syscall.SIGTERM {
		t.Errorf("%+v, %v", exit, err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal: %v", err)
	}
	for range 2 {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := f.Create(ctx, sandbox.Spec{}); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("Create after Close: %v", err)
	}
	if _, err := box.Start(context.Background(), sandbox.Cmd{}); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("Start after Close: %v", err)
	}
}

func TestFakeSocket(t *testing.T) {
	ctx := context.Background()
	f := &sandboxtest.Fake{Run: func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit {
		conn, err := box.Dial(ctx, cmd.Args[0])
		if err != nil {
			t.Error(err)
			return sandbox.Exit{Code: 1}
		}
		defer conn.Close()
		fmt.Fprint(conn, "hello")
		return sandbox.Exit{}
	}}
	box, err := f.Create(ctx, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	l, path, err := box.Listen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Start(ctx, sandbox.Cmd{Args: []string{path}}); err != nil {
		t.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("accepted after Close")
	}
	if _, err := f.Boxes()[0].Dial(ctx, path); err == nil {
		t.Error("dialed after Close")
	}
}

func TestFakeFiles(t *testing.T) {
	ctx := context.Background()
	box, err := new(sandboxtest.Fake).Create(ctx, sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	files := box.Files()
	write := func(name, content string, opt sandbox.CreateOptions) error {
		f, err := files.Create(ctx, name, opt)
		if err != nil {
			return err
		}
		defer f.Discard()
		if _, err := io.WriteString(f, content); err != nil {
			return err
		}
		return f.Commit()
	}
	if err := errors.Join(files.MkdirAll(ctx, "/work/a/b", 0o700), write("/work/a/b/f", "one", sandbox.CreateOptions{Perm: 0o640})); err != nil {
		t.Fatal(err)
	}
	if err := write("/work/a/b/f", "two", sandbox.CreateOptions{New: true}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("New: %v", err)
	}
	if err := write("/nowhere/f", "", sandbox.CreateOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a parent: %v", err)
	}
	if err := files.Rename(ctx, "/work/a", "/work/c"); err != nil {
		t.Error(err)
	}
	f, err := files.Open(ctx, "/work/c/b/f")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(f); string(got) != "one" {
		t.Errorf("%q, %v", got, err)
	}
	if st, err := f.Stat(); err != nil || st.Mode() != 0o640 || st.Size() != 3 {
		t.Errorf("%v, %v", st, err)
	}
	if _, err := files.Open(ctx, "/work"); !errors.Is(err, sandbox.ErrNotRegular) {
		t.Errorf("Open of a directory: %v", err)
	}
	if err := files.Remove(ctx, "/work/c"); err == nil {
		t.Error("removed a directory that is not empty")
	}
	if err := files.RemoveAll(ctx, "/work/c"); err != nil {
		t.Error(err)
	}
	if entries, err := files.ReadDir(ctx, "/work"); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A box that is lost loses its commands and fails from then on, which Close
// does not.
func TestFakeLost(t *testing.T) {
	ctx := context.Background()
	f := &sandboxtest.Fake{Run: func(ctx context.Context, _ *sandboxtest.FakeBox, _ sandbox.Cmd) sandbox.Exit {
		<-ctx.Done()
		return sandbox.Exit{}
	}}
	if _, err := f.Create(ctx, sandbox.Spec{}); err != nil {
		t.Fatal(err)
	}
	box, why := f.Boxes()[0], fmt.Errorf("power cut: %w", sandbox.ErrLost)
	p, err := box.Start(ctx, sandbox.Cmd{})
	if err != nil || box.WhyLost() != nil {
		t.Fatal(err, box.WhyLost())
	}
	w, err := box.Files().Create(ctx, "/work/f", sandbox.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	box.Lose(why)
	box.Lose(errors.New("again"))
	<-box.Lost()
	_, waited := p.Wait()
	_, started := box.Start(ctx, sandbox.Cmd{})
	_, _, listened := box.Listen(ctx)
	_, looked := box.Files().Stat(ctx, "/work")
	for what, err := range map[string]error{
		"WhyLost": box.WhyLost(), "Wait": waited, "Start": started, "Listen": listened, "Stat": looked, "Commit": w.Commit(),
		"Mkdir": box.Files().Mkdir(ctx, "/work/d", 0o700), "MkdirAll": box.Files().MkdirAll(ctx, "/work/d", 0o700), "RemoveAll": box.Files().RemoveAll(ctx, "/work"),
	} {
		if !errors.Is(err, why) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := box.Close(ctx); err != nil || !box.Closed() {
		t.Error(err)
	}
}
