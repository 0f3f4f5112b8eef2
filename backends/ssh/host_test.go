//go:build linux

package ssh_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/ssh"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"golang.org/x/crypto/ssh/agent"

	xssh "golang.org/x/crypto/ssh"
)

// What keeps a host from being used is said, with what to do.
func TestRefusedHosts(t *testing.T) {
	dir := server(t)
	for _, c := range []struct {
		host string
		kind error
		says []string
		fix  string
	}{
		{"hermes-test-unknown", ssh.ErrUnknownHost, []string{"is not known", "ssh-ed25519 SHA256:", "known_none", "accept_new", "[127.0.0.1]:"}, "known_hosts"},
		{"hermes-test-changed", ssh.ErrChangedKey, []string{"has CHANGED", "known_changed:1", "ssh-keygen -R '[127.0.0.1]:"}, "ssh-keygen -R"},
		{"hermes-test-stranger", ssh.ErrKey, []string{"takes none of", filepath.Join(dir, "key_stranger"), "SHA256:", "ssh-copy-id"}, "ssh-copy-id"},
		{"hermes-test-locked", ssh.ErrKey, []string{"key_locked is encrypted", "ssh-add"}, "ssh-add"},
		{"hermes-test-silent", nil, []string{"cannot be reached", "refused"}, "reaches the host"},
	} {
		t.Run(c.host, func(t *testing.T) {
			b := backend(t, at(t, c.host))
			_, err := b.Create(t.Context(), openSpec())
			if err == nil || !errors.Is(err, sandbox.ErrUnavailable) || c.kind != nil && !errors.Is(err, c.kind) {
				t.Fatalf("%v, want %v", err, c.kind)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\ndoes not say %q", err, want)
				}
			}
			found := b.Check(t.Context())
			if len(found) != 1 || found[0].Severity != sandbox.Failure || !strings.Contains(found[0].Fix, c.fix) {
				t.Errorf("check found %+v", found)
			}
		})
	}
}

func TestNoHost(t *testing.T) {
	for host, want := range map[string]string{
		"": "no host", "-oProxyCommand=x": "cannot be a host", "a b": "cannot be a host", "host:0": "port",
		"nowhere.invalid": "no such host",
	} {
		b := backend(t, ssh.Config{Host: host, ConfigFile: "none", Agent: "none", Key: keyFile(t)})
		if _, err := b.Create(t.Context(), openSpec()); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, sandbox.ErrUnavailable) {
			t.Errorf("%q: %v, want %q", host, err, want)
		}
	}
}

// keyFile makes a private key.
func keyFile(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name).CombinedOutput(); err != nil {
		t.Skipf("no ssh-keygen: %v, %s", err, out)
	}
	return name
}

