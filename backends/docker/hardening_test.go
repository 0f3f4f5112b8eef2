package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// look prints what a box can tell about its walls, one fact a line.
const look = `
grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\t '
echo uid:$(id -u)
test -S /var/run/docker.sock || test -S /run/docker.sock && echo docker.sock
touch /usr/x 2>/dev/null && echo root:written
grep -q ' / overlay ro' /proc/mounts && echo root:ro || echo root:rw
for d in /dev/sda /dev/vda /dev/mem /dev/kmsg /dev/fuse; do test -e $d && echo device:$d; done
echo 1 2>/dev/null >/proc/sys/kernel/panic && echo sysctl:written
grep -o 'eth0' /proc/net/dev
echo init:$(tr '\0' ' ' </proc/1/cmdline | cut -c1-24)
exit 0
`

func TestHardening(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	for name, want := range map[string]struct {
		has, not []string
	}{
		"sealed":    {[]string{"root:ro", "Seccomp:2"}, []string{"eth0"}},
		"workspace": {[]string{"eth0", "Seccomp:2"}, nil},
		"open":      {[]string{"root:rw", "eth0", "Seccomp:2", "uid:0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := sh(t, create(t, b, profile(name)), look)
			for _, cap := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
				want.has = append(want.has, cap+":0000000000000000")
			}
			for _, has := range append(want.has, "NoNewPrivs:1") {
				if !strings.Contains(out, has) {
					t.Errorf("no %q in\n%s", has, out)
				}
			}
			if name != "open" {
				want.not = append(want.not, "uid:0", "root:written")
			}
			for _, not := range append(want.not, "docker.sock", "device:", "sysctl:") {
				if strings.Contains(out, not) {
					t.Errorf("%q in\n%s", not, out)
				}
			}
		})
	}
}

