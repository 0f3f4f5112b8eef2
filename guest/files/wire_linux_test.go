package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestErrorsOnTheWire(t *testing.T) {
	long := "/" + strings.Repeat("long", 5000)
	for _, err := range []error{
		unix.ENOSPC,
		&fs.PathError{Op: "open", Path: "/a", Err: unix.ENOENT},
		&fs.PathError{Op: "open", Path: "/a\n\xff", Err: sandbox.ErrSymlink},
		&fs.PathError{Op: "open", Path: "/a", Err: sandbox.ErrNotRegular},
		&fs.PathError{Op: "mkdir", Path: "/", Err: fs.ErrExist},
		&fs.PathError{Op: "open", Path: "a", Err: fs.ErrInvalid},
		&fs.PathError{Op: "commit", Path: "a", Err: fs.ErrClosed},
		&fs.PathError{Op: "resolve", Path: "a", Err: context.Canceled},
		&fs.PathError{Op: "readdir", Path: "a", Err: errEntries},
		&os.LinkError{Op: "rename", Old: "/a", New: "/b", Err: unix.EXDEV},
		errors.New("something else"),
		errors.Join(&fs.PathError{Op: "removeall", Path: "/a", Err: unix.EPERM}, &fs.PathError{Op: "removeall", Path: "/b", Err: errMoved}),
	} {
		b := body{rest: packet(nil).error(err)}
		got := b.error()
		if got == nil || got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
			continue
		}
		for _, target := range append(sentinels[:], unix.ENOSPC, unix.ENOENT, unix.EXDEV, unix.EPERM) {
			if errors.Is(got, target) != errors.Is(err, target) {
				t.Errorf("%v is %v: %v before, %v after", err, target, errors.Is(err, target), errors.Is(got, target))
			}
		}
		if want, ok := err.(*fs.PathError); ok && !reflect.DeepEqual(got, want) {
			t.Errorf("%#v became %#v", err, got)
		}
	}
	// What is too long is cut, what is too many is left out, and it still is an error.
	var many []error
	for i := range 100 {
		many = append(many, &os.LinkError{Op: fmt.Sprint(i) + long, Old: long, New: long, Err: errors.New(long)})
	}
	p := newReply(nil, replyError, 1).error(errors.Join(many...))
	b := body{rest: p[5:]}
	if err := b.error(); err == nil || len(p) > maxReply || !strings.HasPrefix(err.Error(), "0/long") {
		t.Errorf("%d bytes, %.20v", len(p), err)
	}
}

func FuzzRequest(f *testing.F) {
	for _, r := range []request{
		{op: opResolve, seq: 1, name: "/a"}, {op: opOpen, name: "/"}, {op: opStat}, {op: opReadDir, name: "/é\n"},
		{op: opCreate, name: "/a", perm: 0o640, flags: flagNew | flagSync}, {op: opCommit, handle: 7}, {op: opDiscard},
		{op: opMkdir, perm: 0o777, name: "/x"}, {op: opMkdirAll, name: "/x"}, {op: opRename, name: "/a", to: "/b"},
		{op: opRemove, name: "/a"}, {op: opRemoveAll, name: "/a"}, {op: opMake, name: "/a/b", perm: 0o600, dir: 0o700},
		{op: opFind, name: "/a"}, {op: opFind, name: "/a", more: []string{"/b", ""}},
		{op: opStage, name: "/a", staged: []sandbox.StagedFile{{Name: "b", Content: "c"}, {Name: "d"}}},
		{op: opStage, name: "/a", staged: []sandbox.StagedFile{{Name: "b"}}, more: []string{"/c", "d"}},
	} {
		f.Add([]byte(r.append(nil)))
	}
	f.Add([]byte{})
	f.Add([]byte("?\x00\x00\x00\x01"))
	f.Add([]byte("o\x00\x00\x00\x01\xff\xff/a"))
	f.Add([]byte("g\x00\x00\x00\x01\x00\x02/a\x01\x00\x01b\xff\xff\xff\xffc"))
	f.Add([]byte("m\x00\x00\x00\x01\xff\x00\x00\x00\x00\x01/"))
	f.Fuzz(func(t *testing.T, in []byte) {
		r, err := parseRequest(in)
		if err != nil {
			return
		}
		// There is one way to write a request: nothing was passed over.
		if again := r.append(nil); !bytes.Equal(again, in) {
			t.Errorf("%q was read as %+v, which is %q", in, r, again)
		}
		if len(r.name) > maxName || len(r.to) > maxName || r.perm&^fs.ModePerm != 0 || len(in) > maxRequest {
			t.Errorf("out of bounds: %+v", r)
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(byte('!'), []byte(packet(nil).error(&fs.PathError{Op: "open", Path: "/a", Err: unix.EPERM})))
	f.Add(byte('!'), []byte{1, shapePlain, causeErrno, 0, 0, 0, 0})
	f.Add(byte('!'), []byte{255})
	f.Add(byte('+'), []byte{1, 1, 'a', 0, 2, 'b', 'c'})
	f.Add(byte('+'), []byte{1, 2, '.', '.'})
	f.Add(byte('s'), make([]byte, 144))
	f.Fuzz(func(t *testing.T, kind byte, in []byte) {
		b := body{rest: in}
		switch kind {
		case '!':
			if err := b.error(); err != nil {
				_ = err.Error()
				if again := (&body{rest: packet(nil).error(err)}).error(); again == nil {
					t.Errorf("%q became an error that cannot be told: %v", in, err)
				}
			}
			if (&body{rest: in}).error() == nil != b.bad {
				t.Errorf("%q: no error, and nothing wrong", in)
			}
		case '+':
			for len(b.rest) > 0 {
				name, _ := b.entry()
				if !b.bad && (name == "" || name == "." || name == ".." || len(name) > maxBase || strings.ContainsAny(name, "/\x00")) {
					t.Errorf("an entry named %q", name)
				}
			}
		case 's':
			var st syscall.Stat_t
			if b.stat(&st); b.end() && st.Size < 0 {
				t.Errorf("a size of %d", st.Size)
			}
		}
	})
}
