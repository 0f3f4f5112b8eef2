package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// attacked opens a confined box in a directory of its own. home is readable in
// it, and not below any directory of the box's own.
func attacked(t *testing.T, change func(dir, home string, p *sandbox.Policy)) (box sandbox.Sandbox, dir, home string) {
	t.Helper()
	dir, home = t.TempDir(), t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	p := sandbox.Policy{
		Name: "attacked", Read: []string{"/", home}, Write: []string{dir}, Network: sandbox.NetworkHost,
		BestEffort: []sandbox.ClauseName{sandbox.ClauseResources},
	}
	if change != nil {
		change(dir, home, &p)
	}
	backend := New(Config{})
	box, err := backend.Create(context.Background(), sandbox.Spec{WorkDir: dir, Policy: p})
	if err != nil {
		backend.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(box.Close(context.Background()), backend.Close()); err != nil {
			t.Error(err)
		}
	})
	return box, dir, home
}

// try runs a Python script with arguments and returns its output.
func try(t *testing.T, box sandbox.Sandbox, script string, args ...string) string {
	t.Helper()
	out, _ := in(t, box, append([]string{"/usr/bin/python3", "-c", script}, args...)...)
	return out
}

// public is a directory that everybody can get to, unlike a test's own.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "attack")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// later lets the time pass after which a box's view is looked at again.
func later(b sandbox.Sandbox) { b.(*box).inside.(*confined).cover.looked = time.Time{} }

func put(t *testing.T, name, text string) {
	t.Helper()
	temp := name + ".new"
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(temp, []byte(text), 0o644), os.Rename(temp, name))
	if err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A file that is replaced loses the mount over it, and what was not there has
