"""The attacks of hermes-exec selftest, run as an ordinary script.

Each probe tries one thing a confined script must not be able to do, and tells
what came of it: held (it failed), broken (it worked) or na (it cannot be judged
here, with the reason). Nothing here may change the host where confinement fails:
files are opened for writing and never written, except in directories the other
side made to be attacked; calls of the kernel that would change something get
arguments it refuses after it has asked for the privilege; sockets are connected
to and nothing is sent, but to the other side's own.

argv[1] is what to run, argv[2] the mark by which its processes are known. PLAN is
set by the other side: a JSON object that tells where the bait is. The answer is one line of JSON per probe and a last one, {"done": N}.
"""

# How to write a probe: it returns, with a detail or without, when the attack
# WORKED. It raises OSError when the kernel refused it, Held or Skip with a reason
# otherwise. Any other exception is a broken probe, and counts as broken. Each
# runs in a process of its own, so it may be killed, hang, or spoil its state.

import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import select
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

INHERITED = []
for fd in range(3, 4096):  # before anything here opens one
    try:
        os.fstat(fd)
        INHERITED.append("fd %d" % fd)
    except OSError:
        pass
PLAN = None
C = json.loads(PLAN)
SCRATCH = os.path.dirname(os.path.abspath(__file__))
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
ARM = platform.machine() in ("aarch64", "arm64")
NR = {}  # call -> number on this machine
for line in """
unshare 272 97|setns 308 268|mount 165 40|umount2 166 39|pivot_root 155 41|chroot 161 51|open_tree 428 428
move_mount 429 429|fsopen 430 430|fspick 433 433|mount_setattr 442 442|ptrace 101 117|process_vm_readv 310 270
process_vm_writev 311 271|io_uring_setup 425 425|bpf 321 280|keyctl 250 219|add_key 248 217|userfaultfd 323 282
perf_event_open 298 241|kexec_load 246 104|kexec_file_load 320 294|init_module 175 105|finit_module 313 273
delete_module 176 106|open_by_handle_at 304 265|name_to_handle_at 303 264|personality 135 92|clone 56 220
clone3 435 435|memfd_create 319 279|syslog 103 116|swapon 167 224|reboot 169 142|acct 163 89|iopl 172 0
ioperm 173 0|sethostname 170 161|pidfd_open 434 434|pidfd_getfd 438 438|kcmp 312 272|fanotify_init 300 262""".replace("\n", "|").strip("|").split("|"):
    name, amd, arm = line.split()
    NR[name] = int(arm) if ARM else int(amd)
NEWUSER, NEWNS, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP = (
    0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x08000000, 0x04000000, 0x02000000)
AT_FDCWD = -100


def block(size, data=b""):
    """Memory for the kernel to look at."""
    return ctypes.create_string_buffer(data, size)


class Held(Exception):
    """The attack came to nothing."""


class Skip(Exception):
    """It cannot be judged here."""


PROBES = []


def probe(slug, clause, what, lethal=False, seconds=8):
    """Add a probe. lethal: to be killed by a fault is to be refused."""
    def add(fn):
        PROBES.append((slug, clause, what, fn, lethal, seconds))
        return fn
    return add


def call(name, *args):
    number = NR[name]
    if number == 0:
        raise Skip("this processor has no such call")
    return raw(number, *args)


def raw(number, *args):
    args = [ctypes.c_long(a) if isinstance(a, int) else a for a in args]
    r = LIBC.syscall(ctypes.c_long(number), *args)
    if r == -1:
        n = ctypes.get_errno()
        raise OSError(n, os.strerror(n))
    return r


def opens(path, flags):
    """Open, and neither read nor write."""
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY))
    except OSError as e:
        if e.errno == errno.ETXTBSY:  # a running program: this is found before a read-only mount is
            if os.statvfs(path).f_flag & os.ST_RDONLY:
                raise OSError(errno.EROFS, os.strerror(errno.EROFS))
            if not path.startswith("/proc/"):
                make_in(os.path.dirname(os.path.realpath(path)))
        if e.errno in (errno.ETXTBSY, errno.ENXIO, errno.ENODEV, errno.EBUSY):  # allowed, but for its state
            return "opened, but for %s" % errno.errorcode[e.errno]
        raise
    return "opened"


def first_that_works(attempts, none):
    """Run attempts until one works; the last refusal is raised."""
    last = None
    for what, attempt in attempts:
        try:
            detail = attempt()
            return "%s: %s" % (what, detail) if detail else what
        except (OSError, Held) as e:
            last = e
    if last is None:
        raise Skip(none)
    raise last


def status(field, pid="self"):
    try:
        with open("/proc/%s/status" % pid) as f:
            for line in f:
                if line.startswith(field + ":"):
                    return line.split(":", 1)[1].strip()
    except OSError as e:  # that it is not told is no refusal of what was tried
        raise Skip("/proc/%s/status cannot be read: %s" % (pid, errno.errorcode[e.errno]))
    return None