// A host that is not known is noted when the user wants that: once, in a file
// that was there and keeps what it had. From then on its key is the only one.
func TestAcceptNew(t *testing.T) {
	c := at(t, "hermes-test-unknown")
	c.KnownHosts = filepath.Join(t.TempDir(), "below", "known_hosts")
	c.AcceptNew = true
	if err := os.Mkdir(filepath.Dir(c.KnownHosts), 0o700); err != nil {
		t.Fatal(err)
	}
	const before = "# mine\nother.example ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHGwGq0ZvYX8sE4LpHyvJrBMnSnYmO3PvXxmG0x7cQQY"
	if err := os.WriteFile(c.KnownHosts, []byte(before), 0o640); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 { // at once
		all.Go(func() {
			b := ssh.New(c)
			defer b.Close()
			if _, err := b.Create(t.Context(), openSpecWritten(t)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	text, err := os.ReadFile(c.KnownHosts)
	if err != nil || !strings.HasPrefix(string(text), before+"\n[127.0.0.1]:") {
		t.Fatalf("known_hosts is %q, %v", text, err)
	}
	if st, err := os.Stat(c.KnownHosts); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(c.KnownHosts)); err != nil || len(entries) != 1 {
		t.Errorf("left: %v, %v", entries, err)
	}
	c.AcceptNew = false
	box(t, backend(t, c))
	// accept_new accepts no change.
	changed := at(t, "hermes-test-changed")
	changed.AcceptNew = true
	if _, err := backend(t, changed).Create(t.Context(), openSpec()); !errors.Is(err, ssh.ErrChangedKey) {
		t.Errorf("%v, want ErrChangedKey", err)
	}
}

func openSpecWritten(t *testing.T) sandbox.Spec {
	t.Helper()
	s := openSpec()
	s.Profile = sandbox.Profile{Name: "open", File: []byte(`{"Name":"open","Unconfined":true}`)}
	return s
}

// A host with several keys is asked for the one that is known.
func TestKnownAlgorithm(t *testing.T) { box(t, backend(t, at(t, "hermes-test-ecdsa"))) }

func TestJumps(t *testing.T) {
	for _, host := range []string{"hermes-test-jump", "hermes-test-jump2"} {
		b := box(t, backend(t, at(t, host)))
		if got := output(t, b, "echo $1", "there"); got != "there\n" {
			t.Errorf("%s: %q", host, got)
		}
	}
}

// A key with a passphrase works by the agent, and an agent alone does.
func TestAgent(t *testing.T) {
	dir := server(t)
	ring := agent.NewKeyring()
	for _, name := range []string{"key_stranger", "key_locked"} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		key, err := xssh.ParseRawPrivateKey(text)
		if err != nil {
			key, err = xssh.ParseRawPrivateKeyWithPassphrase(text, []byte("secret"))
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := ring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
			t.Fatal(err)
		}
	}
	short, err := os.MkdirTemp("", "agent")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(short)
	l, err := net.Listen("unix", filepath.Join(short, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var all sync.WaitGroup
	defer all.Wait()
	defer l.Close()
	all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer conn.Close()
				_ = agent.ServeAgent(ring, conn)
			})
		}
	})
	c := at(t, "hermes-test-locked")
	c.Agent = l.Addr().String()
	box(t, backend(t, c))

	// The agent's keys are offered where nothing forbids it.
	port := portOf(t, "hermes-test")
	c = ssh.Config{Host: "127.0.0.1", Port: port, ConfigFile: "none", KnownHosts: filepath.Join(dir, "known_hosts"), Agent: l.Addr().String(), Guest: self}
	t.Setenv("HOME", t.TempDir())
	box(t, backend(t, c))
	c.Agent = "none"
	if _, err := backend(t, c).Create(t.Context(), openSpec()); !errors.Is(err, ssh.ErrKey) || !strings.Contains(err.Error(), "ssh-keygen") {
		t.Errorf("without any key: %v", err)
	}
	c.Agent = filepath.Join(short, "nobody")
	if _, err := backend(t, c).Create(t.Context(), openSpec()); !errors.Is(err, ssh.ErrKey) || !strings.Contains(err.Error(), "the agent at") {
		t.Errorf("with an agent that is not there: %v", err)
	}
}

// portOf reads a host's port from the ssh_config.
func portOf(t testing.TB, host string) int {
	t.Helper()
	server(t)
	text, err := os.ReadFile(throwAway.config)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "Host "+host+"\n\tPort ")
	if !ok {
		t.Fatalf("no %s in %s", host, throwAway.config)
	}
	port := 0
	for _, d := range strings.TrimSpace(rest[:strings.IndexByte(rest, '\n')]) {
		port = port*10 + int(d-'0')
	}
	return port
}

// line is a way to a host that can be slow, silent or cut.
type line struct {
	l    net.Listener
	to   string
	slow time.Duration

	mu     sync.Mutex
	silent bool
	conns  []net.Conn
	all    sync.WaitGroup
}

func newLine(t testing.TB, host string, slow time.Duration) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &line{l: l, to: net.JoinHostPort("127.0.0.1", itoa(portOf(t, host))), slow: slow}
	p.all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", p.to)
			if err != nil {
				near.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, near, far)
			p.mu.Unlock()
			p.all.Go(func() { p.copy(far, near) })
			p.all.Go(func() { p.copy(near, far) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.all.Wait()
	})
	return p
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

// copy carries what one side says, each piece half a round trip later.
func (p *line) copy(to, from net.Conn) {
	type piece struct {
		text []byte
		at   time.Time
	}
	pieces := make(chan piece, 1<<14)
	p.all.Go(func() {
		defer to.Close()
		for c := range pieces {
			time.Sleep(time.Until(c.at))
			p.mu.Lock()
			silent := p.silent
			p.mu.Unlock()
			if silent {
				continue
			}
			if _, err := to.Write(c.text); err != nil {
				from.Close()
			}
		}
	})
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			pieces <- piece{buf[:n], time.Now().Add(p.slow / 2)}
		}
		if err != nil {
			close(pieces)
			return
		}
	}
}

// cut drops every connection.
func (p *line) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// hush lets nothing through any more, and says nothing of it.
func (p *line) hush() {
	p.mu.Lock()
	p.silent = true
	p.mu.Unlock()
}

