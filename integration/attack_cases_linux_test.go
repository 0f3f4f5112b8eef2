package integration

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Attacks that the probes of selftest cannot make: they need another
// configuration, leave something to be looked at from outside, or are about how
// a run ends. Each has a twin that shows that it works where nothing stops it.

// want fails unless a run ended as wanted; in the output of a success is what
// the script found out.
func (o outcome) want(t *testing.T, status, output string) {
	t.Helper()
	if o.Status != status || !strings.Contains(o.Output, output) {
		t.Errorf("status %q, want %q; output %q, want %q in it; %s%s", o.Status, status, o.Output, output, o.Error, o.stderr)
	}
}

// setid are files that run with their owner's or group's rights.
func setid(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				names = append(names, name)
			}
		}
		return nil
	})
	return names
}

// 9: a program that gives whoever starts it on the host the rights of the
// workspace's owner, made in every way there is.
func attackSetID(t *testing.T, bin string) {
	const script = `
import ctypes, os, struct
libc = ctypes.CDLL(None, use_errno=True)
call = lambda n, *a: libc.syscall(*[ctypes.c_long(x) if isinstance(x, int) else x for x in (n,) + a])
for bits in (0o4755, 0o2755, 0o6711):
    n = "%o" % bits
    fd = os.open("plain" + n, os.O_CREAT | os.O_WRONLY, 0o755)
    for attempt in (
        lambda: os.chmod("plain" + n, bits),
        lambda: os.fchmod(fd, bits),
        lambda: call(452, -100, b"plain" + n.encode(), bits, 0),  # fchmodat2
        lambda: os.close(os.open("made" + n, os.O_CREAT | os.O_WRONLY, bits)),
        lambda: os.mknod("node" + n, 0o100000 | bits),
        lambda: call(437, -100, b"how" + n.encode(), struct.pack("<QQQ", os.O_CREAT | os.O_WRONLY, bits, 0), 24),  # openat2
        lambda: call(85, b"creat" + n.encode(), bits) if os.uname().machine == "x86_64" else None,
    ):
        try:
            attempt()
        except OSError as e:
            pass
print("tried")
`
	for _, policy := range []string{"workspace", "open"} {
		g := newGround(t, bin)
		g.run(policy, script).want(t, "success", "tried")
		if found := setid(g.work); len(found) > 0 != (policy == "open") {
			t.Errorf("%s: files with the rights of others: %q", policy, found)
		}
	}
}

// 14: processes that do nothing but make processes.
func attackForkBomb(t *testing.T, bin string) {
	g := newGround(t, bin)
	g.write(filepath.Join(g.home, ".hermes/config.yaml"), "code_execution:\n  pids: 100\n")
	for _, policy := range []string{"workspace", "sealed"} {
		o := g.run(policy, `
import os, time
made = 0
try:
    while made < 400:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        made += 1
except OSError as e:
    print(e.strerror, made < 100)
    raise
print("no end")
`)
		o.want(t, "error", "True")
		if o.Limit != "pids" && os.Getuid() == 0 { // an ordinary user's bound is the kernel's, which does not count
			t.Errorf("%s: limit %q: %+v", policy, o.Limit, o.Enforcement)
		}
		if o = g.run(policy, "print(1)"); o.Status != "success" {
			t.Errorf("%s: the next run: %+v", policy, o)
		}
		start := time.Now()
		o = g.run(policy, "import subprocess; subprocess.run(['bash', '-c', ':(){ :|:& };:; sleep 60'])", "--timeout", "1s")
		if took := time.Since(start); o.Status != "timeout" || took > 10*time.Second { // 1 and the grace of 5
			t.Errorf("%s: %s (%s) after %v", policy, o.Status, o.Error, took)
		}
		if left := waitFor(func() []string { return processes(g.base) }); len(left) > 0 {
			t.Errorf("%s: processes left: %d", policy, len(left))
		}
	}
}