def started(pid):
    """When a process was started, which tells it from another of the same number; None when unseen."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[19]
    except OSError:
        return None


def target(who):
    """The pid of a process outside, as numbered there; Held when another has that number here."""
    pid, start = C[who]["pid"], C[who]["start"]
    seen = started(pid)
    if seen is not None and seen != start:
        raise Held("pid %d is another process here" % pid)
    return pid


def exists(path):
    try:
        os.lstat(path)
        return True
    except OSError:
        return False


def bait():
    """The value that must not be found here; argv has it in two parts."""
    return (C["secret"][0] + C["secret"][1]).encode()


# ---- files: what must not be read ----

def reach(path, place):
    """Get at the content of a secret place under this name."""
    if not place["dir"]:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        st = os.fstat(fd)
        os.close(fd)
        if not stat.S_ISREG(st.st_mode) or st.st_size != place["size"]:
            raise Held("something else is in its place")
        return "opened for reading"
    refused = None
    try:
        if set(os.listdir(path)) & set(place["names"]):
            return "it can be listed"
    except OSError as e:
        refused = e
    for name in place["names"]:
        try:
            return opens(path + "/" + name, os.O_RDONLY) + " a file in it"
        except OSError as e:
            refused = refused or e
    raise refused or Held("an empty directory is in its place")


def secret(place):
    @probe("read-" + place["id"], "files", "read " + place["what"])
    def _():
        if not place["exists"]:
            raise Skip("the policy opens it" if place["opened"] else "there is none here")
        return reach(place["path"], place)


for each in C["secrets"]:
    secret(each)


def detour(slug, what, way):
    @probe("read-" + slug, "files", "read a secret place " + what)
    def _():
        return first_that_works([(p["what"], lambda p=p: reach(way(p), p)) for p in C["secrets"] if p["exists"]],
                                "there is no secret place here")


def by_symlink(place):
    link = os.path.join(SCRATCH, "link-" + place["id"])
    if not exists(link):
        os.symlink(place["path"], link)
    return link


detour("by-symlink", "through a symbolic link", by_symlink)
detour("by-dotdot", "through ..", lambda p: os.path.join(SCRATCH, "/".join([".."] * 40)) + p["path"])
detour("by-proc-self-root", "through /proc/self/root", lambda p: "/proc/self/root" + p["path"])
detour("by-proc-cwd", "through /proc/self/cwd and ..", lambda p: "/proc/self/cwd/" + "/".join([".."] * 40) + p["path"])
detour("by-proc-1-root", "through the root of process 1", lambda p: "/proc/1/root" + p["path"])
detour("by-parent-root", "through the root of the parent process", lambda p: "/proc/%d/root" % PARENT + p["path"])
detour("by-outside-root", "through the root of a process outside", lambda p: "/proc/%d/root" % target("witness") + p["path"])


def with_program(place, args):
    path = place["path"] if not place["dir"] else place["path"] + "/" + (place["names"] or ["-"])[0]
    out = subprocess.run(args + [path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5)
    if out.returncode == 0 and out.stdout:
        return "%d bytes were read" % len(out.stdout)
    raise Held("the program could not read it")


def cat():
    for path in ("/bin/cat", "/usr/bin/cat"):
        if os.path.exists(path):
            return os.path.realpath(path)
    raise Skip("there is no cat here")


@probe("read-by-loader", "files", "read a secret place with a program started by the dynamic loader")
def _():
    loaders = [p for d in ("/lib64", "/lib", "/usr/lib64", "/usr/lib") if os.path.isdir(d)
               for p in (os.path.join(d, n) for n in os.listdir(d)) if os.path.basename(p).startswith(("ld-linux", "ld-musl"))]
    if not loaders:
        raise Skip("there is no dynamic loader here")
    return first_that_works([(p["what"], lambda p=p: with_program(p, [loaders[0], cat()]))
                             for p in C["secrets"] if p["exists"]], "there is no secret place here")


@probe("read-by-copied-program", "files", "read a secret place with a renamed copy of a program")
def _():
    name = os.path.join(SCRATCH, "innocent")
    with open(cat(), "rb") as src, open(name, "wb") as dst:
        dst.write(src.read())
    os.chmod(name, 0o700)
    return first_that_works([(p["what"], lambda p=p: with_program(p, [name])) for p in C["secrets"] if p["exists"]],
                            "there is no secret place here")


@probe("read-shadow", "files", "open /etc/shadow")
def _():
    if not exists("/etc/shadow"):
        raise Skip("there is none here")
    return opens("/etc/shadow", os.O_RDONLY)


@probe("read-other-homes", "files", "read the keys of other users")
def _():
    return first_that_works([(p["path"], lambda p=p: reach(p["path"], p)) for p in C["others"]], "no other user has any here")


@probe("read-kernel-memory", "files", "open the memory of the kernel")
def _():
    return first_that_works([(p, lambda p=p: opens(p, os.O_RDONLY)) for p in ("/dev/mem", "/dev/kmem", "/dev/port", "/proc/kcore")
                             if p in C["devices"]], "the host has no such file")


@probe("read-kernel-log", "files", "open the kernel's log")
def _():
    return first_that_works([(p, lambda p=p: opens(p, os.O_RDONLY)) for p in ("/dev/kmsg", "/proc/kmsg") if p in C["devices"]],
                            "the host has no such file")


@probe("read-kernel-pointers", "files", "read kernel addresses from /proc/kallsyms")
def _():
    with open("/proc/kallsyms") as f:
        if any(int(line.split()[0], 16) for line in [f.readline() for _ in range(50)] if line):
            return "addresses are shown"
    raise Held("addresses are zero")


@probe("open-disks", "files", "open the host's disks")
def _():
    return first_that_works([(p, lambda p=p: opens(p, os.O_RDONLY)) for p in C["disks"]], "the host has none, or not as device files")


@probe("open-devices", "files", "open fuse, kvm, tun, loop and input devices")
def _():
    return first_that_works([(p, lambda p=p: opens(p, os.O_RDWR)) for p in C["loaded"]], "the host has none of them loaded")


# ---- files: what must not be written ----

def make_in(path):
    """See whether a file could be made: one without a name, gone when it is closed."""
    try:
        os.close(os.open(path, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        return "a file can be made"
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    if os.access(path, os.W_OK):
        return "access(2) says it is writable"
    raise Held("access(2) says it is not writable")


def directory(slug, what, paths):
    @probe("write-" + slug, "files", "make a file in " + what)
    def _():
        return first_that_works([(p, lambda p=p: make_in(p)) for p in paths if os.path.isdir(p)], "it does not exist here")


directory("root", "/", ["/"])
directory("etc", "/etc", ["/etc"])
directory("usr", "/usr", ["/usr", "/usr/lib", "/usr/share"])
directory("var", "/var", ["/var", "/var/lib", "/var/log", "/var/spool"])
directory("boot", "/boot", ["/boot"])
directory("path", "a directory of the PATH", C["path"])
directory("home", "the home directory", [C["home"]] if C["home"] else [])
directory("config", "the engine's own directory", C["hermes_home"])


def existing(slug, what, paths):
    @probe("write-" + slug, "files", "open for writing " + what)
    def _():
        return first_that_works([(p, lambda p=p: opens(p, os.O_WRONLY)) for p in paths], "it does not exist here")


existing("system-files", "/etc/passwd, /etc/hosts, …", [p for p in ("/etc/passwd", "/etc/hosts", "/etc/profile", "/etc/ld.so.cache",
                                                                   "/etc/crontab", "/etc/resolv.conf") if exists(p)])
existing("shell-rc", "what a shell runs at its start", C["rc"])
existing("programs", "programs of the PATH", [p for p in ("/usr/bin/env", "/bin/sh", "/usr/bin/git") if exists(p)])
existing("engine", "the engine's program", [C["engine"]["exe"], "/proc/1/exe", "/proc/%d/exe" % os.getppid()])
existing("interpreter", "the interpreter", [os.path.realpath(sys.executable)])
existing("proc-sys", "settings of the kernel in /proc/sys",
         ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hostname", "/proc/sys/vm/overcommit_memory",
          "/proc/sys/fs/protected_symlinks", "/proc/sys/kernel/randomize_va_space", "/proc/sys/net/ipv4/ip_forward"])
existing("sysrq", "/proc/sysrq-trigger", ["/proc/sysrq-trigger"])
existing("sys", "settings of the kernel in /sys",
         ["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/kernel/profiling",
          "/sys/module/printk/parameters/time"])


@probe("write-cgroup", "files", "open for writing files of /sys/fs/cgroup")
def _():
    found, deep = [], 0
    for top, dirs, files in os.walk("/sys/fs/cgroup"):
        found += [os.path.join(top, n) for n in ("cgroup.procs", "release_agent", "pids.max", "memory.max") if n in files]
        deep += 1
        if deep > 200:
            break
    return first_that_works([(p, lambda p=p: opens(p, os.O_WRONLY)) for p in found], "there are none to be seen")


def canary(slug, what, attack):
    @probe("outside-" + slug, "files", what + " outside the workspace")
    def _():
        if not C["canaries"]:
            raise Skip("there was no place to put bait")
        return attack(os.path.join(C["canaries"], slug))


def contents(path):
    if C["reads_outside"]:
        raise Skip("the policy lets it read that")
    with open(path) as f:
        f.read()


def overwrite(path):
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, b"changed")
    os.close(fd)


def by_link(make):
    def attack(path):
        link = os.path.join(C["workspace"], "to-" + os.path.basename(path))
        try:
            make(path, link)
        except OSError:  # across file systems, or the workspace cannot be written either
            link = os.path.join(SCRATCH, os.path.basename(link))
            make(path, link)
        try:
            overwrite(link)
        finally:
            os.unlink(link)
    return attack


def remade(path):
    os.close(os.open(path + "-new", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


canary("read", "read a file", contents)
canary("write", "write to a file", overwrite)
canary("truncate", "truncate a file", lambda p: os.truncate(p, 0))
canary("unlink", "remove a file", os.unlink)
canary("rename", "rename a file", lambda p: os.rename(p, p + "-new"))
canary("chmod", "change the mode of a file", lambda p: os.chmod(p, 0o777))
canary("utime", "change the times of a file", lambda p: os.utime(p, (1, 1)))
canary("xattr", "set an attribute of a file", lambda p: os.setxattr(p, "user.hermes", b"1"))
canary("create", "make a file", remade)
canary("mkdir", "make a directory", lambda p: os.mkdir(p + "-new"))
canary("symlink", "write through a symbolic link to a file", by_link(os.symlink))
canary("hardlink", "write through a hard link to a file", by_link(os.link))


def private(slug, path, what):
    @probe(slug, "files", "see a file of the host's " + what)
    def _():
        if not path:
            raise Skip("there was no place to put bait")
        os.lstat(path)
        return "seen"


private("tmp-private", C["tmp"], "/tmp")
private("vartmp-private", C["vartmp"], "/var/tmp")
private("shm-private", C["shm"], "/dev/shm")
private("run-private", C["run"], "/run")


# ---- guards: what others run or read later ----

def inside(name):
    """A path in the workspace; Held where what has its name is another directory."""
    if not exists(os.path.join(C["workspace"], "README.md")):
        raise Held("the workspace is not to be seen")
    return os.path.join(C["workspace"], name)


def guard(slug, what, name):
    @probe("guard-" + slug, "guards", "write " + what + " in the workspace")
    def _():
        path = inside(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a") as f:
            f.write("# selftest\n")


for slug, what, name in (
    ("git-hooks", "a git hook", ".git/hooks/pre-commit"),
    ("git-config", "git's configuration", ".git/config"),
    ("git-commondir", "a pointer to another git directory", ".git/commondir"),
    ("git-config-worktree", "git's configuration of the worktree", ".git/config.worktree"),
    ("git-modules", "the configuration of an existing submodule", ".git/modules/lib/config"),
    ("git-worktrees", "the pointer of an existing worktree", ".git/worktrees/other/commondir"),
    ("envrc", "a missing .envrc", ".envrc"),
    ("vscode", "an existing .vscode/tasks.json", ".vscode/tasks.json"),
    ("vscode-new", "a missing .vscode/settings.json", ".vscode/settings.json"),
    ("idea", "a missing .idea", ".idea/workspace.xml"),
    ("claude", "a missing .claude/settings.json", ".claude/settings.json"),
    ("cursor", "a missing .cursor", ".cursor/mcp.json"),
    ("workflows", "an existing .github/workflows", ".github/workflows/build.yml"),
):
    guard(slug, what, name)


def moved(slug, name):
    @probe("guard-" + slug, "guards", "move %s of the workspace away" % name)
    def _():
        old = inside(name)
        os.rename(old, old + "-moved")
        os.rename(old + "-moved", old)


def report(slug, what, *names):
    """What may be written, and must then be named in the result: the other side looks."""
    @probe("report-" + slug, "guards", "%s, and not be reported" % what)
    def _():
        for name in names:
            path = inside(name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as f:
                f.write("gitdir: ../.git/worktrees/new\n" if name.endswith("/.git") else "# selftest\n")
            os.chmod(path, 0o755)
        return "written"


report("nested-repository", "make a repository with a hook inside the workspace", "nested/.git/HEAD", "nested/.git/config", "nested/.git/objects/x",
       "nested/.git/refs/x", "nested/.git/hooks/pre-commit")
report("new-submodule", "make a submodule's configuration", ".git/modules/new/HEAD", ".git/modules/new/objects/x", ".git/modules/new/refs/x",
       ".git/modules/new/config")
report("new-worktree", "make a worktree that points elsewhere", ".git/worktrees/new/commondir", "linked/.git")
report("venv", "change the programs of a virtual environment", ".venv/pyvenv.cfg", ".venv/bin/python")
report("node-bin", "change the programs of a node package", "node_modules/.bin/tool")
report("tests", "change what a test runner runs", "conftest.py")
report("makefile", "change what make runs", "Makefile")

moved("git-move", ".git")
moved("vscode-move", ".vscode")
moved("github-move", ".github")


def node(slug, what, mode, device, use):
    @probe(slug, "files", what)
    def _():
        path = os.path.join(SCRATCH, slug)
        os.mknod(path, mode | 0o600, device)
        try:
            return use(path)
        finally:
            os.unlink(path)


node("mknod-char", "make a character device and open it", stat.S_IFCHR, os.makedev(1, 3), lambda p: opens(p, os.O_RDWR))
node("mknod-block", "make a block device", stat.S_IFBLK, os.makedev(7, 0), lambda p: "made")


# ---- network ----

def network(slug, what):
    def add(fn):
        @probe(slug, "network", what)
        def _():
            if C["network"] == "host":
                raise Skip("the policy gives the host's network")
            return fn()
        return fn
    return add


def dial(family, address):
    """A TCP connection to the bait, which is told who calls."""
    s = socket.socket(family, socket.SOCK_STREAM)
    s.settimeout(2)
    try:
        s.connect(address)
        s.sendall(C["nonce"].encode())
    except ConnectionRefusedError:
        raise Held("refused: nothing listens there")
    finally:
        s.close()
    return "connected"


def route(addresses):
    """A UDP socket that is connected sends nothing, but needs a route."""
    def attempt(address):
        s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        try:
            s.connect((address, 9))
        finally:
            s.close()
        return "there is a route"
    return first_that_works([(a, lambda a=a: attempt(a)) for a in addresses], "no address to try")


@network("net-tcp-loopback", "connect to a server on the host's 127.0.0.1")
def _():
    return dial(socket.AF_INET, ("127.0.0.1", C["tcp"]))


@network("net-tcp-loopback6", "connect to a server on the host's ::1")
def _():
    if not C["tcp6"]:
        raise Skip("the host has no IPv6 loopback")
    return dial(socket.AF_INET6, ("::1", C["tcp6"]))


@network("net-udp-loopback", "send to a server on the host's 127.0.0.1")
def _():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(1)
    s.connect(("127.0.0.1", C["udp"]))
    s.send(C["nonce"].encode())
    if s.recv(64) == C["nonce"].encode():
        return "it answered"
    raise Held("a stranger answered")


@network("net-addresses", "reach the host by its own addresses")
def _():
    return route(C["addresses"])


@network("net-internet", "reach the internet by IPv4")
def _():
    return route(["192.0.2.1", "198.51.100.1"])


@network("net-internet6", "reach the internet by IPv6")
def _():
    return route(["2001:db8::1", "2600::1"])


@network("net-metadata", "reach a cloud's metadata service")
def _():
    return route(["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"])


@network("net-nameserver", "reach the host's name server")
def _():
    with open("/etc/resolv.conf") as f:
        servers = [line.split()[1].split("%")[0] for line in f if line.startswith("nameserver") and len(line.split()) > 1]
    return route(servers)


@network("net-dns", "look a name up")
def _():
    os.environ["RES_OPTIONS"] = "timeout:1 attempts:1"
    try:
        socket.getaddrinfo("hermes-exec-selftest.invalid", 80)
    except socket.gaierror as e:
        if e.errno == socket.EAI_NONAME:
            with open("/etc/resolv.conf") as f:
                if "nameserver" not in f.read():
                    raise Skip("the host has no name server")
            return "a name server answered"
        raise Held(str(e.args[1]))
    return "it was found"


@network("net-interfaces", "see the host's network interfaces")
def _():
    others = [n for _, n in socket.if_nameindex() if n != "lo"]
    if not others:
        raise Held("only lo")
    return "sees " + ", ".join(others[:3])


@network("net-namespace", "share the host's network namespace")
def _():
    return shares("net")


@network("net-ping", "send ICMP without privilege")
def _():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
    s.connect(("127.0.0.1", 0))
    return route(["192.0.2.1"])


def dial_unix(path, mine=False):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(2)
    try:
        s.connect(path)
        if mine:
            s.sendall(C["nonce"].encode())
    except OSError as e:
        if e.errno == errno.EPROTOTYPE:
            return "there, of another type"
        raise
    finally:
        s.close()
    return "connected"


def find_unix(path):
    """Reach a listener without connecting: the wrong type is told apart only after
    the way to it was open. What a connection would start is not started."""
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.settimeout(2)
    try:
        s.connect(path)
    except OSError as e:
        if e.errno == errno.EPROTOTYPE:
            return "reached"
        raise
    finally:
        s.close()
    return "connected"


def service(slug, what, key):
    @probe("unix-" + slug, "network", "reach " + what)
    def _():
        return first_that_works([(p, lambda p=p: find_unix(p)) for p in C["services"].get(key, [])], "there is none here")


service("docker", "the sockets of docker, containerd and podman", "containers")
service("dbus", "the sockets of D-Bus", "dbus")
service("systemd", "the sockets of systemd", "systemd")
service("display", "the sockets of X11 and Wayland", "display")
service("agents", "the sockets of ssh-agent and gpg-agent", "agents")
service("others", "other sockets bound on the host", "others")


@probe("unix-outside", "network", "connect to a server's socket outside the workspace")
def _():
    if not C["unix"]:
        raise Skip("there was no place to put bait")
    return dial_unix(C["unix"], True)


@probe("unix-abstract", "network", "connect to an abstract socket of the host")
def _():
    return dial_unix("\0" + C["abstract"], True)


@probe("unix-abstract-all", "network", "connect to the abstract sockets that others bound")
def _():
    return first_that_works([("@" + n, lambda n=n: dial_unix("\0" + n)) for n in C["abstracts"]], "there are none")


def family(slug, what, number, kind=12, protocol=None):
    """A type no kernel has: EINVAL means that the kernel was asked, with nothing made and no module loaded."""
    @probe("socket-" + slug, "network", "make %s socket" % what)
    def _():
        if number == 16 and protocol not in C["netlink"]:
            raise Skip("the host has none loaded")
        try:
            socket.socket(number, kind, protocol or 0).close()
        except OSError as e:
            if kind == 12 and e.errno in (errno.EINVAL, errno.ESOCKTNOSUPPORT):
                return "the kernel is asked"
            raise


family("packet", "a packet", 17, socket.SOCK_RAW, 0)
family("packet-dgram", "a cooked packet", 17, socket.SOCK_DGRAM, 0)
family("raw", "a raw IPv4", 2, socket.SOCK_RAW, 1)
family("raw6", "a raw IPv6", 10, socket.SOCK_RAW, 58)
family("audit", "a netlink audit", 16, socket.SOCK_RAW, 9)
family("netfilter", "a netlink netfilter", 16, socket.SOCK_RAW, 12)
family("uevent", "a netlink uevent", 16, socket.SOCK_RAW, 15)
family("vsock", "a vsock", 40)
family("alg", "a kernel crypto", 38)
family("bluetooth", "a bluetooth", 31)
family("key", "an IPsec key", 15)
family("xdp", "an XDP", 44)
family("tipc", "a TIPC", 30)
family("can", "a CAN", 29)


# ---- processes ----

def powerless():
    """tells whether this process has no capability and can never have one."""
    return (os.getuid() != 0 and status("NoNewPrivs") == "1" and status("Seccomp") == "2"
            and all(int(status(s) or "1", 16) == 0 for s in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")))


def shares(kind):
    here = os.readlink("/proc/self/ns/" + kind)
    if not C["namespaces"].get(kind):
        raise Skip("the host has no such namespaces")
    if here == C["namespaces"][kind]:
        if kind == "user" and C["container"] and powerless():
            raise Skip("a container's is the host's; no capability is held in it, and none can be gained")
        return "it is the host's"
    raise Held("its own")


for kind, what in (("user", "user"), ("pid", "process"), ("mnt", "mount"), ("ipc", "IPC"), ("uts", "host name"), ("cgroup", "cgroup")):
    probe("share-" + kind, "files" if kind == "mnt" else "processes", "share the host's %s namespace" % what)(lambda kind=kind: shares(kind))


@probe("see-processes", "processes", "see the host's processes in /proc")
def _():
    for who in ("witness", "engine"):
        if started(C[who]["pid"]) == C[who]["start"]:
            return "sees process %d of the host" % C[who]["pid"]
    pids = [int(n) for n in os.listdir("/proc") if n.isdigit()]
    raise Held("%d processes seen" % len(pids))


@probe("signal-outside", "processes", "signal a process outside (signal 0)")
def _():
    os.kill(target("witness"), 0)


@probe("signal-engine", "processes", "signal the engine (signal 0)")
def _():
    os.kill(target("engine"), 0)


@probe("pidfd-outside", "processes", "take a handle to a process outside")
def _():
    call("pidfd_open", target("witness"), 0)


@probe("priority-outside", "processes", "read the priority of a process outside")
def _():
    os.getpriority(os.PRIO_PROCESS, target("witness"))


@probe("environ-outside", "processes", "read a secret in the environment of a process outside")
def _():
    target("witness")
    refused = None
    for pid in [int(n) for n in os.listdir("/proc") if n.isdigit()]:
        if pid in MINE:
            continue
        try:
            with open("/proc/%d/environ" % pid, "rb") as f:
                if bait() in f.read():
                    return "found in that of process %d" % pid
        except OSError as e:
            refused = e
    raise refused or Held("not found")


@probe("environ-engine", "processes", "read the environment of the engine")
def _():
    return opens("/proc/%d/environ" % target("engine"), os.O_RDONLY)


@probe("environ-parent", "processes", "read the environment of the parent process")
def _():
    if PARENT == 0:
        raise Held("it is not to be seen")
    with open("/proc/%d/environ" % PARENT, "rb") as f:
        if not f.read(1):
            raise Held("it is empty")
    return "read"


@probe("cmdline-outside", "processes", "read a secret in the command line of a process outside")
def _():
    target("witness")
    for pid in [int(n) for n in os.listdir("/proc") if n.isdigit()]:
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as f:
                if bait() in f.read():
                    return "found in that of process %d" % pid
        except OSError:
            pass
    raise Held("not found")


def memory(slug, what, pid):
    @probe("memory-" + slug, "processes", "open the memory of " + what)
    def _():
        n = pid()
        return first_that_works([(m, lambda m=m: opens("/proc/%d/mem" % n, f)) for m, f in (("to write", os.O_RDWR), ("to read", os.O_RDONLY))], "")

    for name, way in (("process_vm_readv", "read"), ("process_vm_writev", "write")):
        @probe("memory-%s-%s" % (way, slug), "processes", "%s the memory of %s" % (way, what))
        def _(name=name):
            buffer = ctypes.create_string_buffer(1)
            here = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 1)
            there = (ctypes.c_ulong * 2)(64, 1)  # nothing is ever mapped there
            try:
                call(name, pid(), here, 1, there, 1, 0)
            except OSError as e:
                if e.errno != errno.EFAULT:
                    raise
            return "it was let in"


def parent():
    if PARENT == 0:
        raise Held("there is none to be seen")
    return PARENT


memory("init", "process 1", lambda: 1)
memory("parent", "the parent process", parent)
memory("outside", "a process outside", lambda: target("witness"))


def sleeper():
    """A child that waits for its end, and ends with its parent."""
    gate, hold = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(hold)
        os.read(gate, 1)
        os._exit(0)
    os.close(gate)
    return pid


SEIZE = 0x4206


@probe("ptrace-outside", "processes", "trace a process outside")
def _():
    call("ptrace", SEIZE, target("witness"), 0, 0)  # does not stop it; ends with this process


@probe("fds-outside", "processes", "list the open files of a process outside")
def _():
    return "%d files" % len(os.listdir("/proc/%d/fd" % target("witness")))


@probe("fds-parent", "processes", "open the files of the parent process")
def _():
    n = parent()
    return first_that_works([("fd " + f, lambda f=f: opens("/proc/%d/fd/%s" % (n, f), os.O_RDONLY)) for f in os.listdir("/proc/%d/fd" % n)],
                            "it has none")


for field, what in (("CapEff", "effective"), ("CapPrm", "permitted"), ("CapBnd", "bounding"), ("CapInh", "inheritable"), ("CapAmb", "ambient")):
    def _(field=field):
        value = status(field)
        if value is None:
            raise Skip("the kernel does not tell")
        if int(value, 16):
            return value
        raise Held("none")
    probe("caps-" + what, "processes", "have capabilities in the %s set" % what)(_)


@probe("new-privileges", "processes", "be able to gain privileges by exec (no NoNewPrivs)")
def _():
    if status("NoNewPrivs") == "1":
        raise Held("NoNewPrivs is set")


@probe("setuid-programs", "processes", "gain privileges by a setuid program")
def _():
    if os.geteuid() == 0:
        raise Skip("already root")
    env = dict(os.environ, LD_SHOW_AUXV="1")

    def auxv(args):
        out = subprocess.run(args, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5).stdout
        return dict(line.split(b":", 1) for line in out.splitlines() if line.startswith(b"AT_"))
    if b"AT_SECURE" not in auxv([cat(), "/dev/null"]):
        raise Skip("the C library here does not tell")
    tried = 0
    for name in ("su", "passwd", "mount", "umount", "newgrp", "chsh", "gpasswd", "sudo"):
        for folder in ("/usr/bin/", "/bin/"):
            try:
                st = os.stat(folder + name)
            except OSError:
                continue
            if not st.st_mode & stat.S_ISUID:
                continue
            tried += 1
            seen = auxv([folder + name, "--version"])
            if seen.get(b"AT_SECURE", b"1").strip() != b"0":  # the loader keeps quiet where privilege was gained
                return folder + name
    if not tried:
        raise Skip("there is no setuid program here")
    raise Held("%d tried, nothing gained" % tried)


@probe("setuid-root", "processes", "become uid 0")
def _():
    os.setuid(0)


@probe("setgid-root", "processes", "become gid 0")
def _():
    os.setgid(0)


@probe("setgroups", "processes", "change the supplementary groups")
def _():
    os.setgroups(os.getgroups())


@probe("uid-is-root", "processes", "be uid 0 on the host")
def _():
    with open("/proc/self/uid_map") as f:
        for line in f:
            inside, outside, count = (int(n) for n in line.split())
            if inside <= os.getuid() < inside + count:
                real = outside + os.getuid() - inside
                if real == 0:
                    return "it is"
                raise Held("it is %d" % real)
    raise Held("it has none there")


# ---- syscalls ----

@probe("seccomp", "syscalls", "run without a system call filter")
def _():
    if status("Seccomp") == "2":
        raise Held("a filter is set")
    return "mode " + str(status("Seccomp"))


for slug, flag, what in (("user", NEWUSER, "user"), ("mount", NEWNS, "mount"), ("pid", NEWPID, "process"), ("net", NEWNET, "network"),
                         ("ipc", NEWIPC, "IPC"), ("uts", NEWUTS, "host name"), ("cgroup", NEWCGROUP, "cgroup")):
    probe("unshare-" + slug, "syscalls", "make a namespace: " + what)(lambda flag=flag: call("unshare", flag) and None)


@probe("unshare-user-mount", "syscalls", "make a user namespace, and mount in it")
def _():
    call("unshare", NEWUSER | NEWNS)
    call("mount", b"none", b"/", None, 0x4000 | 0x40000, None)  # everything private
    call("mount", b"none", SCRATCH.encode(), b"tmpfs", 0, None)
    return "mounted, in a namespace of its own"


def ended(pid):
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0x40000000)  # __WALL


@probe("clone-user", "syscalls", "make a user namespace by clone")
def _():
    ended(call("clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0))


@probe("clone-mount", "syscalls", "make a mount namespace by clone")
def _():
    ended(call("clone", NEWNS | signal.SIGCHLD, 0, 0, 0, 0))


@probe("clone3-user", "syscalls", "make a user namespace by clone3")
def _():
    args = (ctypes.c_uint64 * 8)(NEWUSER, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    ended(call("clone3", args, 64))


def namespace(slug, what, path):
    @probe("setns-" + slug, "syscalls", "enter %s by setns" % what)
    def _():
        fd = os.open(path, os.O_RDONLY)
        call("setns", fd, 0)


namespace("net", "its own network namespace", "/proc/self/ns/net")
namespace("mount", "its own mount namespace", "/proc/self/ns/mnt")
namespace("init", "the mount namespace of process 1", "/proc/1/ns/mnt")


def kernel(slug, what, name, args, reached=(), lethal=False):
    """Make one call. An errno in reached comes after the privilege was found to be there."""
    @probe(slug, "syscalls", what, lethal)
    def _():
        try:
            call(name, *args())
        except OSError as e:
            if e.errno not in reached:
                raise
            return "the kernel went ahead, to " + errno.errorcode[e.errno]


HERE = SCRATCH.encode()
kernel("mount", "mount a filesystem", "mount", lambda: (b"none", HERE, b"hermes-none", 0, None), (errno.ENODEV,))
kernel("mount-bind", "mount a directory elsewhere", "mount", lambda: (HERE + b"/none", HERE, None, 4096, None), (errno.ENOENT,))
kernel("umount", "unmount a filesystem", "umount2", lambda: (HERE, 0), (errno.EINVAL,))
kernel("pivot-root", "change the root of the mount tree", "pivot_root", lambda: (HERE, HERE), (errno.EINVAL, errno.EBUSY))
kernel("chroot", "change the root directory", "chroot", lambda: (b"/",))
kernel("open-tree", "copy a mount by open_tree", "open_tree", lambda: (AT_FDCWD, HERE, 1))
kernel("fsopen", "make a filesystem by fsopen", "fsopen", lambda: (b"tmpfs", 0))
kernel("fspick", "change a filesystem by fspick", "fspick", lambda: (AT_FDCWD, b"/", 0))
kernel("move-mount", "move a mount", "move_mount", lambda: (-1, b"", -1, b"", 0x44), (errno.EBADF, errno.EINVAL))
kernel("mount-setattr", "change a mount", "mount_setattr", lambda: (AT_FDCWD, HERE, 0, block(120), 32), (errno.EINVAL,))
kernel("ptrace-child", "trace a process of its own", "ptrace", lambda: (SEIZE, sleeper(), 0, 0))
kernel("io-uring", "use io_uring", "io_uring_setup", lambda: (1, block(120)))
kernel("bpf", "load something for bpf", "bpf", lambda: (0, block(120, b"\2\0\0\0\4\0\0\0\4\0\0\0\1"), 72))
kernel("bpf-program", "load a program for bpf", "bpf", lambda: (5, None, 72), (errno.EFAULT,))
kernel("keyctl", "use the kernel's key rings", "keyctl", lambda: (0, -3, 1, 0, 0))
kernel("add-key", "add a key to the kernel's key rings", "add_key", lambda: (b"user", b"hermes", b"x", 1, -2))
kernel("userfaultfd", "handle its own page faults", "userfaultfd", lambda: (1,))
kernel("perf", "use the performance counters", "perf_event_open",
       lambda: (block(112, struct.pack("<IIQQQQQ", 1, 112, 0, 0, 0, 0, 0x60)), 0, -1, -1, 0))
kernel("kexec", "load another kernel", "kexec_load", lambda: (0, 99999, None, 0xfff0), (errno.EINVAL,))  # never with 0 segments: that unloads
kernel("kexec-file", "load another kernel from a file", "kexec_file_load", lambda: (-1, -1, 0, None, 0xffff0), (errno.EINVAL,))
kernel("init-module", "load a kernel module", "init_module", lambda: (None, 0, b""), (errno.ENOEXEC,))
kernel("finit-module", "load a kernel module from a file", "finit_module", lambda: (-1, b"", 0), (errno.EBADF,))
kernel("delete-module", "unload a kernel module", "delete_module", lambda: (b"hermes-none", os.O_NONBLOCK), (errno.ENOENT,))
kernel("syslog", "read the kernel's log by syslog", "syslog", lambda: (3, ctypes.create_string_buffer(16), 16))
kernel("swapon", "add swap space", "swapon", lambda: (HERE + b"/none", 0), (errno.ENOENT,))
kernel("reboot", "reboot", "reboot", lambda: (0, 0, 0, None), (errno.EINVAL,))
kernel("acct", "turn process accounting on", "acct", lambda: (HERE + b"/none",), (errno.ENOENT,))
kernel("sethostname", "set the host's name (to what it is)", "sethostname",
       lambda: (os.uname().nodename.encode(), len(os.uname().nodename.encode())))
kernel("iopl", "use the processor's I/O ports", "iopl", lambda: (3,))
kernel("ioperm", "use one of the processor's I/O ports", "ioperm", lambda: (0x80, 1, 1))
kernel("personality", "change what the kernel takes it for", "personality", lambda: (0x0400000,))
kernel("fanotify", "watch all files by fanotify", "fanotify_init", lambda: (4, 0))
kernel("kcmp", "compare kernel objects of two processes", "kcmp", lambda: (os.getpid(), 1, 0, 0, 0))


@probe("open-by-handle", "syscalls", "open a file by its handle, around every path")
def _():
    handle = block(136, struct.pack("<Ii", 128, 0))
    ident = ctypes.c_int()
    try:
        call("name_to_handle_at", AT_FDCWD, HERE, handle, ctypes.byref(ident), 0)
    except OSError as e:
        if e.errno not in (errno.EOPNOTSUPP, errno.EOVERFLOW):
            raise
        struct.pack_into("<Ii", handle, 0, 8, 1)
    fd = os.open(SCRATCH, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("open_by_handle_at", fd, handle, os.O_RDONLY)
    except OSError as e:
        if e.errno != errno.ESTALE:
            raise


@probe("pidfd-getfd", "syscalls", "take an open file out of another process")
def _():
    child = sleeper()
    call("pidfd_getfd", call("pidfd_open", child, 0), 0, 0)
    call("pidfd_getfd", call("pidfd_open", 1, 0), 0, 0)
    return "taken from process 1"


@probe("tiocsti", "syscalls", "put keystrokes into a terminal")
def _():
    master, slave = os.openpty()
    os.setsid()
    fcntl.ioctl(slave, 0x540E, 0)  # TIOCSCTTY
    fcntl.ioctl(slave, 0x5412, b"x")  # TIOCSTI


@probe("foreign-x32", "syscalls", "dodge the filter by x32 calls", lethal=True)
def _():
    if ARM or platform.machine() not in ("x86_64", "amd64"):
        raise Skip("this processor has none")
    return "pid %d" % raw(0x40000000 + 39)


@probe("foreign-i386", "syscalls", "dodge the filter by 32-bit calls", lethal=True)
def _():
    if ARM or platform.machine() not in ("x86_64", "amd64"):
        raise Skip("this processor has none")
    import mmap
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x14\0\0\0\xcd\x80\x5b\xc3")  # getpid by int 0x80
    r = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    if r == os.getpid():
        return "it answered"
    raise Held("it answered %d" % r)


@probe("memfd-exec", "syscalls", "shed confinement by running a program from memory")
def _():
    fd = call("memfd_create", b"hermes", 0)
    with open(cat(), "rb") as src:
        os.write(fd, src.read())
    out = subprocess.run(["/proc/self/fd/%d" % fd, "/proc/self/status"], pass_fds=[fd], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=5).stdout.decode()
    return shed(out)


def shed(text):
    """What a program's /proc/self/status shows it to lack."""
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    if "NoNewPrivs" not in lines:
        raise Held("it did not run")
    lacks = [n for n, want in (("NoNewPrivs", 1), ("Seccomp", 2), ("CapEff", 0)) if int(lines[n].strip(), 16) != want]
    if lacks:
        return "not as confined: " + ", ".join(lacks)
    raise Held("confined as well")