// by is a Config that goes to hermes-test by a line.
func (p *line) by(t testing.TB, guest bool) ssh.Config {
	dir := server(t)
	// The host's key is known under the line's port, too.
	text, err := os.ReadFile(filepath.Join(dir, "host_one.pub"))
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(p.l.Addr().String())
	known := filepath.Join(t.TempDir(), "known_hosts")
	if err := os.WriteFile(known, append([]byte("[127.0.0.1]:"+port+" "), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	c := ssh.Config{Host: p.l.Addr().String(), ConfigFile: "none", KnownHosts: known, Agent: "none", Key: filepath.Join(dir, "key")}
	if guest {
		c.Guest = self
	}
	return c
}

// rungs runs a test with a guest and without.
func rungs(t *testing.T, test func(t *testing.T, guest bool)) {
	for name, guest := range map[string]bool{"guest": true, "plain": false} {
		t.Run(name, func(t *testing.T) { test(t, guest) })
	}
}

// A connection that breaks in the middle of a command: what was written before
// is there, the process is lost, and nothing is run again. The next box works.
func TestDropped(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		p := newLine(t, "hermes-test", 0)
		b := backend(t, p.by(t, guest))
		first := box(t, b)
		count := filepath.Join(t.TempDir(), "count")
		out := &waitFor{text: "partial", seen: make(chan struct{})}
		process, err := first.Start(t.Context(), sandbox.Cmd{
			Args: []string{"/bin/sh", "-c", `echo run >>"$1"; echo partial; sleep 1000`, "sh", count}, Stdout: out,
		})
		if err != nil {
			t.Fatal(err)
		}
		<-out.seen
		p.cut()
		if _, err := process.Wait(); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("Wait: %v, want ErrLost", err)
		}
		if got := out.String(); got != "partial\n" {
			t.Errorf("output %q", got)
		}
		if _, err := first.Start(t.Context(), sandbox.Cmd{Args: []string{"true"}}); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("Start in a lost box: %v, want ErrLost", err)
		}
		if got := output(t, box(t, b), "echo again"); got != "again\n" {
			t.Errorf("the next box says %q", got)
		}
		if text, err := os.ReadFile(count); err != nil || string(text) != "run\n" {
			t.Errorf("the command ran %q, %v", text, err)
		}
	})
}

// waitFor is a writer that tells when a text has come.
type waitFor struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	text string
	seen chan struct{}
	once sync.Once
}

func (w *waitFor) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(b)
	if strings.Contains(w.buf.String(), w.text) {
		w.once.Do(func() { close(w.seen) })
	}
	return len(b), nil
}

func (w *waitFor) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}

// A host that falls silent is lost after two keepalives.
func TestSilent(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		t.Parallel() // they wait
		p := newLine(t, "hermes-test", 0)
		c := p.by(t, guest)
		c.Keepalive = 200 * time.Millisecond
		b := ssh.New(c)
		defer b.Close()
		made, err := written{b}.Create(t.Context(), openSpec())
		if err != nil {
			t.Fatal(err)
		}
		process, err := made.Start(t.Context(), sandbox.Cmd{Args: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		p.hush()
		if _, err := process.Wait(); !errors.Is(err, sandbox.ErrLost) {
			t.Errorf("Wait: %v, want ErrLost", err)
		}
		p.cut()
	})
}

// Something that accepts and says nothing does not hold anybody.
func TestMute(t *testing.T) {
	p := newLine(t, "hermes-test", 0)
	p.hush()
	c := p.by(t, true)
	c.DialTimeout = 200 * time.Millisecond
	if _, err := backend(t, c).Create(t.Context(), openSpec()); !errors.Is(err, sandbox.ErrUnavailable) || !strings.Contains(err.Error(), "does not answer within 200ms") {
		t.Errorf("%v", err)
	}
	c.DialTimeout = time.Hour
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, err := backend(t, c).Create(ctx, openSpec()); !errors.Is(err, why) {
		t.Errorf("%v, want the cause", err)
	}
}

// With 200 ms there and back everything is as it was, but slower.
func TestSlow(t *testing.T) {
	rungs(t, func(t *testing.T, guest bool) {
		t.Parallel() // they wait
		b := box(t, backend(t, newLine(t, "hermes-test", 200*time.Millisecond).by(t, guest)))
		if got := output(t, b, `head -c 3000000 /dev/zero | tr '\0' x; printf end`); len(got) != 3_000_003 || !strings.HasSuffix(got, "xend") {
			t.Errorf("%d bytes", len(got))
		}
		l, name, err := b.Listen(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.Copy(conn, conn)
		}()
		if got := output(t, b, `python3 -c "$1" "$2"`, `
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for n in range(3):
    s.sendall(b"%d" % n)
    sys.stdout.write(s.recv(1).decode())
`, name); got != "012" {
			t.Errorf("over the socket: %q", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p, err := b.Start(ctx, sandbox.Cmd{Args: []string{"sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if exit, err := p.Wait(); err != nil || exit.Signal == 0 {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}
