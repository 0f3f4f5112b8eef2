package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestNoEngine(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	for name, host := range map[string]string{
		"no socket":          "unix://" + filepath.Join(t.TempDir(), "none.sock"),
		"nobody at the port": "tcp://" + refused.Addr().String(),
		"a strange address":  "ftp://somewhere",
		"an option for ssh":  "ssh://-oProxyCommand=touch",
	} {
		t.Run(name, func(t *testing.T) {
			b := backend(t, Config{Host: host, Image: "x", StateDir: t.TempDir()})
			_, err := b.Create(t.Context(), sandbox.Spec{})
			if err == nil || strings.HasPrefix(name, "no") && !errors.Is(err, sandbox.ErrUnavailable) {
				t.Errorf("%v", err)
			}
			f := b.Check(t.Context())
			if len(f) != 1 || f[0].Severity != sandbox.Failure || f[0].Fix == "" {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestGuestThatCannotRun is linked with what the image does not have.
func TestGuestThatCannotRun(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	c.Image, c.Guest = w.images["sh"], func(string, string) (string, error) { return "/bin/true", nil }
	b := New(c)
	t.Cleanup(func() { w.remember(b); b.Close() })
	if _, err := b.Create(t.Context(), profile("workspace")); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("%v", err)
	}
}

// TestSilentEngine is one that takes connections and says nothing.
func TestSilentEngine(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b := backend(t, Config{Host: "unix://" + l.Addr().String(), Image: "x", StateDir: t.TempDir()})
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, enough)
	defer cancel()
	if _, err := b.Create(ctx, sandbox.Spec{}); !errors.Is(err, enough) {
		t.Errorf("%v", err)
	}
}

func TestImages(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	for name, want := range map[string]string{
		"127.0.0.1:1/none:none": "is not there and cannot be pulled",
		"not an image":          "is not an image's name",
		"UPPER":                 "UPPER",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		_, err := b.Create(ctx, sandbox.Spec{Image: name})
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// TestOtherArchitecture is an image with nothing but the word that it is another
// machine's.
func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	w := docker(t)
	api := w.api(t)
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	layer := make([]byte, 1024) // the end of a tar
	sum := sha256.Sum256(layer)
	name := "hermes-exec-test-arch:" + newName()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for _, f := range []struct{ name, text string }{
		{"config.json", fmt.Sprintf(`{"architecture": %q, "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": ["sha256:%x"]}}`, other, sum)},
		{"layer.tar", string(layer)},
		{"manifest.json", fmt.Sprintf(`[{"Config": "config.json", "RepoTags": [%q], "Layers": ["layer.tar"]}]`, name)},
	} {
		_ = tw.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.text))})
		_, _ = tw.Write([]byte(f.text))
	}
	tw.Close()
	loaded, err := api.ImageLoad(t.Context(), &archive)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, loaded)
	loaded.Close()
	defer api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{Force: true})
	_, err = backend(t, w.config(t)).Create(t.Context(), sandbox.Spec{Image: name})
	if !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "is for linux/"+other) {
		t.Errorf("%v", err)
	}
}

// TestRemoved is docker rm -f in the middle of a command.
func TestRemoved(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	box := create(t, b, profile("workspace"))
	id := containerOf(box)
	var out lockedBuffer
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo before; sleep 600"}, Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "output", func() bool { return out.String() == "before\n" })
	if _, err := w.api(t).ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "rm -f") || out.String() != "before\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("start after the end: %v", err)
	}
	if err := box.Close(t.Context()); err != nil {
		t.Errorf("close after the end: %v", err)
	}
	if got := sh(t, create(t, b, profile("workspace")), "echo next"); got != "next" {
		t.Errorf("the next box: %q", got)
	}
}