// none. The next command must not profit.
func TestAttackWhatTheMachineReplaces(t *testing.T) {
	var config string
	box, dir, home := attacked(t, func(dir, home string, p *sandbox.Policy) {
		config = filepath.Join(dir, ".git", "config")
		put(t, filepath.Join(dir, ".git", "HEAD"), "ref: refs/heads/x\n")
		put(t, config, "[core]\n")
		put(t, filepath.Join(dir, "plain"), "")
		put(t, filepath.Join(home, "netrc"), "first")
		put(t, filepath.Join(home, "notes"), "open to all")
		if os.Getuid() == 0 { // what the script owns
			for _, name := range []string{".git", ".git/config", ".git/HEAD", "plain"} {
				if err := os.Chown(filepath.Join(dir, name), 12345, 12345); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.DenyRead = []string{filepath.Join(home, "netrc"), filepath.Join(home, "aws")}
		p.DenyWrite = []string{config}
	})
	const script = `
import os, socket, sys
home, dir = sys.argv[1:]
for name in ("notes", "netrc", "aws/key"):
    try: print(name, open(os.path.join(home, name)).read())
    except OSError: print(name, "closed")
for name in ("plain", ".git/config"):
    try: open(os.path.join(dir, name), "a").write("evil"); print(name, "written")
    except OSError: print(name, "closed")
try: socket.socket(socket.AF_UNIX).connect(home + "/sock"); print("sock reached")
except OSError: print("sock closed")
`
	const want = "notes open to all\nnetrc closed\naws/key closed\nplain written\n.git/config closed\nsock closed\n"
	if got := try(t, box, script, home, dir); got != want {
		t.Fatalf("before:\n%s", got)
	}
	put(t, filepath.Join(home, "netrc"), "second")
	put(t, filepath.Join(home, "aws", "key"), "third")
	put(t, config, "[core] # anew\n")
	if os.Getuid() == 0 {
		if err := os.Chown(config, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(home, "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := os.Chmod(filepath.Join(home, "sock"), 0o777); err != nil {
		t.Fatal(err)
	}
	later(box)
	if got := try(t, box, script, home, dir); got != want {
		t.Errorf("after:\n%s", got)
	}
	if got := text(t, config); got != "[core] # anew\n" {
		t.Errorf("the guarded file holds %q", got)
	}
	if got := text(t, filepath.Join(dir, "plain")); got != "evilevil" {
		t.Errorf("what may be written holds %q", got)
	}
	later(box) // nothing has changed any more: nothing is mounted anew
	// Of these places: sockets of others come and go, and what hides them with them.
	const mounts = "import sys\nfor line in open('/proc/self/mountinfo'):\n    if any(dir in line for dir in sys.argv[1:]): print(*line.split()[2:6])"
	before := try(t, box, mounts, home, dir)
	later(box)
	if after := try(t, box, mounts, home, dir); after != before || before == "" {
		t.Errorf("mounts:\n%s\nthen\n%s", before, after)
	}
}

// The kernel gives the number of a removed directory to the next one: what took
// the place of a guarded one is looked at all the same.
func TestAttackTheSameNumber(t *testing.T) {
	box, dir, _ := attacked(t, func(dir, _ string, p *sandbox.Policy) {
		p.DenyWrite = []string{filepath.Join(dir, ".vscode")}
	})
	began := time.Now()
	script := `
import os, sys
dir, want = sys.argv[1] + "/.vscode", int(sys.argv[2])
for i in range(200):
    try: os.mkdir(dir)
    except OSError as e: sys.exit(str(e.errno))
    if os.stat(dir).st_ino == want: break
    if i < 199: os.rmdir(dir)
open(dir + "/tasks.json", "w").write("{}")
`
	st, err := os.Stat(filepath.Join(dir, ".vscode"))
	if err != nil {
		t.Fatal(err)
	}
	number := strconv.FormatUint(st.Sys().(*syscall.Stat_t).Ino, 10)
	if got := try(t, box, script, dir, number); got != strconv.Itoa(int(unix.EEXIST))+"\n" {
		t.Fatalf("while it stands: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, ".vscode")); err != nil { // as git clean does
		t.Fatal(err)
	}
	if got := try(t, box, script, dir, number); got != "" {
		t.Fatal(got)
	}
	found, complete, err := box.(sandbox.Auditor).FutureInputs(context.Background(), began)
	if err != nil || !complete || !slices.ContainsFunc(found, func(f sandbox.FutureInput) bool { return f.Path == filepath.Join(dir, ".vscode/tasks.json") }) {
		t.Errorf("%+v, %v, %v", found, complete, err)
	}
}

// Names of sockets are their owners' invention: one can look like a line of the
// kernel's table about any place.
func TestAttackForgedSocketNames(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a\n ", "usr")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	forged, err := net.Listen("unix", filepath.Join(dir, "bin"))
	if err != nil {
		t.Skip(err) // a longer path than there is room for
	}
	defer forged.Close()
	var real net.Listener
	box, _, home := attacked(t, func(_, home string, _ *sandbox.Policy) {
		if real, err = net.Listen("unix", filepath.Join(home, "s")); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(home, "s"), 0o777); err != nil {
			t.Fatal(err)
		}
	})
	defer real.Close()
	if got := try(t, box, "import os; print(os.path.exists('/usr/bin/env'))"); got != "True\n" {
		t.Errorf("a name hid /usr/bin: %q", got)
	}
	if got := try(t, box, `
import socket, sys
try: socket.socket(socket.AF_UNIX).connect(sys.argv[1]); print("reached")
except OSError: print("closed")`, filepath.Join(home, "s")); got != "closed\n" {
		t.Errorf("a socket of the machine: %q", got)
	}
}

// However many sockets there are, none is left open for lack of room.
func TestAttackManySocketNames(t *testing.T) {
	home := t.TempDir()
	var table strings.Builder
	table.WriteString("Num       RefCount Protocol Flags    Type St Inode Path\n")
	real := filepath.Join(home, "s")
	listener, err := net.Listen("unix", real)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for i := range 5000 {
		fmt.Fprintf(&table, "0: 00000002 00000000 00010000 0001 01 %d /nowhere/%d\n", i, i)
	}
	fmt.Fprintf(&table, "0: 00000002 00000000 00010000 0001 01 1 @/abstract\n0: 00000002 00000000 00010000 0001 01 1 %s\n \n/etc/passwd\n /etc/passwd\n", real)
	anywhere := func(string) bool { return true }
	if got, err := socketNames(strings.NewReader(table.String()), anywhere); err != nil || !slices.Equal(got, []string{real}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := socketNames(io.MultiReader(strings.NewReader(table.String()), iotest.ErrReader(syscall.EMFILE)), anywhere); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("a table that cannot be read to its end: %q, %v", got, err)
	}
}

// Descriptors in flight are counted by user: a script that has as many as it
// can must not keep other boxes of its user from passing any.
func TestAttackDescriptorsInFlight(t *testing.T) {
	attacker, dir, _ := attacked(t, nil)
	victim, victimDir, _ := attacked(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p, err := attacker.Start(ctx, sandbox.Cmd{Env: []string{"PATH=/usr/bin:/bin"}, Grace: time.Millisecond, Args: []string{"/usr/bin/python3", "-c", `
import array, os, socket, sys, time
null, pairs, n, why = os.open("/dev/null", os.O_RDONLY), [], 0, "no end"
try:
    while n < 400000:
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        pairs.append((a, b))
        for _ in range(10):
            a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [null] * 250))])
            n += 250
except OSError as e:
    why = e.errno
open("said", "w").write("%s %d" % (why, n)); os.rename("said", "full")
time.sleep(600)`}})
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(dir, "full")
	for stop := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(full); err == nil {
			break
		} else if time.Now().After(stop) {
			t.Fatal("the attack did not get on")
		}
	}
	if said := text(t, full); !strings.HasPrefix(said, strconv.Itoa(int(unix.ETOOMANYREFS))+" ") {
		t.Skipf("so many may be open here that it took no end: %s", said)
	}
	if got := try(t, victim, "open('made', 'w').write('text'); print('ran')"); got != "ran\n" {
		t.Errorf("a command in another box: %q", got)
	}
	f, err := victim.Files().Open(context.Background(), filepath.Join(victimDir, "made"))
	if err != nil {
		t.Errorf("a file in another box: %v", err)
	} else {
		f.Close()
	}
	cancel()
	if _, err := p.Wait(); err != nil {
		t.Error(err)
	}
}

// A directory's group gives a script nothing its owner does not have.
func TestAttackGroupOfTheWorkDir(t *testing.T) {
	for _, c := range []struct{ uid, gid, want int }{
		{12345, 12345, 12345}, {12345, 0, 12345}, {12345, 42, 12345}, {1, 42, 1}, {1, 0, 1}, {1, 1, 1},
	} {
		if u, err := user.LookupId(strconv.Itoa(c.uid)); err == nil && u.Gid != strconv.Itoa(c.want) || err != nil && c.uid == 1 {
			continue // another table of users
		}
		if got := groupOf(c.uid, c.gid); got != c.want {
			t.Errorf("user %d in a directory of group %d is of group %d, want %d", c.uid, c.gid, got, c.want)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	for _, owner := range []int{0, 12345} {
		dir, secret := t.TempDir(), filepath.Join(public(t), "secret")
		if err := errors.Join(os.WriteFile(secret, []byte("group's"), 0o640), os.Chown(secret, 777, 42), os.Chown(dir, owner, 42)); err != nil {
			t.Fatal(err)
		}
		backend := New(Config{})
		box, err := backend.Create(context.Background(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{
			Name: "group", Read: []string{"/", filepath.Dir(secret)}, Write: []string{dir}, BestEffort: []sandbox.ClauseName{sandbox.ClauseResources},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got := try(t, box, "import os, sys; print(os.getgid() == 42, os.access(sys.argv[1], os.R_OK))", secret); got != "False False\n" {
			t.Errorf("in a directory of %d: %q", owner, got)
		}
		if err := errors.Join(box.Close(context.Background()), backend.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Without namespaces root's boxes are not root's either: as root a script could
// change modes and owners all over the machine, which Landlock does not see. Nor
// does it see what asks for the same user alone.
func TestAttackWithoutNamespaces(t *testing.T) {
	outside := filepath.Join(public(t), "outside")
	put(t, outside, "")
	owners := []int{os.Getuid()}
	if os.Getuid() == 0 {
		owners = []int{0, 12345}
	}
	for _, owner := range owners {
		dir := public(t)
		if err := os.Chown(dir, owner, owner); err != nil {
			t.Fatal(err)
		}
		backend := New(Config{})
		defer backend.Close()
		b := &box{backend: backend, processes: map[*process]struct{}{}}
		b.info.WorkDir = dir
		err := b.walled(context.Background(), sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{
			Name: "wall", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost,
			BestEffort: []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseProcesses, sandbox.ClauseResources},
		}}, &guest.SetupError{Stage: "spawn", Errno: unix.EPERM, Text: "none"})
		if err != nil && strings.Contains(err.Error(), "could connect to sockets") { // somebody listens here: the rest cannot be run
			if err := wallUser(boxUser{uid: BoxUID, foreign: os.Getuid() == 0}, []string{dir}); (err == nil) != (owner != 0) {
				t.Errorf("a directory of %d: %v", owner, err)
			}
			continue
		}
		if owner == 0 {
			if !errors.Is(err, sandbox.ErrPolicy) || !strings.Contains(err.Error(), "chown") {
				t.Errorf("a directory of root's: %v", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		b.closing, b.begin = context.WithCancelCause(context.Background())
		got := try(t, b, `
import ctypes, os, resource, sys
libc = ctypes.CDLL(None, use_errno=True)
open("made", "w").close(); os.chmod("made", 0o700)
def attempt(what, f):
    try: f(); print(what, "done")
    except (OSError, ValueError): print(what, "refused")
print(os.getuid())
if sys.argv[2] == "0":
    attempt("mode", lambda: os.chmod(sys.argv[1], 0o777))
    attempt("owner", lambda: os.chown(sys.argv[1], os.getuid(), -1))
attempt("limit of its own", lambda: resource.prlimit(0, resource.RLIMIT_CORE, (0, 0)))
attempt("limit of another, read", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE))
attempt("limit of another", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1)))
print("segment", libc.shmget(0, 4096, 0o1600) >= 0)
`, outside, strconv.Itoa(os.Getuid()))
		want := strconv.Itoa(owner) + "\n"
		if os.Getuid() == 0 {
			want += "mode refused\nowner refused\n"
		}
		want += "limit of its own done\nlimit of another, read done\nlimit of another refused\nsegment False\n"
		if got != want {
			t.Errorf("%s", got)
		}
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if st, err := os.Stat(outside); err != nil || st.Mode().Perm() != 0o644 || int(st.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
			t.Errorf("%v, %v", st, err)
		}
	}
}

// TestALateEndKillsNobody: a context that is done just when its command has
// ended must not have the box killed, where others run, seconds later.
func TestALateEndKillsNobody(t *testing.T) {
	b := New(Config{Scratch: t.TempDir()})
	defer b.Close()
	box, err := b.Create(context.Background(), sandbox.Spec{WorkDir: t.TempDir(), Policy: sandbox.Policy{Name: "open", Unconfined: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	started, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}})
	if err != nil {
		t.Fatal(err)
	}
	p := started.(*process)
	<-p.Gone()
	p.end(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchdog != nil {
		t.Error("an end that came too late waits to kill the box")
	}
}

// What is covered is covered for the very first call, whether that is a file
// tool or a command, however much there is to cover.
func TestAttackBeforeTheViewIsWhole(t *testing.T) {
	for i := range 6 {
		last, free := "", ""
		box, _, _ := attacked(t, func(_, home string, p *sandbox.Policy) {
			for i := range 300 {
				dir := fmt.Sprintf("%s/%03d", home, i)
				if err := os.Mkdir(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				p.DenyRead = append(p.DenyRead, dir)
				last = filepath.Join(dir, "key")
			}
			free = filepath.Join(home, "free")
			put(t, last, "s3cret")
			put(t, free, "for all")
			if err := os.Symlink("/etc/target", last+"-link"); err != nil {
				t.Fatal(err)
			}
		})
		if i%3 == 2 { // a name that is in scratch only as it is spelt
			if name, err := box.Files().Resolve(t.Context(), "/run/hermes-exec/../.."+last+"-link"); err == nil {
				t.Errorf("a link was read: %s", name)
			}
		} else if i%3 == 0 {
			if f, err := box.Files().Open(t.Context(), last); err == nil {
				f.Close()
				t.Error("a file tool read it")
			}
			if f, err := box.Files().Open(t.Context(), free); err != nil {
				t.Error(err)
			} else {
				f.Close()
			}
		} else if out, _ := in(t, box, "/bin/cat", last, free); strings.Contains(out, "s3cret") || !strings.Contains(out, "for all") {
			t.Errorf("a command read %q", out)
		}
	}
}

// A disk that a run has filled, and that was emptied after it, does not stop the
// next run from getting its socket.
func TestSocketAfterAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	backend := New(Config{})
	defer backend.Close()
	box, err := backend.Create(t.Context(), sandbox.Spec{
		WorkDir: dir, Resources: sandbox.Resources{Disk: 1 << 20},
		Policy: sandbox.Policy{Name: "full", Read: []string{"/"}, Network: sandbox.NetworkHost, BestEffort: []sandbox.ClauseName{sandbox.ClauseResources}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close(context.Background())
	first, _, err := box.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	full := filepath.Join(box.Info().ScratchDir, "full")
	if err := box.Files().Mkdir(t.Context(), full, 0o700); err != nil {
		t.Fatal(err)
	}
	if out := try(t, box, `
import os, sys
try:
    for n in range(1 << 20):
        open("%s/%d" % (sys.argv[1], n), "w").close()
except OSError as e:
    print(e.strerror)
`, full); !strings.Contains(out, "No space") {
		t.Fatal(out)
	}
	if _, _, err := box.Listen(t.Context()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on the full disk: %v", err)
	}
	if err := errors.Join(first.Close(), box.Files().RemoveAll(t.Context(), full)); err != nil {
		t.Fatal(err)
	}
	l, _, err := box.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
