//go:build linux

package ssh_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// The test program is also the guest that is uploaded.
func TestMain(m *testing.M) {
	guest.Main()
	if c, ok, err := serve.Parse(os.Args[1:]); ok {
		if err == nil {
			err = serveBoxes(c)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == "engine" {
		engine()
	}
	code := m.Run()
	throwAway.stop()
	os.Exit(code)
}

// serveBoxes makes boxes of policies as a test has written them.
func serveBoxes(c serve.Command) error {
	backend := local.New(local.Config{Adopt: true})
	defer backend.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	return c.Run(context.Background(), serve.Config{
		Guest: self, Env: os.Environ(),
		Open: func(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
			var p sandbox.Policy
			if err := json.Unmarshal(r.Profile.File, &p); err != nil {
				return nil, fmt.Errorf("policy %q: %w: %w", r.Profile.Name, err, sandbox.ErrPolicy)
			}
			if !p.Unconfined {
				p.Read = append(p.Read, self)
			}
			return backend.Create(ctx, sandbox.Spec{ID: r.ID, WorkDir: r.WorkDir, Env: r.Env, Policy: p, Resources: r.Resources})
		},
	})
}

// written gives the policy of a Spec to the far end as it stands.
type written struct{ *ssh.Backend }

func (w written) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	text, err := json.Marshal(spec.Policy)
	if err != nil {
		return nil, err
	}
	spec.Profile = sandbox.Profile{Name: spec.Policy.Name, File: text}
	return w.Backend.Create(ctx, spec)
}

// openSpec asks for a box without confinement, of either rung.
func openSpec() sandbox.Spec {
	return sandbox.Spec{Policy: sandbox.Policy{Name: "open", Unconfined: true}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}}
}

// self is the guest program.
func self(goos, goarch string) (string, error) {
	if bin := os.Getenv("HERMES_EXEC_BIN"); bin != "" && flag.Parsed() && testing.Short() {
		return bin, nil // without the race detector, whose processes start and end slowly
	}
	return os.Executable()
}

// throwAway is the sshd of this run.
var throwAway struct {
	sshd
}

type sshd struct {
	once   sync.Once
	dir    string
	config string
	ours   bool
	why    string
}

const script = "../../integration/sshd.sh"

func (s *sshd) start() {
	s.dir, s.config = os.Getenv("HERMES_EXEC_TEST_SSH_DIR"), os.Getenv("HERMES_EXEC_TEST_SSH_CONFIG")
	if s.config != "" {
		return
	}
	dir, err := os.MkdirTemp("", "sshd")
	if err != nil {
		s.why = err.Error()
		return
	}
	s.ours, s.dir = true, dir
	var complaint bytes.Buffer
	cmd := exec.Command(script, "start")
	cmd.Env, cmd.Stderr = append(os.Environ(), "HERMES_EXEC_TEST_SSH_DIR="+dir, fmt.Sprintf("HERMES_EXEC_TEST_SSH_FOR=%d", os.Getpid())), &complaint
	out, err := cmd.Output()
	if err != nil {
		s.why = strings.TrimSpace(complaint.String() + " " + err.Error())
		return
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "HERMES_EXEC_TEST_SSH_CONFIG="); ok {
			s.config = v
		}
	}
}

func (s *sshd) stop() {
	if !s.ours {
		return
	}
	cmd := exec.Command(script, "stop")
	cmd.Env, cmd.Stderr = append(os.Environ(), "HERMES_EXEC_TEST_SSH_DIR="+s.dir), os.Stderr
	_ = cmd.Run()
	_ = os.RemoveAll(s.dir)
	_ = os.Remove(s.dir + ".lock")
}

// server makes sure that there is an sshd and returns its directory.
func server(t testing.TB) (dir string) {
	t.Helper()
	throwAway.once.Do(throwAway.start)
	if throwAway.why != "" {
		if slices.Contains(strings.Split(os.Getenv("HERMES_EXEC_REQUIRE"), ","), "ssh") {
			t.Fatal(throwAway.why)
		}
		t.Skip("no sshd for tests: " + throwAway.why)
	}
	return throwAway.dir
}

// at is a Config for one of the hosts of the throw-away sshd.
func at(t testing.TB, host string) ssh.Config {
	t.Helper()
	server(t)
	return ssh.Config{Host: host, ConfigFile: throwAway.config, Agent: "none", Guest: self}
}

// plainly is one without a guest.
func plainly(t testing.TB, host string) ssh.Config {
	c := at(t, host)
	c.Guest = nil
	return c
}

// backend makes a backend that ends with the test.
func backend(t testing.TB, c ssh.Config) *ssh.Backend {
	t.Helper()
	b := ssh.New(c)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return b
}

// box makes a box that ends with the test.
func box(t testing.TB, b *ssh.Backend) sandbox.Sandbox {
	t.Helper()
	made, err := written{b}.Create(t.Context(), openSpec())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { made.Close(context.Background()) })
	return made
}

// output runs a shell script that must succeed.
func output(t testing.TB, b sandbox.Sandbox, script string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	p, err := b.Start(t.Context(), sandbox.Cmd{Args: append([]string{"/bin/sh", "-c", script, "sh"}, args...), Stdout: &out, Stderr: &errs})
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil || exit.Code != 0 {
		t.Fatalf("%s: %+v, %v, %s", script, exit, err, errs.String())
	}
	return out.String()
}

func home(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join(server(t), "home"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