// TestFullMemory is a directory in memory that is filled: who writes is told, and
// nobody is killed for it.
func TestFullMemory(t *testing.T) {
	t.Parallel()
	w := docker(t)
	spec := profile("workspace")
	spec.Resources.Memory = 96 << 20
	box := create(t, backend(t, w.config(t)), spec)
	for _, name := range []string{"/tmp/big", "/dev/shm/big"} {
		r := run(t, box, "sh", "-c", "dd if=/dev/zero of="+name+" bs=1M count=500; rm "+name)
		if r.err != nil || r.exit.Code != 0 || r.exit.Limit != "" || !strings.Contains(r.stderr, "No space left on device") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestGuestOutOfMemory is a container whose guest itself is killed: by pages
// that belong to nobody who could be killed instead.
func TestGuestOutOfMemory(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	spec := profile("workspace")
	spec.Resources.Memory = 64 << 20
	box := create(t, b, spec)
	r := run(t, box, "sh", "-c", "echo before; for d in /tmp /var/tmp /dev/shm /run; do dd if=/dev/zero of=$d/big bs=1M count=500; done; exec sleep 600")
	if r.stdout != "before\n" || r.exit.Limit != sandbox.LimitMemory {
		t.Errorf("%+v, %v", r, r.err)
	}
	if r.err != nil && (!errors.Is(r.err, sandbox.ErrLost) || !strings.Contains(r.err.Error(), "memory")) {
		t.Errorf("%+v, %v", r, r.err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	w := docker(t)
	for name, change := range map[string]func(*Config, *sandbox.Spec){
		"--privileged":    func(c *Config, _ *sandbox.Spec) { c.ExtraArgs = []string{"--privileged"} },
		"no_such_runtime": func(c *Config, _ *sandbox.Spec) { c.Runtime = "no_such_runtime" },
		"docker.sock":     func(c *Config, _ *sandbox.Spec) { c.Volumes = []string{"/var/run/docker.sock:/s"} },
		"/proc":           func(c *Config, _ *sandbox.Spec) { c.Volumes = []string{"/proc:/p"} },
		"container's root": func(c *Config, _ *sandbox.Spec) {
			c.Volumes = []string{"/srv:/"}
		},
		"whole system":       func(_ *Config, s *sandbox.Spec) { s.WorkDir = "/" },
		"engine's own state": func(c *Config, s *sandbox.Spec) { s.WorkDir = c.StateDir },
		"not absolute":       func(_ *Config, s *sandbox.Spec) { s.WorkDir = "relative" },
		"no such file":       func(_ *Config, s *sandbox.Spec) { s.WorkDir = "/none/such" },
		"disk":               func(_ *Config, s *sandbox.Spec) { s.Profile.Name = "open"; s.Resources.Disk = 1 << 20 },
		"want NAME=value":    func(c *Config, _ *sandbox.Spec) { c.Env = []string{"NONSENSE"} },
	} {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			c, spec := w.config(t), profile("workspace")
			change(&c, &spec)
			if name == "disk" && quotaHere(t, w) {
				t.Skip("the storage driver has quotas")
			}
			_, err := backend(t, c).Create(t.Context(), spec)
			if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "is not an absolute", "not absolute"), name) {
				t.Errorf("%v", err)
			}
			owner, err := openState(c.StateDir)
			if err != nil {
				t.Fatal(err)
			}
			list, err := w.api(t).ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelOwner+"="+owner).Add("label", labelKind+"=box")})
			if err != nil || len(list.Items) > 0 {
				t.Errorf("containers were made: %+v, %v", list.Items, err)
			}
		})
	}
}

// TestEnvironment: what is configured arrives, and nobody who asks the engine
// sees it.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	c.Env, c.ForwardEnv = []string{"PLAIN=s3cret-1"}, []string{"FORWARDED", "UNSET"}
	c.Environ = append(os.Environ(), "FORWARDED=s3cret-2")
	box := create(t, backend(t, c), profile("workspace"))
	if got := sh(t, box, "echo $PLAIN $FORWARDED ${UNSET-unset}"); got != "s3cret-1 s3cret-2 unset" {
		t.Errorf("%q", got)
	}
	if env := strings.Join(box.Info().Env, "\n"); !strings.Contains(env, "PLAIN=s3cret-1") || !strings.Contains(env, "PATH=") {
		t.Errorf("Info.Env: %q", env)
	}
	got, err := w.api(t).ContainerInspect(t.Context(), containerOf(box), client.ContainerInspectOptions{})
	if err != nil || strings.Contains(string(got.Raw), "s3cret") {
		t.Errorf("docker inspect: %v\n%s", err, got.Raw)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := docker(t)
	b := backend(t, w.config(t))
	var subjects []string
	for _, f := range b.Check(t.Context()) {
		subjects = append(subjects, f.Subject)
		if f.Severity != sandbox.OK {
			t.Errorf("%+v", f)
		}
	}
	for _, want := range []string{"docker engine", "image", "guest", "box", "box: syscalls", "python"} {
		if !strings.Contains(strings.Join(subjects, "|")+"|", want+"|") {
			t.Errorf("nothing about %s in %q", want, subjects)
		}
	}
	c := w.config(t)
	c.Image = "127.0.0.1:1/none"
	f := backend(t, c).Check(t.Context())
	if last := f[len(f)-1]; last.Subject != "image" || last.Fix == "" {
		t.Errorf("%+v", f)
	}
}
