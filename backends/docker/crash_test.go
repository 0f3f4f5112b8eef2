package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// engineMark makes of the test program an engine that is to be killed: it names
// the state directory.
const engineMark = "HERMES_EXEC_TEST_ENGINE"

// engineToKill makes a box with a command that does not end, and another
// container that waits.
func engineToKill(dir string) int {
	b := New(Config{
		Host: os.Getenv(engineMark + "_HOST"), Image: os.Getenv(engineMark + "_IMAGE"), StateDir: dir, Pool: 1,
		Guest: func(string, string) (string, error) { return os.Getenv(engineMark + "_GUEST"), nil },
		far:   os.Getenv(engineMark+"_FAR") != "",
	})
	spec := profile("workspace")
	spec.WorkDir = os.Getenv(engineMark + "_DIR")
	x, err := b.Create(context.Background(), spec)
	if err == nil {
		_, err = x.Start(context.Background(), sandbox.Cmd{Args: []string{"sh", "-c", "trap '' TERM HUP; while :; do sleep 1; done"}})
	}
	b.using.Wait() // the pool
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	b.mu.Lock()
	fmt.Println("ready", b.lease.id)
	b.mu.Unlock()
	select {}
}

// engine starts one and returns it with its lease.
func (w *world) engine(t *testing.T, state, dir, far string) (*exec.Cmd, string) {
	t.Helper()
	return w.engineAs(t, exec.Command(os.Args[0]), state, dir, far)
}

func (w *world) engineAs(t *testing.T, cmd *exec.Cmd, state, dir, far string) (*exec.Cmd, string) {
	t.Helper()
	cmd.Env = append(os.Environ(), engineMark+"="+state, engineMark+"_HOST="+w.host, engineMark+"_IMAGE="+w.images["python"],
		engineMark+"_GUEST="+w.guest, engineMark+"_DIR="+dir, engineMark+"_FAR="+far)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	word, id, _ := strings.Cut(strings.TrimSpace(line), " ")
	if word != "ready" {
		t.Fatalf("the engine says %q", line)
	}
	return cmd, id
}