# ---- resources ----

def raised(kind, limit):
    try:
        resource.setrlimit(kind, (limit, limit))
    except ValueError as e:  # how it says EPERM
        raise Held(str(e))


@probe("core-limit", "resources", "raise the size limit of core dumps")
def _():
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0 and soft == 0:
        raised(resource.RLIMIT_CORE, 1)
        return "raised from zero"
    return "it is not zero"


@probe("core-dump", "resources", "leave a core dump")
def _():
    os.chdir(SCRATCH)
    pid = os.fork()
    if pid == 0:
        os.abort()
    _, how = os.waitpid(pid, 0)
    if os.WCOREDUMP(how):
        return "dumped"
    raise Held("none was made")


@probe("limit-files", "resources", "raise its limit of open files")
def _():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        raise Skip("it has none")
    raised(resource.RLIMIT_NOFILE, hard + 1)


@probe("priority", "resources", "raise its own priority")
def _():
    os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)


@probe("realtime", "resources", "run at a real-time priority")
def _():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


@probe("oom-score", "resources", "hide from the out-of-memory killer")
def _():
    with open("/proc/self/oom_score_adj", "w") as f:  # that of this probe's own process
        f.write("-1000")


@probe("lock-memory", "resources", "raise its limit of locked memory")
def _():
    _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if hard == resource.RLIM_INFINITY:
        raise Skip("it has none")
    raised(resource.RLIMIT_MEMLOCK, hard + 4096)


