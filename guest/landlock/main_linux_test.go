package landlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// role is the variable that makes a re-executed test binary a restricted child;
// it holds a plan.
const role = "LANDLOCK_TEST_PLAN"

// plan is what a child is restricted to and what it tries then.
type plan struct {
	Options     Options
	Allow       []grant
	Trees, Deny []string // for Enumerate, granted as Access
	Access      Access
	Inherit     bool // restrict by a ruleset inherited as descriptor 3
	Attempts    []attempt
}

type grant struct {
	Path   string
	Access Access
}

type attempt struct{ Op, Path, To string }

func TestMain(m *testing.M) {
	text := os.Getenv(role)
	if text == "" {
		os.Exit(m.Run())
	}
	var p plan
	err := json.Unmarshal([]byte(text), &p)
	if err == nil {
		os.Unsetenv(role)
		runtime.LockOSThread()
		err = p.restrict()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "restricted child:", err)
		os.Exit(125)
	}
	var answers []syscall.Errno
	for _, a := range p.Attempts {
		errno := syscall.Errno(0)
		if err := a.do(); err != nil && !errors.As(err, &errno) {
			errno = syscall.EIO
		}
		answers = append(answers, errno)
	}
	json.NewEncoder(os.Stdout).Encode(answers)
}

func (p plan) restrict() error {
	if p.Inherit {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, 3, 0, 0); errno != 0 {
			return errno
		}
		return nil
	}
	rules, err := New(p.Options)
	if err != nil {
		return err
	}
	defer rules.Close()
	for _, g := range p.Allow {
		if err := rules.Allow(g.Path, g.Access); err != nil {
			return err
		}
	}
	list, err := Enumerate(p.Trees, p.Deny)
	if err != nil {
		return err
	}
	for _, r := range list {
		if err := rules.Add(r, p.Access); err != nil {
			return err
		}
	}
	return rules.Restrict()
}

// do makes an attempt on the calling thread.
func (a attempt) do() error {
	switch a.Op {
	case "read":
		_, err := os.ReadFile(a.Path)
		return err
	case "list":
		_, err := os.ReadDir(a.Path)
		return err
	case "stat":
		_, err := os.Stat(a.Path)
		return err
	case "run":
		return exec.Command(a.Path).Run()
	case "write":
		f, err := os.OpenFile(a.Path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString("w")
		return err
	case "create":
		f, err := os.OpenFile(a.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		return f.Close()
	case "truncate":
		return os.Truncate(a.Path, 0)
	case "mkdir":
		return os.Mkdir(a.Path, 0o755)
	case "remove":
		return os.Remove(a.Path)
	case "symlink":
		return os.Symlink(a.To, a.Path)
	case "link":
		return os.Link(a.To, a.Path)
	case "rename":
		return os.Rename(a.Path, a.To)
	case "fifo":
		return unix.Mkfifo(a.Path, 0o600)
	case "whiteout":
		return unix.Mknod(a.Path, unix.S_IFCHR, 0)
	case "listen unix":
		return listen("unix", a.Path)
	case "bind tcp":
		return listen("tcp", "127.0.0.1:0")
	case "connect":
		network, address, _ := strings.Cut(a.Path, " ")
		conn, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	case "signal parent":
		return syscall.Kill(syscall.Getppid(), 0)
	case "terminal size":
		fd, err := unix.Open(a.Path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
		return err
	}
	return fmt.Errorf("no attempt %q", a.Op)
}

func listen(network, address string) error {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // which Landlock does not take for TCP
	l, err := config.Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	return l.Close()
}

// need skips a test on a kernel whose Landlock is older than abi.
func need(t *testing.T, abi int) {
	t.Helper()
	if have := ABI(); have < abi {
		t.Skipf("the kernel has Landlock ABI %d, this needs %d", have, abi)
	}
}

// child prepares the run of a plan in a child of its own.
func child(t *testing.T, p plan) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), role+"="+string(text), "GORACE=atexit_sleep_ms=0") // under -race it sleeps else
	return cmd
}

// answers runs a child and returns what its attempts answered, in order.
func answers(t *testing.T, p plan, cmd *exec.Cmd) []syscall.Errno {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var list []syscall.Errno
	if err == nil {
		err = json.Unmarshal(out, &list)
	}
	if err != nil || len(list) != len(p.Attempts) {
		t.Fatalf("child: %v\n%s%s", err, out, stderr.String())
	}
	return list
}

// expectation is an attempt and what it must answer.
type expectation struct {
	attempt
	want syscall.Errno
}

// check runs a plan and compares.
func check(t *testing.T, p plan, expected []expectation) {
	t.Helper()
	for _, e := range expected {
		p.Attempts = append(p.Attempts, e.attempt)
	}
	for i, errno := range answers(t, p, child(t, p)) {
		if e := expected[i]; errno != e.want {
			t.Errorf("%s %s %s: %v, want %v", e.Op, e.Path, e.To, errno, e.want)
		}
	}
}

// tree makes files (and with a trailing slash directories) below a fresh
// directory reached without symlinks.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(full, 0o755)
		} else {
			err = os.WriteFile(full, []byte(name), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// duplicate returns a ruleset's descriptor as a file for a child to inherit.
func duplicate(t *testing.T, rules *Ruleset) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(rules.FD()), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "ruleset")
	t.Cleanup(func() { file.Close() })
	return file
}
