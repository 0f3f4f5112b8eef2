package engine

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hermes-exec/hermes-exec/config"
	"github.com/hermes-exec/hermes-exec/registry"
	"github.com/hermes-exec/hermes-exec/registry/tools"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sandboxtest"
)

// What the cases of TestReferenceRows are made of.

type change = func(*Config, *Task, *Script)

// shows runs a script and looks at its result.
func shows(code string, setup change, check func(*testing.T, Result)) func(*testing.T) {
	return func(t *testing.T) { check(t, run(t, code, setup)) }
}

// prints runs a script and wants success and this output.
func prints(code, want string) func(*testing.T) {
	return shows(code, nil, func(t *testing.T, r Result) { wantOutput(t, r, want) })
}

// printsWith is prints in another setting.
func printsWith(setup change, code, want string) func(*testing.T) {
	return shows(code, setup, func(t *testing.T, r Result) { wantOutput(t, r, want) })
}

// all joins the parts of a row.
func all(parts ...func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) {
		for _, part := range parts {
			part(t)
		}
	}
}

// realTools gives a session the tools of this module.
func realTools(c *Config, _ *Task, _ *Script) {
	c.Tools = func(box sandbox.Sandbox) []registry.Tool { return tools.New(box, tools.Config{Env: testEnviron()}) }
}

func wantStatus(t *testing.T, r Result, want Status) {
	t.Helper()
	if r.Status != want {
		t.Errorf("got %s, want status %s", r.JSON(), want)
	}
}

func wantOutput(t *testing.T, r Result, want string) {
	t.Helper()
	if r.Output != want || r.Status != Success {
		t.Errorf("got %.600s %.300s, want %.600q", r.JSON(), r.Stderr, want)
	}
}

// program is what a fake box runs in place of a script.
type program func(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) sandbox.Exit

// inFakeTime runs a program in a bubble where time is fake: it passes only when
// everybody waits, and then at once. What polls shows there as a delay, what
// has a timeout of its own as a failure.
func inFakeTime(p program, setup change, check func(t *testing.T, r Result, took time.Duration)) func(*testing.T) {
	return func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			task, script := Task{WorkDir: "/work", Policy: unconfined()}, Script{Code: "pass", Interpreter: "/work/python3.11"}
			e := newEngine(t, func(c *Config) {
				c.Backends = map[string]sandbox.Backend{"local": &sandboxtest.Fake{Run: p}}
				if setup != nil {
					setup(c, &task, &script)
				}
			})
			s := open(t, e, task)
			f, err := s.place.box.Files().Create(t.Context(), "/work/python3.11", sandbox.CreateOptions{Perm: 0o755})
			if err == nil {
				err = f.Commit()
			}
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			r, err := s.Run(t.Context(), script)
			took := time.Since(start)
			if err != nil {
				t.Fatal(err)
			}
			check(t, r, took)
			time.Sleep(time.Hour) // whatever was left running may end
		})
	}
}

// remoteBackends are the reference's places to run that are not built yet.
func remoteBackends() []string { return []string{"docker", "ssh", "singularity", "modal", "daytona"} }

// refusesRemote shows what is answered instead of going there: a refusal that
// names what is there, and nothing is started.
func refusesRemote(change func(*Task)) func(*testing.T) {
	return func(t *testing.T) {
		fake := &sandboxtest.Fake{}
		e := newEngine(t, func(c *Config) { c.Backends = map[string]sandbox.Backend{"local": fake} })
		for _, name := range remoteBackends() {
			task := Task{Backend: name}
			if change != nil {
				change(&task)
			}
			s, err := e.Open(t.Context(), task)
			wantRefusal(t, name, s, err)
			_, err = New(Config{Backends: map[string]sandbox.Backend{"local": fake}, Backend: name})
			wantRefusal(t, name, nil, err)
		}
		if n := len(fake.Boxes()); n > 0 {
			t.Errorf("%d boxes were made in another place", n)
		}
	}
}

func wantRefusal(t *testing.T, name string, s *Session, err error) {
	t.Helper()
	if s != nil || err == nil || !strings.Contains(err.Error(), `refused: backend "`+name+`" is not configured, have`) || !strings.Contains(err.Error(), "local") {
		t.Errorf("%s: %v", name, err)
	}
}

// dial connects a fake program to its run's tool socket.
func dial(ctx context.Context, box *sandboxtest.FakeBox, cmd sandbox.Cmd) (*lineConn, error) {
	nc, err := box.Dial(ctx, getenv(cmd.Env, "HERMES_RPC_SOCKET"))
	if err != nil {
		return nil, err
	}
	return &lineConn{Conn: nc, token: getenv(cmd.Env, "HERMES_RPC_TOKEN")}, nil
}

// lineConn is a hand-driven client of the tool socket.
type lineConn struct {
	net.Conn
	token string
	in    *bufio.Reader
}

// call makes one call and returns the line that answers it.
func (c *lineConn) call(id int, tool, args string) (string, error) {
	if _, err := fmt.Fprintf(c, `{"id":%d,"token":"%s","tool":"%s","args":%s}`+"\n", id, c.token, tool, args); err != nil {
		return "", err
	}
	if c.in == nil {
		c.in = bufio.NewReader(c)
	}
	return c.in.ReadString('\n')
}

// configured reads a configuration file.
func configured(t *testing.T, yaml string, environ ...string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(config.Options{Path: file, Environ: append([]string{"HOME=/h"}, environ...)})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// equals compares a constant.
func equals[T comparable](got, want T) func(*testing.T) {
	return func(t *testing.T) {
		if got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