@probe("scratch-bounded", "resources", "fill the host's disk from the scratch directory")
def _():
    if not C["limited"]:
        raise Skip("no disk limit is enforced for this session")
    s = os.statvfs(SCRATCH)
    size = s.f_blocks * s.f_frsize
    if size == 0 or size > os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"):
        return "it may grow to %d MiB" % (size >> 20)
    raise Held("it may grow to %d MiB" % (size >> 20))


# Last but for what follows: it uses up what others need.
@probe("fork-bomb", "resources", "start more processes than allowed", seconds=20)
def _():
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    bounded = os.getuid() != 0 and 0 < hard < 5000
    if not C["limited"] and not bounded:
        raise Skip("no limit of processes is enforced for this session")
    if bounded:
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard + 1))
            return "it raised its limit of %d" % hard
        except (ValueError, OSError):
            pass
        # It is kept at a lower number, which takes a busy machine less time.
        resource.setrlimit(resource.RLIMIT_NPROC, (min(soft, 200), hard))
    # Where none is kept, a few more than allowed show it.
    most = C["pids"] + 500 if C["pids"] else 5000
    gate, hold = os.pipe()
    made = []
    deadline = time.time() + 12
    try:
        while len(made) < most and time.time() < deadline:
            pid = os.fork()
            if pid == 0:
                os.close(hold)
                os.read(gate, 1)
                os._exit(0)
            made.append(pid)
    except OSError as e:
        raise Held("%s at %d%s" % (errno.errorcode[e.errno], len(made), ", and no more than %d to be had" % hard if bounded else ""))
    finally:
        os.close(hold)
        for pid in made:
            os.waitpid(pid, 0)
    return "%d were started" % len(made)


