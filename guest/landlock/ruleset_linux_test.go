package landlock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadAndWrite(t *testing.T) {
	need(t, 3)
	dir := tree(t, "ro/file", "ro/sub/file", "rw/file", "rw/sub/", "out/file")
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, at := range []string{"ro", "rw", "out"} {
		copyFile(t, "/bin/true", in(at+"/true"))
	}
	p := plan{Allow: []grant{{in("ro"), Read}, {in("rw"), Write}, {"/dev/null", Write}}}
	for _, libraries := range []string{"/usr", "/lib", "/lib64", "/etc/ld.so.cache"} {
		if info, err := os.Lstat(libraries); err == nil && info.Mode()&os.ModeSymlink == 0 {
			p.Allow = append(p.Allow, grant{libraries, Read})
		}
	}
	check(t, p, []expectation{
		{attempt{"read", in("ro/sub/file"), ""}, 0},
		{attempt{"list", in("ro"), ""}, 0},
		{attempt{"run", in("ro/true"), ""}, 0},
		{attempt{"write", in("ro/file"), ""}, syscall.EACCES},
		{attempt{"truncate", in("ro/file"), ""}, syscall.EACCES},
		{attempt{"create", in("ro/new"), ""}, syscall.EACCES},
		{attempt{"mkdir", in("ro/new"), ""}, syscall.EACCES},
		{attempt{"remove", in("ro/file"), ""}, syscall.EACCES},
		{attempt{"rename", in("ro/file"), in("ro/new")}, syscall.EACCES},
		{attempt{"rename", in("ro/file"), in("rw/stolen")}, syscall.EACCES},
		{attempt{"symlink", in("ro/new"), "file"}, syscall.EACCES},

		{attempt{"read", in("rw/file"), ""}, 0},
		{attempt{"list", in("rw"), ""}, 0},
		{attempt{"run", in("rw/true"), ""}, 0},
		{attempt{"write", in("rw/file"), ""}, 0},
		{attempt{"truncate", in("rw/file"), ""}, 0},
		{attempt{"create", in("rw/new"), ""}, 0},
		{attempt{"mkdir", in("rw/dir"), ""}, 0},
		{attempt{"symlink", in("rw/link"), "../out/file"}, 0},
		{attempt{"fifo", in("rw/fifo"), ""}, 0},
		{attempt{"listen unix", in("rw/socket"), ""}, 0},
		{attempt{"link", in("rw/sub/hard"), in("rw/file")}, 0},
		{attempt{"rename", in("rw/new"), in("rw/sub/new")}, 0},
		{attempt{"remove", in("rw/sub/new"), ""}, 0},
		{attempt{"remove", in("rw/dir"), ""}, 0},
		{attempt{"whiteout", in("rw/mark"), ""}, syscall.EACCES},

		{attempt{"stat", in("out/file"), ""}, 0}, // Landlock does not restrict it
		{attempt{"read", in("out/file"), ""}, syscall.EACCES},
		{attempt{"read", in("rw/link"), ""}, syscall.EACCES},
		{attempt{"write", in("rw/link"), ""}, syscall.EACCES},
		{attempt{"list", in("out"), ""}, syscall.EACCES},
		{attempt{"run", in("out/true"), ""}, syscall.EACCES},
		{attempt{"create", in("out/new"), ""}, syscall.EACCES},
		{attempt{"truncate", in("out/file"), ""}, syscall.EACCES},
		{attempt{"rename", in("rw/file"), in("out/file")}, syscall.EACCES},
		{attempt{"link", in("rw/hard"), in("ro/file")}, syscall.EXDEV},
	})
	if text, err := os.ReadFile(in("out/file")); string(text) != "out/file" {
		t.Errorf("outside: %q, %v", text, err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRulesOnFilesAndWhatIsRefused(t *testing.T) {
	need(t, 1)
	dir := tree(t, "file", "other", "dir/")
	in := func(name string) string { return filepath.Join(dir, name) }
	if err := os.Symlink("file", in("link")); err != nil {
		t.Fatal(err)
	}
	check(t, plan{Allow: []grant{{in("file"), Write}, {in("other"), Read}, {in("dir"), List}, {"/dev/null", Write | Ioctl}}}, []expectation{
		{attempt{"write", in("file"), ""}, 0},
		{attempt{"read", in("link"), ""}, 0},
		{attempt{"read", in("other"), ""}, 0},
		{attempt{"write", in("other"), ""}, syscall.EACCES},
		{attempt{"write", "/dev/null", ""}, 0},
		{attempt{"write", "/dev/zero", ""}, syscall.EACCES},
		{attempt{"list", in("dir"), ""}, 0},
		{attempt{"list", dir, ""}, syscall.EACCES},
		{attempt{"create", in("dir/new"), ""}, syscall.EACCES},
	})

	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	if err := rules.Allow(in("link"), Read); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a symlink: %v", err)
	}
	if err := rules.Allow(in("missing"), Read); !errors.Is(err, syscall.ENOENT) || !strings.Contains(err.Error(), in("missing")) {
		t.Errorf("a missing path: %v", err)
	}
	if err := rules.AllowFD(-1, Read); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
	if err := rules.Allow(in("file"), List); err != nil {
		t.Errorf("nothing to grant: %v", err)
	}
	if rules.Enforced() != fmt.Sprintf("Landlock ABI %d", rules.ABI()) || rules.ABI() != min(ABI(), newest) {
		t.Errorf("%s", rules.Enforced())
	}
}

// TestEachABIKeepsWhatTheNextMissingNames tries what each ABI brought, one
// below and at it: Missing must name it exactly where the attempt tells.
func TestEachABIKeepsWhatTheNextMissingNames(t *testing.T) {
	need(t, 1)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	abstract, err := net.Listen("unix", "@landlock-test-"+fmt.Sprint(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	dir := tree(t, "rw/a/file", "rw/b/", "ro/file", "out/")
	in := func(name string) string { return filepath.Join(dir, name) }
	socket, err := net.Listen("unix", in("out/s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()

	tried := 0
	for _, c := range []struct {
		abi       int
		gap       string
		try       attempt
		below, at syscall.Errno
	}{
		{2, "renamed", attempt{"rename", in("rw/a/file"), in("rw/b/file")}, syscall.EXDEV, 0},
		{3, "truncated", attempt{"truncate", in("ro/file"), ""}, 0, syscall.EACCES},
		{4, "TCP", attempt{"connect", "tcp " + tcp.Addr().String(), ""}, 0, syscall.EACCES},
		{4, "TCP", attempt{"bind tcp", "", ""}, 0, syscall.EACCES},
		{5, "ioctl", attempt{"terminal size", "/dev/ptmx", ""}, 0, syscall.EACCES},
		{6, "abstract", attempt{"connect", "unix " + abstract.Addr().String(), ""}, 0, syscall.EPERM},
		{6, "signalled", attempt{"signal parent", "", ""}, 0, syscall.EPERM},
		{9, "file system", attempt{"connect", "unix " + in("out/s"), ""}, 0, syscall.EACCES},
	} {
		named := func(gaps []Gap) bool {
			for _, g := range gaps {
				if g.ABI == c.abi && strings.Contains(g.What, c.gap) {
					return true
				}
			}
			return false
		}
		o := Options{DenyTCP: true}
		if !named(missing(c.abi-1, o)) || named(missing(c.abi, o)) {
			t.Errorf("%s: Missing at ABI %d and %d: %v %v", c.gap, c.abi-1, c.abi, missing(c.abi-1, o), missing(c.abi, o))
		}
		for abi, want := range map[int]syscall.Errno{c.abi - 1: c.below, c.abi: c.at} {
			if abi > ABI() {
				continue
			}
			tried++
			o := Options{DenyTCP: true, MaxABI: abi}
			check(t, plan{Options: o, Allow: []grant{{in("rw"), Write}, {in("ro"), Read}, {"/dev", Write}}}, []expectation{{c.try, want}})
			os.Rename(in("rw/b/file"), in("rw/a/file"))
		}
	}
	if tried == 0 {
		t.Error("nothing was tried")
	}
	if named := missing(3, Options{}); len(named) != 4 {
		t.Errorf("TCP is missed where nobody asked for it: %v", named)
	}
	if all := missing(newest, Options{DenyTCP: true}); all != nil {
		t.Errorf("missing at the newest ABI: %v", all)
	}
}

func TestTwinsOfScopesAndDevices(t *testing.T) {
	need(t, 6)
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	check(t, plan{Allow: []grant{{"/dev", Write | Ioctl}, {"/dev/null", Write}}}, []expectation{
		{attempt{"terminal size", "/dev/ptmx", ""}, 0},
		{attempt{"connect", "tcp " + tcp.Addr().String(), ""}, 0},
		{attempt{"bind tcp", "", ""}, 0},
		{attempt{"listen unix", "@landlock-own", ""}, 0},
	})
}

func TestRestrictIsForOneThread(t *testing.T) {
	need(t, 1)
	dir := tree(t, "file")
	name := filepath.Join(dir, "file")
	inside := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends here
		rules, err := New(Options{})
		if err == nil {
			defer rules.Close()
			err = rules.Restrict()
		}
		if err == nil {
			_, err = os.ReadFile(name)
		}
		inside <- err
	}()
	if err := <-inside; !errors.Is(err, syscall.EACCES) {
		t.Errorf("the restricted thread read: %v", err)
	}
	if _, err := os.ReadFile(name); err != nil {
		t.Errorf("another thread: %v", err)
	}
}

func TestDescriptorRestrictsAChild(t *testing.T) {
	need(t, 1)
	dir := tree(t, "in/file", "out/file")
	rules, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rules.Close()
	fd, err := unix.Open(filepath.Join(dir, "in"), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := rules.AllowFD(fd, Read); err != nil {
		t.Fatal(err)
	}
	if flags, err := unix.FcntlInt(uintptr(rules.FD()), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("the descriptor is not close-on-exec: %#x, %v", flags, err)
	}
	p := plan{Inherit: true, Attempts: []attempt{
		{"read", filepath.Join(dir, "in/file"), ""}, {"read", filepath.Join(dir, "out/file"), ""}, {"create", filepath.Join(dir, "in/new"), ""},
	}}
	cmd := child(t, p)
	cmd.ExtraFiles = []*os.File{duplicate(t, rules)}
	got := answers(t, p, cmd)
	if got[0] != 0 || got[1] != syscall.EACCES || got[2] != syscall.EACCES {
		t.Errorf("%v", got)
	}
}
