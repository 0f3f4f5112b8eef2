package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest/files/filestest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// TestServeConfined: all that a server does is done by the thread it was
// started on, which here can touch only one directory.
func TestServeConfined(t *testing.T) {
	in, out := filestest.TempTree(t), filestest.TempTree(t)
	filestest.MustWrite(t, out+"/a", "secret")
	filestest.MustWrite(t, in+"/a", "public")
	var serving sync.WaitGroup
	unsupported := make(chan error, maxConns)
	c := NewClient(func(context.Context) (*os.File, error) {
		client, server, err := Pair()
		if err != nil {
			return nil, err
		}
		serving.Go(func() {
			runtime.LockOSThread()
			defer server.Close()
			if err := confine(in); err != nil {
				unsupported <- err
				return
			}
			if err := Serve(int(server.Fd()), New()); err != nil {
				t.Error(err)
			}
		})
		return client, nil
	})
	defer serving.Wait()
	defer c.Close()
	ctx := t.Context()
	if _, err := c.Stat(ctx, in); err != nil {
		t.Skip("no Landlock here:", <-unsupported)
	}
	for what, err := range everyCall(ctx, c, out) {
		switch what {
		case "Resolve", "Stat": // Landlock does not hide what there is
		default:
			if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EXDEV) && !(what == "Rename" && errors.Is(err, fs.ErrNotExist)) {
				t.Errorf("%s outside: %v", what, err)
			}
		}
	}
	if got := filestest.Names(t, out); !slices.Equal(got, []string{"a"}) || filestest.Content(t, out+"/a") != "secret" {
		t.Errorf("outside there is now %q", got)
	}
	if err := c.Rename(ctx, out+"/a", in+"/stolen"); err == nil {
		t.Error("moved in from outside")
	}
	for i, opt := range []sandbox.CreateOptions{{}, {New: true}, {Sync: true}, {New: true, Sync: true}} {
		name := fmt.Sprint(in, "/new", i)
		if err := filestest.Put(c, name, "x", opt); err != nil || filestest.Content(t, name) != "x" {
			t.Errorf("Create %+v inside: %v", opt, err)
		}
	}
	if f, err := c.Open(ctx, in+"/a"); err != nil {
		t.Error(err)
	} else {
		f.Close()
	}
	for what, err := range map[string]error{
		"MkdirAll":  c.MkdirAll(ctx, in+"/x/y", 0o700),
		"Rename":    c.Rename(ctx, in+"/x/y", in+"/x/z"),
		"ReadDir":   second(c.ReadDir(ctx, in+"/x")),
		"RemoveAll": c.RemoveAll(ctx, in+"/x"),
	} {
		_ = what
		if err != nil {
			t.Errorf("%s inside: %v", what, err)
		}
	}
}

// confine leaves the calling thread one directory.
func confine(dir string) error {
	const all = 1<<15 - 1 // every right of ABI 3
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(ruleset))
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: all, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return errno
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ruleset, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