// 20: a process that a deadline finds stopped, or waiting in the kernel for a
// child that never runs a program.
func attackStopped(t *testing.T, bin string) {
	for _, policy := range []string{"workspace", "sealed", "open"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel() // each waits for the grace
			g := newGround(t, bin)
			start := time.Now()
			o := g.run(policy, `
import ctypes, os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    n = 220 if os.uname().machine == "aarch64" else 56
    if ctypes.CDLL(None).syscall(n, 0x4000 | 17, 0, 0, 0, 0) == 0:  # clone, CLONE_VFORK: its parent waits
        time.sleep(600)
    os._exit(0)
print("up", flush=True)
os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(600)
`, "--timeout", "500ms")
			o.want(t, "timeout", "up")
			if took := time.Since(start); took > 10*time.Second { // a half and the grace of 5
				t.Errorf("%s: ended after %v", policy, took)
			}
			if left := waitFor(func() []string { return processes(g.base) }); len(left) > 0 {
				t.Errorf("%s: processes left: %q", policy, left)
			}
		})
	}
}

// 22: what the engine itself inherited, open and without close-on-exec.
func attackInherited(t *testing.T, bin string) {
	const script = `
import os
from hermes_tools import terminal
mine = sorted(os.listdir("/proc/self/fd"))[:-1]  # but for the list itself
print("script", [os.readlink("/proc/self/fd/" + n) for n in mine if n not in "012"])
print("terminal", terminal("for f in /proc/self/fd/*; do [ ${f##*/} -gt 2 ] && readlink $f; done; :")["output"])
`
	for _, policy := range []string{"workspace", "sealed", "open"} {
		g := newGround(t, bin)
		f, err := os.Open(g.write(filepath.Join(g.home, "inherited-by-the-engine"), "secret"))
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		socket, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		cmd := g.command("--policy", policy, "run", "-q", "-c", script)
		cmd.ExtraFiles = []*os.File{f, socket, nil, f}
		out, err := cmd.CombinedOutput()
		for _, c := range []interface{ Close() error }{f, socket, l} {
			c.Close()
		}
		text := string(out)
		if err != nil || !strings.Contains(text, "script []") || strings.Contains(text, "inherited") || strings.Contains(text, "socket:") {
			t.Errorf("%s: %v\n%s", policy, err, text)
		}
	}
}

// 25: a core dump holds what the process knew.
func attackCore(t *testing.T, bin string) {
	for _, policy := range []string{"workspace", "sealed"} {
		g := newGround(t, bin)
		g.run(policy, `
import os, resource, subprocess
print(resource.getrlimit(resource.RLIMIT_CORE), subprocess.run(["bash", "-c", "ulimit -c unlimited"], stderr=subprocess.DEVNULL).returncode, flush=True)
if os.fork() == 0:
    os.abort()
print(os.WCOREDUMP(os.wait()[1]))
`).want(t, "success", "(0, 0) 1\nFalse")
		if left := files(g.work); len(left) > 0 {
			t.Errorf("%s: in the workspace: %q", policy, left)
		}
	}
}