// TestSystemCalls tries what the container's own list refuses, in the profile in
// which no other list stands.
func TestSystemCalls(t *testing.T) {
	t.Parallel()
	w := docker(t)
	box := create(t, backend(t, w.config(t)), profile("open"))
	out := run(t, box, "python3", "-c", `
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    r = libc.syscall(*args)
    print(name, 'ok' if r >= 0 else errno.errorcode[ctypes.get_errno()])
x86 = os.uname().machine == 'x86_64'
call('unshare', 272 if x86 else 97, 0x10000000)
call('mount', 165 if x86 else 40, 0, 0, 0, 0, 0)
call('ptrace', 101 if x86 else 117, 0, 0, 0, 0)
call('bpf', 321 if x86 else 280, 0, 0, 0)
call('keyctl', 250 if x86 else 219, 0, 0, 0, 0, 0)
call('io_uring_setup', 425, 1, 0)
call('userfaultfd', 323 if x86 else 282, 0)
call('perf_event_open', 298 if x86 else 241, 0, 0, -1, -1, 0)
call('clone3', 435, 0, 0)
call('setns', 308 if x86 else 268, 0, 0)
call('landlock', 444, 0, 0, 1)
for family in (40, 17, 38):
    try:
        socket.socket(family, socket.SOCK_STREAM if family == 40 else socket.SOCK_RAW if family == 17 else 5)
        print(family, 'ok')
    except OSError as e:
        print(family, errno.errorcode[e.errno])
`)
	for line := range strings.Lines(out.stdout) {
		name, got, _ := strings.Cut(strings.TrimSpace(line), " ")
		want := "EPERM"
		switch name {
		case "clone3":
			want = "ENOSYS"
		case "landlock":
			want = "ok"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if n := strings.Count(out.stdout, "\n"); n != 14 {
		t.Errorf("%d calls were tried: %+v", n, out)
	}
}

func TestWorkDirectory(t *testing.T) {
	t.Parallel()
	w := docker(t)
	dir := ownedDir(t)
	put := func(name, text string) {
		t.Helper()
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		for p := full; os.Getuid() == 0 && p != dir; p = filepath.Dir(p) {
			if err := os.Chown(p, 12345, 12345); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(".git/HEAD", "ref: refs/heads/main\n")
	put(".git/config", "[core]\n")
	put(".github/workflows/ci.yml", "on: push\n")
	put("secrets/key", "the key\n")
	put("data.txt", "data\n")
	b := backend(t, w.config(t))
	spec := profile("workspace")
	spec.WorkDir, spec.Profile.DenyRead = dir, []string{"./secrets"}
	box := create(t, b, spec)
	if got := sh(t, box, "pwd; cat data.txt; echo new >new.txt; stat -c %u new.txt; echo x >.git/index"); got != "/workspace\ndata\n12345" && os.Getuid() == 0 {
		t.Errorf("the work directory: %q", got)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "new.txt")); err != nil || string(text) != "new\n" {
		t.Errorf("what was written: %q, %v", text, err)
	}
	for _, script := range []string{
		"echo x >>.git/config", "echo x >.git/hooks/pre-commit", "mv .git/hooks h", "mv .git g", "mv .github x", "rm -r .github",
		"echo x >>.github/workflows/ci.yml", "echo x >.github/workflows/new.yml", "echo x >.envrc", "rmdir .envrc", "echo x >.vscode/tasks.json",
		"mv .vscode v", "cat secrets/key", "ls secrets/*", "mkdir .git/modules/x",
	} {
		if r := run(t, box, "sh", "-c", script); r.exit.Code == 0 {
			t.Errorf("%q was done: %q", script, r.stdout)
		}
	}
	if err := box.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".envrc", ".vscode", ".idea"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); !os.IsNotExist(err) {
			t.Errorf("%s stayed: %v", name, err)
		}
	}
}

func TestResources(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	spec := profile("sealed")
	spec.Resources = sandbox.Resources{Memory: 96 << 20, PIDs: 40, Disk: 16 << 20, CPU: 0.5}
	box := create(t, b, spec)
	t.Run("memory", func(t *testing.T) {
		r := run(t, box, "python3", "-c", "print('before', flush=True); x = bytearray(300 << 20)")
		if r.exit.Limit != sandbox.LimitMemory || r.stdout != "before\n" || r.err != nil {
			t.Errorf("%+v", r)
		}
		if got := sh(t, box, "echo next"); got != "next" {
			t.Errorf("the next run: %q", got)
		}
	})
	t.Run("killed by itself", func(t *testing.T) {
		if r := run(t, box, "sh", "-c", "kill -9 $$"); r.exit.Limit != "" {
			t.Errorf("%+v", r)
		}
	})
	t.Run("disk", func(t *testing.T) {
		r := run(t, box, "sh", "-c", `dd if=/dev/zero of="${TMPDIR:-/tmp}/big" bs=1M count=64; rm -f "${TMPDIR:-/tmp}/big"`)
		if !strings.Contains(r.stderr, "No space left") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("processes", func(t *testing.T) {
		r := run(t, box, "python3", "-c", `
import os, sys
n = 0
try:
    for n in range(400):
        if os.fork() == 0:
            import time; time.sleep(30); os._exit(0)
except OSError as e:
    print('refused after', n)
`)
		if !strings.Contains(r.stdout, "refused after") {
			t.Errorf("%+v", r)
		}
	})
}

// TestProfiles is the law of policies for boxes whose policy is made inside.
func TestProfiles(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	file := func(text string) sandbox.Spec {
		return sandbox.Spec{Profile: sandbox.Profile{Name: "law.yaml", File: []byte(text)}}
	}
	box := create(t, b, file("extends: sealed\nnetwork: host\n"))
	if out := sh(t, box, "cat /proc/net/dev"); !strings.Contains(out, "eth0") {
		t.Errorf("a network was asked for: %q", out)
	}
	if _, err := b.Create(t.Context(), file("extends: sealed\nnetwork: some\n")); err == nil || !strings.Contains(err.Error(), "law.yaml") {
		t.Errorf("an unknown network: %v", err)
	}
	spec := sandbox.Spec{} // the strictest
	if out := sh(t, create(t, b, spec), "cat /proc/net/dev"); strings.Contains(out, "eth0") {
		t.Errorf("the zero spec has a network: %q", out)
	}
	for _, c := range box.Info().Enforcement {
		if c.State != sandbox.Enforced {
			t.Errorf("%+v", c)
		}
	}
}

// TestImagesWithout are images that lack what others have.
func TestImagesWithout(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	spec := profile("workspace")
	spec.Image = w.images["sh"]
	box := create(t, b, spec)
	if got := sh(t, box, "echo $0; command -v bash python3; true"); !strings.HasPrefix(got, "sh") || strings.Contains(got, "/") {
		t.Errorf("an image with a shell alone: %q", got)
	}
	spec.Image = w.images["none"]
	box = create(t, b, spec)
	if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"/bin/sh", "-c", "true"}}); !os.IsNotExist(err) && (err == nil || !strings.Contains(err.Error(), "no such file")) {
		t.Errorf("an image without anything: %v", err)
	}
	r := run(t, box, box.Info().Guest, "--help") // exec works: the guest is the one program there
	if r.err != nil || r.stdout+r.stderr == "" {
		t.Errorf("the one program there is: %+v", r)
	}
}