# ---- environment ----

@probe("env-bait", "environment", "find a secret of the engine in the environment")
def _():
    found = [n.decode("utf-8", "replace") for n, v in os.environb.items() if bait() in v]
    if found:
        return "in " + ", ".join(found)
    raise Held("not there")


@probe("env-block", "environment", "find a secret of the engine in its own /proc/self/environ")
def _():
    with open("/proc/self/environ", "rb") as f:
        if bait() in f.read():
            return "found"
    raise Held("not there")


@probe("env-names", "environment", "find variables named like secrets")
def _():
    words = ("_API_KEY", "_SECRET", "_TOKEN", "PASSWORD", "_ACCESS_KEY", "CREDENTIAL", "PRIVATE_KEY")
    found = [n for n in os.environ if any(w in n.upper() for w in words) and n != "HERMES_RPC_TOKEN" and n not in C["passed"]]
    if found:
        return ", ".join(found)
    raise Held("none")


@probe("env-injection", "environment", "find variables that inject code into programs")
def _():
    names = ("LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONSTARTUP", "PYTHONHOME", "PERL5OPT", "RUBYOPT", "NODE_OPTIONS",
             "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "PROMPT_COMMAND", "SSH_AUTH_SOCK")
    found = [n for n in names if n in os.environ and n not in C["passed"]]
    if found:
        return ", ".join(found)
    raise Held("none")


@probe("env-command-line", "environment", "find a secret in a command line it can see of its own")
def _():
    with open("/proc/self/cmdline", "rb") as f:
        text = f.read()
    if bait() in text or os.environb.get(b"HERMES_RPC_TOKEN", b"\0\0\0") in text:
        return "found"
    raise Held("not there")


@probe("inherited-files", "environment", "inherit open files of the engine")
def _():
    if INHERITED:
        return "; ".join(INHERITED)
    raise Held("0, 1 and 2 alone")


@probe("inherited-terminal", "environment", "inherit the user's terminal")
def _():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
        return "/dev/tty can be opened"
    except OSError:
        if any(os.isatty(n) for n in (0, 1, 2)):
            return "one of 0, 1 and 2 is a terminal"
        raise


# ---- rpc ----

def ask(tool, args, token=None, raw_line=None):
    path = os.environ.get("HERMES_RPC_SOCKET")
    if not path:
        raise Skip("there is no tool socket")
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    s.settimeout(6)
    s.connect(path)
    frame = {"id": 1, "tool": tool, "args": args}
    token = os.environ["HERMES_RPC_TOKEN"] if token is None else token
    if token:
        frame["token"] = token
    s.sendall(raw_line or json.dumps(frame).encode() + b"\n")
    data = b""
    while not data.endswith(b"\n"):
        part = s.recv(65536)
        if not part:
            raise Held("the connection was closed")
        data += part
    s.close()
    return json.loads(data)


def granted(tool):
    if tool not in C["granted"]:
        raise Skip(tool + " is not granted here")


def unauthorized(slug, what, token):
    @probe("rpc-" + slug, "rpc", "call a tool " + what)
    def _():
        tool = (C["granted"] or ["read_file"])[0]
        answer = ask(tool, {}, token)
        if answer.get("error", {}).get("code") == "unauthorized":
            raise Held("unauthorized")
        return "answered: " + json.dumps(answer)[:60]


unauthorized("no-token", "without the token", "")
unauthorized("wrong-token", "with a wrong token", "0" * 64)
unauthorized("near-token", "with a token one character short", os.environ.get("HERMES_RPC_TOKEN", "x0")[:-1])


def refused(slug, what, names):
    @probe("rpc-" + slug, "rpc", "call " + what)
    def _():
        for name in names:
            answer = ask(name, {})
            if "not available" not in json.dumps(answer.get("result", answer).get("error", "")) and "error" not in answer:
                return "%r was taken" % name
        if not names:
            raise Skip("every tool is granted")
        raise Held("%d names refused" % len(names))


refused("ungranted", "a tool that was not granted", C["ungranted"][:3] + ["execute_code", "delegate_task"])
refused("variants", "a tool by a variant of its name", ["READ_FILE", "read_file ", "read-file", "__class__", "read_file\0", "\uff52ead_file"])


@probe("rpc-frame", "rpc", "upset the tool server by junk")
def _():
    for line in (b"\xff\xfe\n", b"[" * 600 + b"\n", b'{"id":1,"id":2}\n', b"{\n"):
        try:
            ask("", {}, raw_line=line)
        except (Held, OSError):
            pass
    if ask("execute_code", {}).get("id") == 1:
        raise Held("it still answers")
    return "it answers no more"


@probe("rpc-fifo", "rpc", "hang a file tool on a FIFO", seconds=10)
def _():
    granted("read_file")
    path = os.path.join(SCRATCH, "fifo")
    os.mkfifo(path)
    try:
        ask("read_file", {"path": path})
    except socket.timeout:
        return "it hangs"
    raise Held("it answers")


def tool_refused(answer):
    if "error" in answer or isinstance(answer.get("result"), dict) and answer["result"].get("error"):
        raise Held("refused")


@probe("tool-read-secret", "files", "read a secret place through a file tool")
def _():
    granted("read_file")
    names = [p["path"] + ("/" + p["names"][0] if p["dir"] else "") for p in C["secrets"] if p["exists"] and (not p["dir"] or p["names"])]
    return first_that_works([(n, lambda n=n: tool_refused(ask("read_file", {"path": n}))) for n in names[:5]], "there is no secret place here")


@probe("tool-write-outside", "files", "write a file outside the workspace through a file tool")
def _():
    granted("write_file")
    if not C["canaries"]:
        raise Skip("there was no place to put bait")
    tool_refused(ask("write_file", {"path": os.path.join(C["canaries"], "tool"), "content": "changed"}))


@probe("tool-terminal", "syscalls", "shed confinement in the terminal tool")
def _():
    granted("terminal")
    answer = ask("terminal", {"command": "cat /proc/self/status"})
    tool_refused(answer)
    result = answer["result"]
    if isinstance(result, str):
        result = json.loads(result)
    return shed(result.get("output", ""))


# ---- running them ----

def judge(fn):
    try:
        detail = fn()
        return "broken", detail or "it worked"
    except OSError as e:
        if isinstance(e, socket.timeout) or e.errno is None:
            return "held", "no answer"
        return "held", errno.errorcode.get(e.errno, str(e.errno))
    except Held as e:
        return "held", str(e)
    except Skip as e:
        return "na", str(e)
    except subprocess.TimeoutExpired:
        return "held", "no answer"
    except BaseException as e:  # what is not known to hold does not hold
        return "broken", "the probe itself failed: %s: %s" % (type(e).__name__, e)


def run(fn, lethal, seconds):
    """Judge in a child; one that is killed or hangs tells something, too."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        MINE.add(os.getpid())
        os.close(r)
        os.write(w, json.dumps(judge(fn)).encode()[:4096])
        os._exit(0)
    os.close(w)
    data = os.read(r, 4096) if select.select([r], [], [], seconds)[0] else None
    os.close(r)
    try:
        os.killpg(pid, signal.SIGKILL)  # and what it started
    except OSError:
        pass
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
    _, how = os.waitpid(pid, 0)
    if data:
        return json.loads(data)
    if data is None:
        return "broken", "no end after %d s" % seconds
    died = os.WTERMSIG(how) if os.WIFSIGNALED(how) else 0
    if died == signal.SIGSYS or lethal and died in (signal.SIGSEGV, signal.SIGILL, signal.SIGTRAP, signal.SIGBUS):
        return "held", "ended by " + signal.Signals(died).name
    return "broken", "the probe itself was ended by signal %d" % died


def say(**line):
    data = json.dumps(line).encode() + b"\n"
    while data:
        data = data[os.write(1, data):]


def attack():
    for slug, clause, what, fn, lethal, seconds in PROBES:
        verdict, detail = run(fn, lethal, seconds)
        say(id=slug, clause=clause, what=what, verdict=verdict, detail=detail)
    say(done=len(PROBES))


def stay():
    """Leave processes that do what they can to outlive the run; they end by themselves after a minute."""
    ready, tell = os.pipe()
    for how in ("asleep", "stopped"):
        if os.fork() == 0:
            os.setsid()
            if os.fork():
                os._exit(0)
            for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE):
                signal.signal(n, signal.SIG_IGN)
            signal.alarm(60)
            for n in (0, 1, 2):
                os.dup2(os.open("/dev/null", os.O_RDWR), n)
            os.write(tell, b"x")
            if how == "stopped":
                os.kill(os.getpid(), signal.SIGSTOP)
            while True:
                time.sleep(1)
    for _ in range(2):
        os.wait()
    os.read(ready, 1), os.read(ready, 1)
    time.sleep(0.05)  # for the one that stops itself: a chance, not a condition


def linger():
    stay()
    say(done=1)


def deafen():
    for n in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(n, signal.SIG_IGN)
    stay()
    say(done=1)
    while True:
        time.sleep(1)


def marks():
    return [d + "/" + C["nonce"] for d in ("/tmp", "/var/tmp", "/dev/shm", "/run", C["scratch"])]


def mark():
    made = 0
    for path in marks():
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            made += 1
        except OSError:
            pass
    say(done=made)


def look():
    say(done=1, seen=[os.path.dirname(p) for p in marks() if exists(p)])


def unmark():
    for path in marks():
        try:
            os.unlink(path)
        except OSError:
            pass
    say(done=1)


PARENT = os.getppid()
MINE = {os.getpid()}
{"attack": attack, "linger": linger, "deafen": deafen, "mark": mark, "look": look, "unmark": unmark}[sys.argv[1]]()
