package sshwire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// FuzzCommand: arguments, variables and paths arrive byte for byte.
func FuzzCommand(f *testing.F) {
	f.Add("ls", "-l", "/a b", "A=1")
	f.Add("\xff\xfe", "", "\xc3(", "É=\x80\n")
	f.Add(`{"bytes":"eA=="}`, "\u2028<&>", "", "=")
	f.Fuzz(func(t *testing.T, program, arg, dir, env string) {
		for _, c := range []sshwire.Command{
			{Args: []string{program, arg}, Dir: dir, Env: []string{env, arg}, Grace: 3, Keep: true},
			{Args: []string{program}, Env: []string{}},
			{Args: []string{program}},
		} {
			b, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			var got sshwire.Command
			if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, c) {
				t.Errorf("%s: %+v, %v, want %+v", b, got, err, c)
			}
		}
		r := sshwire.BoxRequest{ID: "i", WorkDir: dir, Env: []string{env}, Profile: sandbox.Profile{Name: "open"}}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var got sshwire.BoxRequest
		if err := json.Unmarshal(b, &got); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: %+v, %v, want %+v", b, got, err, r)
		}
	})
}

func TestFailure(t *testing.T) {
	b, err := json.Marshal(sshwire.NewFailure(errors.Join(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}, sandbox.ErrPolicy)))
	if err != nil {
		t.Fatal(err)
	}
	var f *sshwire.Failure
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(f, fs.ErrNotExist) || !errors.Is(f, sandbox.ErrPolicy) || errors.Is(f, fs.ErrExist) || errors.Is(f, io.EOF) {
		t.Errorf("%+v", f)
	}
}

func TestSignals(t *testing.T) {
	for sig, name := range map[syscall.Signal]string{syscall.SIGTERM: "TERM", syscall.SIGKILL: "KILL", syscall.SIGINT: "INT", 40: "40"} {
		if got := sshwire.SignalName(sig); got != name {
			t.Errorf("%d is %q", sig, got)
		}
		if got, ok := sshwire.SignalOf(name); !ok || got != sig {
			t.Errorf("%q is %d", name, got)
		}
	}
	for _, name := range []string{"", "SIGTERM", "0", "-1", "65", "NONE"} {
		if got, ok := sshwire.SignalOf(name); ok {
			t.Errorf("%q is %d", name, got)
		}
	}
}

// TestStream: who writes never waits for the reader, bulk data asks for room,
// and a reader that never comes ends it.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, there := net.Pipe()
		s := sshwire.NewStream(near)
		block := make([]byte, 64<<10)
		for range 16 {
			if _, err := s.Write(block); err != nil { // nobody reads
				t.Fatal(err)
			}
			synctest.Wait() // the first is under way, and the others wait behind it
		}
		room := make(chan struct{})
		go func() { s.Room(); close(room) }()
		synctest.Wait()
		select {
		case <-room:
			t.Fatal("there is room for more")
		default:
		}
		if _, err := io.ReadFull(there, make([]byte, 16*len(block))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		<-room
		var err error
		for n := 0; err == nil; n += len(block) {
			if _, err = s.Write(block); n > 64<<20 {
				t.Fatal("it takes everything")
			}
		}
		s.Room() // ended: nothing to wait for
		if _, err := there.Read(block); err == nil {
			_, err = io.Copy(io.Discard, there)
			if err != nil {
				t.Error(err)
			}
		}
		s.Close()
		if _, err := s.Write(block); err == nil {
			t.Error("written after the end")
		}
	})
}

// A failure keeps its text and its kinds in the text of a status; what only
// looks like kinds stays text.
func TestFailureLine(t *testing.T) {
	for _, err := range []error{
		errors.New("plain"), errors.New("a [list]"), errors.New("[exist]"), errors.New(""), errors.New("x []"), errors.New("x [exist]"),
		syscall.ENOTDIR, sandbox.ErrSymlink, fs.ErrNotExist, fmt.Errorf("one [exist]: %w", sandbox.ErrNotRegular),
	} {
		want := sshwire.NewFailure(err)
		if got := sshwire.ParseFailure(want.Line()); !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %+v, want %+v", want.Line(), got, want)
		}
	}
	for _, line := range []string{"a [exist", "a exist]", "a [exist,]", "a [exist,else]", " ]", "["} {
		if got := sshwire.ParseFailure(line); got.Text != line || got.Kinds != nil {
			t.Errorf("%q became %+v", line, got)
		}
	}
}
