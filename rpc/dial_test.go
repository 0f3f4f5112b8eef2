package rpc

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv("RPC_TEST_DIAL"); path != "" {
		if err := dialAndShow(path, os.Getenv("RPC_TEST_SEND")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// bound is how long any end state may take before a test gives up.
const bound = 2 * time.Minute

// within fails the test unless done is closed in time.
func within(tb testing.TB, what string, done <-chan struct{}) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(bound):
		tb.Fatalf("timed out: %s", what)
	}
}

// eventually polls for an end state.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for end := time.Now().Add(bound); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("timed out: %s", what)
		}
	}
}

// shortDir is a temporary directory whose path leaves room for a socket name.
func shortDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "rpc")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// running is a server on a real socket.
type running struct {
	*Server
	path string
}

// makeServer makes a server for the test; token and peer are filled in.
func makeServer(tb testing.TB, cfg Config) running {
	tb.Helper()
	if cfg.Token == "" {
		cfg.Token = NewToken()
	}
	if cfg.PeerUID == 0 {
		cfg.PeerUID = os.Getuid()
	}
	s, err := NewServer(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return running{s, ""}
}

// serve makes a server that serves a socket.
func serve(tb testing.TB, cfg Config) running {
	tb.Helper()
	r := makeServer(tb, cfg)
	s := r.Server
	r.path = filepath.Join(shortDir(tb), "sock")
	l, err := net.Listen("unix", r.path)
	if err != nil {
		tb.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := s.Serve(l); err != nil {
			tb.Errorf("Serve: %v", err)
		}
	})
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
		served.Wait()
	})
	return r
}

func (r running) dial(tb testing.TB) *net.UnixConn {
	tb.Helper()
	nc, err := net.Dial("unix", r.path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { nc.Close() })
	return nc.(*net.UnixConn)
}

// peer is a hand-driven client.
type peer struct {
	tb    testing.TB
	nc    *net.UnixConn
	in    *bufio.Reader
	token string
}

func (r running) peer(tb testing.TB) *peer {
	tb.Helper()
	nc := r.dial(tb)
	nc.SetDeadline(time.Now().Add(bound))
	return &peer{tb, nc, bufio.NewReaderSize(nc, 64<<10), r.cfg.Token}
}

func (p *peer) send(line string) {
	p.tb.Helper()
	if _, err := p.nc.Write([]byte(line + "\n")); err != nil {
		p.tb.Fatalf("send: %v", err)
	}
}

// call sends a request with the run's token.
func (p *peer) call(id string, tool, args string) {
	p.tb.Helper()
	p.send(`{"id":` + id + `,"token":"` + p.token + `","tool":"` + tool + `","args":` + args + `}`)
}

// line reads one line, "" at the end of the stream.
func (p *peer) line() string {
	p.tb.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		if line != "" {
			p.tb.Fatalf("cut line %q: %v", line, err)
		}
		return ""
	}
	return strings.TrimSuffix(line, "\n")
}

func (p *peer) want(line string) {
	p.tb.Helper()
	if got := p.line(); got != line {
		p.tb.Fatalf("got  %.300s\nwant %.300s", got, line)
	}
}

// interpreter is a python to test with.
type interpreter struct{ name, path string }

// pythons lists every interpreter from 3.8 on that can be found: all that
// pyenv has, else the python3 on PATH. With -short, the oldest and the newest.
func pythons(tb testing.TB) []interpreter {
	tb.Helper()
	all, err := findPythons()
	if err != nil {
		tb.Skip(err)
	}
	if testing.Short() && len(all) > 2 {
		all = []interpreter{all[0], all[len(all)-1]}
	}
	return all
}

// findPythons looks for them once.
var findPythons = sync.OnceValues(func() (all []interpreter, err error) {
	root := os.Getenv("PYENV_ROOT")
	if root == "" {
		root = filepath.Join(os.Getenv("HOME"), ".pyenv")
	}
	found, err := filepath.Glob(filepath.Join(root, "versions", "3.*", "bin", "python3"))
	if err != nil {
		return nil, err
	}
	for _, path := range found {
		name := filepath.Base(filepath.Dir(filepath.Dir(path)))
		if exec.Command(path, "-c", "import sys; sys.exit(sys.version_info < (3, 8))").Run() == nil {
			all = append(all, interpreter{name, path})
		}
	}
	if len(all) == 0 {
		path, err := exec.LookPath("python3")
		if err != nil {
			return nil, errors.New("no python3 here")
		}
		all = append(all, interpreter{"python3", path})
	}
	slices.SortFunc(all, func(a, b interpreter) int { // 3.9 before 3.10
		return cmp.Or(len(minor(a.name))-len(minor(b.name)), strings.Compare(a.name, b.name))
	})
	return all, nil
})

func minor(version string) string {
	_, rest, _ := strings.Cut(version, ".")
	number, _, _ := strings.Cut(rest, ".")
	return number
}

// stubs are generated functions as the registry writes them.
const stubs = `

@_tool
def noop(x: int = 1):
    """Nothing at all."""
    return _call("noop", {"x": x})


@_tool
def page():
    """A page."""
    return _call("page", {})


@_tool
def echo(value=None):
    """The value again."""
    return _call("echo", {"value": value})


@_tool
def count():
    """Counts."""
    return _call("count", {})


@_tool
def wait(name: str = ""):
    """Waits for the test."""
    return _call("wait", {"name": name})
`

// python prepares a script with the client on its path, as the engine does.
func (r running) python(tb testing.TB, interpreter, script string, args ...string) *exec.Cmd {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range map[string]string{"hermes_tools.py": ClientSource() + stubs, "script.py": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 6*bound)
	tb.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, interpreter, append([]string{filepath.Join(dir, "script.py")}, args...)...)
	cmd.Env = append(os.Environ(),
		"HERMES_RPC_SOCKET="+r.path, "HERMES_RPC_TOKEN="+r.cfg.Token,
		"PYTHONDONTWRITEBYTECODE=1", "SHORT="+volume(tb, interpreter), "PYTHONUTF8=1", "PYTHONWARNINGS=error", "PYTHONPATH="+dir)
	cmd.WaitDelay = bound
	return cmd
}

// volume tells a script to move less: it is for one python to show that much can
// be moved.
func volume(tb testing.TB, interpreter string) string {
	if all := pythons(tb); testing.Short() || interpreter != all[len(all)-1].path {
		return "yes"
	}
	return ""
}

// echoArgs answers with the value argument. As a client sends it, it needs no
// decoding, which for megabytes takes longer than all that is tested.
func echoArgs(_ context.Context, c Call) json.RawMessage {
	value, ok := bytes.CutPrefix(c.Args, []byte(`{"value":`))
	if end, err := skipValue(c.Args, len(c.Args)-len(value), 1); ok && err == nil && string(c.Args[end:]) == "}" {
		return value[:len(value)-1]
	}
	var in struct{ Value json.RawMessage }
	if err := json.Unmarshal(c.Args, &in); err != nil {
		return errorResult(err.Error())
	}
	if in.Value == nil {
		return json.RawMessage("null")
	}
	return in.Value
}