// 29: where something guarded should be there is a link that leads out.
func attackLinks(t *testing.T, bin string) {
	for _, name := range []string{".git", ".git/hooks", ".vscode", ".envrc", ".claude"} {
		g := newGround(t, bin)
		if name == ".git/hooks" {
			g.write(".git/HEAD", "ref: refs/heads/main\n")
		}
		outside := filepath.Join(g.base, "outside")
		if err := os.MkdirAll(filepath.Join(g.work, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		g.write(filepath.Join(outside, "kept"), "as it was")
		if err := os.Symlink(outside, filepath.Join(g.work, name)); err != nil {
			t.Fatal(err)
		}
		o := g.do("--policy", "workspace", "run", "-q", "-c", "print('ran')")
		if o.exit != 126 || strings.Contains(o.stdout, "ran") || !strings.Contains(o.stderr, "link") {
			t.Errorf("%s as a link: exit code %d, %s%s", name, o.exit, o.stdout, o.stderr)
		}
		if found := files(outside); len(found) != 1 {
			t.Errorf("%s as a link: made outside: %q", name, found)
		}
		// Where nothing is guarded the same link is nobody's business.
		if o = g.do("--policy", "open", "run", "-q", "-c", "print('ran')"); o.exit != 0 {
			t.Errorf("%s as a link, open: %d %s", name, o.exit, o.stderr)
		}
	}
}

// 40, 42, 51: what is no file under names that somebody reads, and marks of
// overlay file systems.
func attackSpecialFiles(t *testing.T, bin string) {
	const script = `
import os, socket
def attempt(what, f):
    try:
        f()
        print(what, "made")
    except OSError as e:
        print(what, "refused")
for n in ("conftest.py", "Makefile", "package.json", "data"):
    os.mkfifo(n)
os.mkdir("sub")
socket.socket(socket.AF_UNIX).bind("sub/conftest.py")
attempt("char", lambda: os.mknod("zero", 0o020666, os.makedev(1, 5)))
attempt("block", lambda: os.mknod("disk", 0o060666, os.makedev(8, 0)))
attempt("whiteout", lambda: os.mknod("out", 0o020000, 0))
open("x", "w").close()
attempt("opaque", lambda: os.setxattr("x", "trusted.overlay.opaque", b"y"))
attempt("capability", lambda: os.setxattr("x", "security.capability", bytes.fromhex("0100000200200000000000000000000000000000")))
from hermes_tools import read_file, search_files, write_file
print("read", "error" in read_file("data"))
search_files("anything", path=".")
print("searched")
print("written", "error" in write_file("sub/conftest.py", "x"))
`
	g := newGround(t, bin)
	start := time.Now()
	o := g.run("workspace", script, "--timeout", "30s")
	if os.Getuid() != 0 || o.Status != "success" {
		o.want(t, "success", "char refused")
	}
	for _, line := range []string{"char refused", "block refused", "whiteout refused", "opaque refused", "capability refused", "read True", "searched"} {
		o.want(t, "success", line+"\n")
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
	_ = filepath.WalkDir(g.work, func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeDevice != 0 {
			t.Errorf("%s is a device", name)
		}
		return nil
	})
	// The next run finds them in place, before and after.
	g.run("workspace", "print('next')").want(t, "success", "next")
	if os.Getuid() == 0 { // the twin: root without confinement makes them
		g.run("open", "import os; os.mknod('zero', 0o020666, os.makedev(1, 5)); print('made')").want(t, "success", "made")
	}
}

// 46: all of the private file system, by size and by number of files, is the
// script's own loss.
func attackFullDisk(t *testing.T, bin string) {
	const script = `
import errno, os
def fill(what, f):
    try:
        for i in range(100000):
            f(i)
        print(what, "no end")
    except OSError as e:
        print(what, errno.errorcode[e.errno])
os.mkdir("/tmp/many")
made = [0]
def size(i):
    with open("/tmp/big", "ab") as f:
        f.write(b"x" * (1 << 20))
fill("bytes", size)
os.truncate("/tmp/big", 0)
fd = os.open("/dev/shm/big", os.O_CREAT | os.O_RDWR)
fill("fallocate", lambda i: os.posix_fallocate(fd, 0, (i + 1) << 20))
os.ftruncate(fd, 0)
fill("files", lambda i: os.close(os.open("/tmp/many/%d" % i, os.O_CREAT | os.O_WRONLY)))
from hermes_tools import terminal
print(terminal("echo alive")["output"])
`
	for _, policy := range []string{"workspace", "sealed"} {
		g := newGround(t, bin)
		g.write(filepath.Join(g.home, ".hermes/config.yaml"), "code_execution:\n  disk: 16MiB\n")
		o := g.run(policy, script, "--timeout", "60s")
		for _, line := range []string{"bytes ENOSPC", "fallocate ENOSPC", "files ENOSPC", "alive"} {
			o.want(t, "success", line)
		}
		g.run(policy, "open('/tmp/x', 'w').write('x' * 1000000); print('room')").want(t, "success", "room")
		// The twin: with room for it, it is written.
		g.write(filepath.Join(g.home, ".hermes/config.yaml"), "code_execution:\n  disk: 64MiB\n")
		g.run(policy, "open('/tmp/x', 'w').write('x' * (32 << 20)); print('room')").want(t, "success", "room")
	}
}

// 49: another session's scratch directory, socket and files, while it runs.
func attackOtherSession(t *testing.T, bin string) {
	for _, policy := range []string{"workspace", "sealed"} {
		g := newGround(t, bin)
		other := newGround(t, bin)
		cmd := other.command("--policy", policy, "run", "-q", "-c",
			"import os, time; open('/tmp/session-secret', 'w').write('x'); print(os.environ['HERMES_RPC_SOCKET'], os.environ['HERMES_RPC_TOKEN'], flush=True); time.sleep(600)")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var socket, token string
		if _, err := fmt.Fscan(out, &socket, &token); err != nil {
			t.Error(err)
		}
		o := g.run(policy, fmt.Sprintf(`
import glob, json, os, socket
print("sees", [n for n in glob.glob("/tmp/*") + glob.glob("/proc/[0-9]*/root/tmp/*") + glob.glob("/run/*/*/*") if "secret" in n])
path, token = %q, %q
print("same socket", path == os.environ["HERMES_RPC_SOCKET"] or not os.path.exists(path))
s = socket.socket(socket.AF_UNIX)
s.connect(os.environ["HERMES_RPC_SOCKET"])  # its own, with the other's token
s.sendall(json.dumps({"id": 1, "token": token, "tool": "terminal", "args": {"command": "echo got in"}}).encode() + b"\n")
print(s.recv(1000).decode())
try:
    print("work", os.listdir(%q))
except OSError as e:
    print("work", e.strerror)
`, socket, token, other.work))
		o.want(t, "success", "sees []\nsame socket True\n")
		o.want(t, "success", "unauthorized")
		interrupt(t, cmd)
	}
}

// interrupt ends a run that was still under way.
func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("the run ended before it was interrupted: exit code %d", code)
	}
}

