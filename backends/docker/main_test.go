package docker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func TestMain(m *testing.M) {
	guest.Main()
	if dir := os.Getenv(engineMark); dir != "" {
		os.Exit(engineToKill(dir))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = f.Value.Set("4") // they wait for the docker engine more than they compute
	}
	code := m.Run()
	real.clean()
	os.Exit(code)
}

// real is what the tests run against, made at the first use.
var real world

type world struct {
	once   sync.Once
	why    string // there is nothing, and why
	host   string
	images map[string]string
	guest  string // a static program
	dir    string

	mu       sync.Mutex
	uploaded map[string]bool // volumes
}

// docker skips the test unless there is an engine with the test images, or one
// can be started.
func docker(t testing.TB) *world {
	t.Helper()
	real.once.Do(real.find)
	if real.why != "" {
		without(t, real.why)
	}
	return &real
}

// without skips the test for want of something that belongs to docker, unless
// that must be there. To have an engine takes root: the tests of an ordinary user
// do without.
func without(t testing.TB, why string) {
	t.Helper()
	if os.Getuid() == 0 && slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "docker") {
		t.Fatal(why)
	}
	t.Skip(why)
}

func (w *world) find() {
	if runtime.GOOS != "linux" {
		w.why = "the tests know a docker engine on linux alone"
		return
	}
	env := map[string]string{}
	for _, name := range []string{"HERMES_EXEC_TEST_DOCKER_HOST", "HERMES_EXEC_TEST_DOCKER_IMAGE", "HERMES_EXEC_TEST_DOCKER_IMAGE_SH", "HERMES_EXEC_TEST_DOCKER_IMAGE_NONE"} {
		env[name] = os.Getenv(name)
	}
	if env["HERMES_EXEC_TEST_DOCKER_IMAGE"] == "" {
		var stdout, stderr bytes.Buffer
		cmd := exec.Command("../../integration/docker.sh")
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			w.why = fmt.Sprintf("there is no docker engine: %v: %s", err, strings.TrimSpace(stderr.String()))
			return
		}
		for lines := bufio.NewScanner(&stdout); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), "=")
			env[name] = value
		}
	}
	w.host = env["HERMES_EXEC_TEST_DOCKER_HOST"]
	w.images = map[string]string{
		"python": env["HERMES_EXEC_TEST_DOCKER_IMAGE"], "sh": env["HERMES_EXEC_TEST_DOCKER_IMAGE_SH"], "none": env["HERMES_EXEC_TEST_DOCKER_IMAGE_NONE"],
	}
	var err error
	if w.dir, err = os.MkdirTemp("", "docker-test-"); err != nil {
		w.why = err.Error()
		return
	}
	if w.guest = os.Getenv(guestMark); w.guest != "" {
		return
	}
	w.guest = filepath.Join(w.dir, "guest")
	build := exec.Command("go", "build", "-o", w.guest, "github.com/hermes-exec/hermes-exec/cmd/hermes-exec")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		w.why = fmt.Sprintf("building the guest program: %v: %s", err, out)
	}
}

func (w *world) clean() {
	if w.dir != "" {
		os.RemoveAll(w.dir)
	}
	if w.why == "" && w.host != "" && !isShard() { // guests that were uploaded stay, for the next engine of the same user
		if api, err := client.New(client.WithHost(w.host)); err == nil {
			for name := range w.volumes() {
				_, _ = api.VolumeRemove(context.Background(), name, client.VolumeRemoveOptions{Force: true})
			}
			api.Close()
		}
	}
}

// volumes are the names of those that this run has made.
func (w *world) volumes() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.uploaded)
}

// remember notes what a backend has uploaded, before it is forgotten.
func (w *world) remember(b *Backend) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range b.guests {
		if w.uploaded == nil {
			w.uploaded = map[string]bool{}
		}
		w.uploaded[name] = true
	}
}

// config is one with a state directory of its own.
func (w *world) config(t testing.TB) Config {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return Config{
		Host: w.host, Image: w.images["python"], StateDir: dir,
		Guest: func(goos, goarch string) (string, error) {
			if goos != "linux" || goarch != runtime.GOARCH {
				return "", errors.New("no such guest")
			}
			return w.guest, nil
		},
	}
}

// api is a client of the test's own.
func (w *world) api(t testing.TB) *client.Client {
	api, err := client.New(client.WithHost(w.host))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	return api
}

// backend makes one that is closed with the test.
func backend(t testing.TB, c Config) *Backend {
	b := New(c)
	t.Cleanup(func() {
		real.remember(b)
		if err := b.Close(); err != nil {
			t.Errorf("closing the backend: %v", err)
		}
	})
	return b
}

// profile is a spec with no more than that.
func profile(name string) sandbox.Spec {
	return sandbox.Spec{Profile: sandbox.Profile{Name: name}}
}

func create(t testing.TB, b *Backend, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	box, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(context.Background()) })
	return box
}

// ran is a command that has ended.
type ran struct {
	stdout, stderr string
	exit           sandbox.Exit
	err            error
}

func run(t testing.TB, box sandbox.Sandbox, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	p, err := box.Start(ctx, sandbox.Cmd{Args: args, Stdout: &stdout, Stderr: &stderr})
	if err != nil {
		t.Fatalf("start %q: %v", args, err)
	}
	exit, err := p.Wait()
	return ran{stdout.String(), stderr.String(), exit, err}
}

// sh runs a script that must succeed, and returns what it wrote.
func sh(t testing.TB, box sandbox.Sandbox, script string) string {
	t.Helper()
	r := run(t, box, "sh", "-c", script)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("%q: %+v", script, r)
	}
	return strings.TrimSpace(r.stdout)
}

// eventually waits for an end state. On a machine that stood still meanwhile the
// time alone says nothing: there is a least number of looks, too.
func eventually(t testing.TB, within time.Duration, what string, done func() bool) {
	t.Helper()
	stop := time.Now().Add(within)
	for looks := 0; !done(); time.Sleep(20 * time.Millisecond) {
		if looks++; looks > int(within/(50*time.Millisecond)) && time.Now().After(stop) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// lockedBuffer may be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func quotaHere(t testing.TB, w *world) bool {
	i, err := w.api(t).Info(t.Context(), client.InfoOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return factsOf(i.Info).quota
}

func containerOf(b sandbox.Sandbox) string { return b.(*box).m.id }