// of lists the containers of a lease.
func (w *world) of(t testing.TB, lease string) []container.Summary {
	t.Helper()
	list, err := w.api(t).ContainerList(context.Background(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelLease+"="+lease)})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func TestKilledEngine(t *testing.T) {
	w := docker(t)
	for name, far := range map[string]string{"near": "", "far": "yes"} {
		t.Run(name, func(t *testing.T) {
			c, dir := w.config(t), ""
			if far == "" {
				dir = ownedDir(t)
			}
			killed, dead := w.engine(t, c.StateDir, dir, far)
			_, lives := w.engine(t, c.StateDir, dir, far)
			if n := len(w.of(t, dead)); n != 2 {
				t.Errorf("%d containers, want a box and one that waits", n)
			}
			if err := killed.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			eventually(t, 5*time.Second, "no container of the killed engine", func() bool { return len(w.of(t, dead)) == 0 })
			t.Logf("gone after %v", time.Since(began))
			_ = killed.Wait()
			c.far = far != ""
			b := backend(t, c)
			if _, err := b.Reap(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Lstat(filepath.Join(c.StateDir, leaseDir, dead)); !os.IsNotExist(err) {
				t.Errorf("the dead engine's state stayed: %v", err)
			}
			if n := len(w.of(t, lives)); n != 2 {
				t.Errorf("the living engine has %d containers left of 2", n)
			}
			if _, err := os.Lstat(filepath.Join(c.StateDir, leaseDir, lives, lockFile)); err != nil {
				t.Errorf("the living engine's lease: %v", err)
			}
		})
	}
}

// TestReap: orphans that did not end by themselves are removed, whatever state
// they are in, and nobody else's.
func TestReap(t *testing.T) {
	orphans := 40
	if os.Getenv("HERMES_EXEC_SOAK") != "" {
		orphans = 1000
	}
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	owner, err := openState(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	api := w.api(t)
	make := func(owner, lease string) string {
		made, err := api.ContainerCreate(context.Background(), client.ContainerCreateOptions{
			Config:     &container.Config{Image: w.images["sh"], Cmd: []string{"sleep", "600"}, Labels: map[string]string{labelOwner: owner, labelLease: lease, labelKind: "box"}},
			HostConfig: &container.HostConfig{NetworkMode: "none"},
		})
		if err != nil {
			t.Error(err)
			return ""
		}
		t.Cleanup(func() {
			_, _ = api.ContainerRemove(context.Background(), made.ID, client.ContainerRemoveOptions{Force: true})
		})
		return made.ID
	}
	live, err := takeLease(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer live.release()
	living := make(owner, live.id)
	strange := make("0123456789abcdef0123", newName())
	nonsense := make(owner, "../../etc")
	dead := newName()
	ids := append([]string(nil), make(owner, dead))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range orphans / 4 {
				make(owner, dead)
			}
		})
	}
	all.Wait()
	for i, do := range []func(id string) error{
		func(id string) error {
			_, err := api.ContainerStart(t.Context(), id, client.ContainerStartOptions{})
			return err
		},
		func(id string) error {
			_, err := api.ContainerPause(t.Context(), id, client.ContainerPauseOptions{})
			return err
		},
	} {
		if err := do(ids[0]); err != nil {
			t.Fatal(i, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(c.StateDir, leaseDir, dead, "abc", "link"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := backend(t, c)
	began := time.Now()
	removed, err := b.Reap(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d removed in %v", len(removed), time.Since(began))
	if len(removed) < orphans || len(w.of(t, dead)) != 0 {
		t.Errorf("%d of %d removed, %d left", len(removed), orphans+1, len(w.of(t, dead)))
	}
	if _, err := os.Lstat(filepath.Join(c.StateDir, leaseDir, dead)); !os.IsNotExist(err) {
		t.Errorf("the state of the dead stayed: %v", err)
	}
	for _, id := range []string{living, strange, nonsense} {
		if _, err := api.ContainerInspect(t.Context(), id, client.ContainerInspectOptions{}); err != nil {
			t.Errorf("somebody else's was removed: %v", err)
		}
	}
}

// TestPool: the second box of a kind finds a container that is ready, and one
// that is ready but dead is not given out.
func TestPool(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	c.Pool = 1
	b := backend(t, c)
	ready := func() (m *machine) {
		eventually(t, 30*time.Second, "a container is ready", func() bool {
			b.pool.mu.Lock()
			defer b.pool.mu.Unlock()
			for _, k := range b.pool.kinds {
				if len(k.ready) > 0 {
					m = k.ready[0]
				}
			}
			return m != nil
		})
		return m
	}
	create(t, b, profile("workspace"))
	first := ready()
	began := time.Now()
	if got := containerOf(create(t, b, profile("workspace"))); got != first.id {
		t.Error("what was ready is not used")
	}
	t.Logf("a box in %v", time.Since(began))
	second := ready()
	other := profile("workspace") // but for what a box is told when it is opened
	other.ID, other.Env = "other", []string{"PATH=/usr/bin:/bin", "MINE=yes"}
	x := create(t, b, other)
	if got := sh(t, x, "echo $MINE"); containerOf(x) != second.id || got != "yes" || x.Info().ID != "other" {
		t.Errorf("container %s, environment %q, %+v", containerOf(x), got, x.Info())
	}
	second = ready()
	if second == first {
		t.Fatal("it is given out twice")
	}
	if _, err := w.api(t).ContainerRemove(t.Context(), second.id, client.ContainerRemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, "the loss is known", func() bool { return !second.alive() })
	if got := containerOf(create(t, b, profile("workspace"))); got == second.id {
		t.Error("a dead one is used")
	}
	if got := containerOf(create(t, b, profile("open"))); got == ready().id {
		t.Error("one of another kind is used")
	}
}

// TestOverSSH reaches the engine as ssh:// does, through a program in the place
// of ssh that runs what it is to run over there.
func TestOverSSH(t *testing.T) {
	w := docker(t)
	if _, err := exec.LookPath("docker"); err != nil {
		without(t, err.Error())
	}
	bin := t.TempDir()
	script := "#!/bin/sh\nwhile [ \"$1\" != -- ]; do shift; done\nshift 2\nexec \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Setenv("DOCKER_HOST", w.host)
	c := w.config(t)
	c.Host = "ssh://somebody@somewhere"
	b := backend(t, c)
	if got := sh(t, create(t, b, profile("workspace")), "echo here"); got != "here" {
		t.Errorf("%q", got)
	}
	spec := profile("workspace")
	spec.WorkDir = ownedDir(t)
	if _, err := b.Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "does not see this machine's files") {
		t.Errorf("a work directory: %v", err)
	}
}

// TestPersistent: what a box without a work directory kept is there again.
func TestPersistent(t *testing.T) {
	t.Parallel()
	w := docker(t)
	c := w.config(t)
	c.Persistent = true
	for i, want := range []string{"none", "kept"} {
		b := New(c)
		spec := profile("workspace")
		spec.ID = "one"
		box := create(t, b, spec)
		if got := sh(t, box, "cat /workspace/file 2>/dev/null || echo none; echo kept >/workspace/file; echo home >/home/sandbox/file"); got != want {
			t.Errorf("%d: %q, want %q", i, got, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEngineStops is a docker engine of the test's own that is stopped in the
// middle of a command.
func TestEngineStops(t *testing.T) {
	t.Parallel()
	w := docker(t)
	if _, err := exec.LookPath("dockerd"); err != nil || os.Getuid() != 0 {
		without(t, "to start a docker engine of the test's own takes root and dockerd")
	}
	dir, err := os.MkdirTemp("", "dockerd-") // a short name, for its sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := w.config(t)
	c.Host, c.Image = "unix://"+filepath.Join(dir, "s"), w.images["sh"]
	var log lockedBuffer
	// The bridge is the other engine's: one that made its own would remove that.
	engine := exec.Command("dockerd", "-H", c.Host, "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"),
		"--pidfile", filepath.Join(dir, "pid"), "--bridge", "docker0", "--iptables=false", "--ip-masq=false", "--ip-forward=false")
	engine.Stdout, engine.Stderr = &log, &log
	if err := engine.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- engine.Wait() }()
	t.Cleanup(func() { _ = engine.Process.Signal(syscall.SIGTERM); <-ended })
	api, err := client.New(client.WithHost(c.Host))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	eventually(t, 30*time.Second, "the engine answers", func() bool {
		_, err := api.Ping(t.Context(), client.PingOptions{})
		return err == nil
	})
	save, err := w.api(t).ImageSave(t.Context(), []string{c.Image})
	if err != nil {
		t.Fatal(err)
	}
	defer save.Close()
	loaded, err := api.ImageLoad(t.Context(), save)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, loaded)
	loaded.Close()

	b := backend(t, c)
	box := create(t, b, profile("sealed"))
	var out lockedBuffer
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"sh", "-c", "echo before; sleep 600"}, Stdout: &out})
	if err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	eventually(t, 10*time.Second, "output", func() bool { return out.String() == "before\n" })
	if err := engine.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if !errors.Is(err, sandbox.ErrLost) || !strings.Contains(err.Error(), "engine stopped") || out.String() != "before\n" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
	t.Log(err)
	if err := box.Close(t.Context()); err != nil {
		t.Errorf("close: %v", err)
	}
	ended <- <-ended
	if _, err := b.Create(t.Context(), profile("sealed")); !errors.Is(err, sandbox.ErrUnavailable) {
		t.Errorf("the next box: %v", err)
	}
}