// 50: its own policy, the engine's configuration, what the next run is given.
func attackOwnRules(t *testing.T, bin string) {
	g := newGround(t, bin)
	const text = "extends: workspace\nnetwork: off\n"
	policy := g.write("rules.yaml", text)
	config := g.write(filepath.Join(g.home, ".hermes/config.yaml"), "code_execution:\n  timeout: 60\n")
	o := g.run(policy, fmt.Sprintf(`
import os, hermes_tools
from hermes_tools import terminal, write_file
for name in (%q, %q, "rules.yaml"):
    for attempt in (lambda: open(name, "a"), lambda: os.remove(name), lambda: os.rename(name, name + ".old"), lambda: os.chmod(name, 0o777),
                    lambda: os.replace(__file__, name)):
        try:
            attempt()
            print("changed", name)
        except OSError:
            pass
    if "error" not in write_file(name, "network: host\n") or terminal("echo network: host >" + name)["exit_code"] == 0:
        print("changed by a tool", name)
with open(hermes_tools.__file__, "a") as f:  # the script's own copy
    f.write("\nprint('poisoned')\n")
print("done")
`, policy, config))
	o.want(t, "success", "done")
	if strings.Contains(o.Output, "changed") {
		t.Error(o.Output)
	}
	for name, want := range map[string]string{policy: text, config: "code_execution:\n  timeout: 60\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	next := g.run(policy, "from hermes_tools import read_file; print('clean')")
	next.want(t, "success", "clean")
	if strings.Contains(next.Output, "poisoned") {
		t.Error("the next run was given what the first one changed")
	}
}

// 52: a workspace that holds what must not be written.
func attackWorkspace(t *testing.T, bin string) {
	g := newGround(t, bin)
	g.write(filepath.Join(g.home, ".hermes/config.yaml"), "{}\n")
	for _, dir := range []string{"/", "/tmp", g.home, g.base, filepath.Join(g.home, ".hermes"), "/etc", "/usr"} {
		o := g.do("--policy", "workspace", "--workdir", dir, "run", "-q", "-c", "print('ran')")
		if o.exit != 126 || strings.Contains(o.stdout, "ran") {
			t.Errorf("%s: exit code %d, %s%s", dir, o.exit, o.stdout, o.stderr)
		}
	}
	if o := g.do("--policy", "workspace", "--workdir", g.work, "run", "-q", "-c", "print('ran')"); o.exit != 0 {
		t.Errorf("an ordinary workspace: %d %s", o.exit, o.stderr)
	}
}

// 72: a server of the script's is nobody else's, where the policy has no
// network.
func attackListen(t *testing.T, bin string) {
	for policy, reached := range map[string]bool{"sealed": false, "workspace": true, "open": true} {
		g := newGround(t, bin)
		cmd := g.command("--policy", policy, "run", "-q", "-c", `
import socket, time
s = socket.socket()
s.bind(("0.0.0.0", 0))
s.listen()
print(s.getsockname()[1], flush=True)
time.sleep(600)
`)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var port int
		if _, err := fmt.Fscan(out, &port); err != nil {
			t.Error(err)
		}
		conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), 2*time.Second)
		if (err == nil) != reached {
			t.Errorf("%s: reached from outside: %v", policy, err)
		}
		if err == nil {
			conn.Close()
		}
		interrupt(t, cmd)
	}
}