// TestVolumes: what the user has mounted is there, under every profile.
func TestVolumes(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	data, fixed := ownedDir(t), ownedDir(t)
	if err := errors.Join(os.Chmod(data, 0o777), os.WriteFile(filepath.Join(fixed, "file"), []byte("fixed"), 0o644), os.Chmod(fixed, 0o777)); err != nil {
		t.Fatal(err)
	}
	c.Volumes = []string{data + ":/data", fixed + ":/fixed:ro"}
	b := backend(t, c)
	for _, name := range []string{"open", "workspace", "sealed"} {
		box := create(t, b, profile(name))
		if got := sh(t, box, "cat /fixed/file; echo "+name+" >/data/"+name); got != "fixed" {
			t.Errorf("%s: %q", name, got)
		}
		if text, err := os.ReadFile(filepath.Join(data, name)); err != nil || strings.TrimSpace(string(text)) != name {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		if r := run(t, box, "sh", "-c", "echo x >/fixed/new"); r.exit.Code == 0 {
			t.Errorf("%s: a read-only volume was written", name)
		}
	}
}

// TestReplacedGuard: a file that was replaced on this machine has lost its
// mount, which is told or refused, never overlooked.
func TestReplacedGuard(t *testing.T) {
	t.Parallel()
	w := docker(t)
	dir := ownedDir(t)
	name := filepath.Join(dir, ".envrc")
	replace := func(text string) {
		if err := errors.Join(os.WriteFile(name+".new", []byte(text), 0o666), os.Rename(name+".new", name)); err != nil {
			t.Fatal(err)
		}
	}
	replace("one\n")
	b := backend(t, w.config(t))
	spec := sandbox.Spec{WorkDir: dir, Profile: sandbox.Profile{Name: "strict.yaml", File: []byte("extends: sealed\nread: [.]\nwrite: [.]\n")}}
	strict := create(t, b, spec)
	spec.Profile = sandbox.Profile{Name: "workspace"}
	lax := create(t, b, spec)
	sh(t, strict, "true")
	since := time.Now()
	replace("two\n")
	if _, err := strict.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrPolicy) {
		t.Errorf("strict: %v", err)
	}
	sh(t, lax, "cat .envrc")
	found, _, err := lax.(sandbox.Auditor).FutureInputs(t.Context(), since)
	if err != nil || len(found) != 1 || found[0].Path != name {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestRuntime: the runtime that is asked for is the one the container has, its
// guest is reached without a socket of this machine's (which gVisor and Kata do
// not pass), and what it keeps is named after it.
func TestRuntime(t *testing.T) {
	t.Parallel()
	w := docker(t)
	const other = "io.containerd.runc.v2" // every Docker engine since 20.10 has it
	c := w.config(t)
	c.Runtime = other
	box := create(t, backend(t, c), profile("workspace"))
	got, err := w.api(t).ContainerInspect(t.Context(), containerOf(box), client.ContainerInspectOptions{})
	if err != nil || got.Container.HostConfig.Runtime != other {
		t.Fatalf("%+v, %v", got.Container.HostConfig, err)
	}
	for _, bind := range got.Container.HostConfig.Mounts {
		if strings.HasSuffix(bind.Source, "/link") {
			t.Errorf("a socket is bound: %+v", bind)
		}
	}
	if out := sh(t, box, "echo it runs"); out != "it runs" {
		t.Errorf("%q", out)
	}
	named := 0
	for _, clause := range box.Info().Enforcement {
		if strings.Contains(clause.Mechanism, "runtime "+other) {
			named++
		}
	}
	if named == 0 {
		t.Errorf("nothing is said of it: %+v", box.Info().Enforcement)
	}
}