// 87: code that the engine's environment would put into what it starts.
func attackInjection(t *testing.T, bin string) {
	g := newGround(t, bin)
	inject := filepath.Join(g.base, "inject")
	g.write(filepath.Join(inject, "sitecustomize.py"), "print('injected')\n")
	g.write(filepath.Join(inject, "json.py"), "print('injected')\n")
	rc := g.write(filepath.Join(inject, "rc"), "echo injected\n")
	g.env = []string{"PYTHONSTARTUP=" + rc, "BASH_ENV=" + rc, "ENV=" + rc, "PYTHONHOME=/nonexistent", "GIT_DIR=/nonexistent",
		"GIT_SSH_COMMAND=echo injected", "LD_LIBRARY_PATH=" + inject, "NODE_OPTIONS=--require=" + rc, "PERL5OPT=-MNone", "PYTHONINSPECT=1", "PYTHONBREAKPOINT=os.abort", "PROMPT_COMMAND=echo injected"}
	for _, policy := range []string{"workspace", "sealed", "open"} {
		o := g.run(policy, "import json, os, subprocess; from hermes_tools import terminal; print(subprocess.run(['bash', '-c', 'echo bash'], stdout=subprocess.PIPE).stdout, terminal('env')['output'])")
		o.want(t, "success", "b'bash\\n'")
		if strings.Contains(o.Output, "inject") || strings.Contains(o.Output, "nonexistent") {
			t.Errorf("%s: %s", policy, o.Output)
		}
	}
	// The twin: Python takes it up where it is given.
	cmd := exec.Command("/usr/bin/python3", "-c", "pass")
	cmd.Env = []string{"PYTHONPATH=" + inject}
	if out, err := cmd.CombinedOutput(); !strings.Contains(string(out), "injected") {
		t.Errorf("no twin: %v %s", err, out)
	}
}

// 91: tools that cannot be reached do not pass for tools that did nothing.
func attackLostSocket(t *testing.T, bin string) {
	for _, policy := range []string{"workspace", "open"} {
		g := newGround(t, bin)
		for _, lost := range []string{"del os.environ['HERMES_RPC_SOCKET']", "os.environ['HERMES_RPC_SOCKET'] = '/nonexistent/s'", "os.remove(os.environ['HERMES_RPC_SOCKET'])"} {
			o := g.run(policy, "import os\n"+lost+"\nfrom hermes_tools import write_file\nprint(write_file('x', 'y'))")
			o.want(t, "error", "")
			if _, err := os.Stat(filepath.Join(g.work, "x")); err == nil {
				t.Errorf("%s: it was written all the same", lost)
			}
		}
		g.run(policy, "from hermes_tools import write_file; print(write_file('x', 'y'))").want(t, "success", "")
	}
}

// 96: what is asked for longer than it can be had is not cut in silence.
func attackTimeout(t *testing.T, bin string) {
	g := newGround(t, bin)
	g.run("workspace", "print('ran')", "--timeout", "100000h").want(t, "success", "ran")
	o := g.run("workspace", "from hermes_tools import terminal; print(terminal('echo ran', timeout=10**6))")
	o.want(t, "success", "error")
	if strings.Contains(o.Output, "'ran") {
		t.Error(o.Output)
	}
	if o := g.do("run", "--timeout", "1e300", "-c", "pass"); o.exit != 125 {
		t.Errorf("exit code %d: %s", o.exit, o.stderr)
	}
}
