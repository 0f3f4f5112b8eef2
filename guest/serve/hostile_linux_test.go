package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

const bound = 2 * time.Minute

// served is a server, and what a test needs to be its client.
type served struct {
	t      *testing.T
	client *ssh.Client
	stream net.Conn
	done   chan error
}

// serveLocal serves unconfined boxes of this machine.
func serveLocal(t *testing.T, lease time.Duration) *served {
	t.Helper()
	backend := local.New(local.Config{})
	near, there := net.Pipe()
	s := &served{t: t, stream: near, done: make(chan error, 1)}
	go func() {
		err := serve.Serve(context.Background(), there, serve.Config{Lease: lease, Open: func(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
			return backend.Create(ctx, sandbox.Spec{ID: r.ID, WorkDir: "/", Env: []string{"PATH=/usr/bin:/bin"}, Policy: sandbox.Policy{Unconfined: true}})
		}})
		s.done <- errors.Join(err, backend.Close())
	}()
	conn, channels, requests, err := ssh.NewClientConn(sshwire.NewStream(near), "", &ssh.ClientConfig{
		ClientVersion: sshwire.ClientVersion, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.client = ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		s.client.Close()
		s.ended()
	})
	return s
}

// ended checks that the server ends, without a word.
func (s *served) ended() {
	s.t.Helper()
	select {
	case err := <-s.done:
		if err != nil {
			s.t.Error(err)
		}
		s.done <- nil
	case <-time.After(bound):
		s.t.Fatal("it serves on")
	}
}

// open opens a channel whose requests are collected.
func (s *served) open(kind string, extra []byte) (ssh.Channel, <-chan *ssh.Request) {
	s.t.Helper()
	ch, requests, err := s.client.OpenChannel(kind, extra)
	if err != nil {
		s.t.Fatal(err)
	}
	return ch, requests
}

// box opens a box with an id.
func (s *served) box(id string) (ssh.Channel, *json.Decoder) {
	s.t.Helper()
	extra, _ := json.Marshal(sshwire.BoxRequest{ID: id})
	ch, requests := s.open(sshwire.ChannelBox, extra)
	go ssh.DiscardRequests(requests)
	answers := json.NewDecoder(ch)
	var a sshwire.Answer
	if err := answers.Decode(&a); err != nil || a.Info == nil || a.Info.ID != id {
		s.t.Fatal(a, err)
	}
	return ch, answers
}

// works checks that the server still serves others.
func (s *served) works() {
	s.t.Helper()
	box, answers := s.box("works")
	fmt.Fprintln(box, `{"id":1,"op":"close"}`)
	var a sshwire.Answer
	if err := answers.Decode(&a); err != nil || a.ID != 1 || a.Failure != nil {
		s.t.Fatal(a, err)
	}
	box.Close()
}

func request(id string) []byte { return ssh.Marshal(sshwire.BoxID{ID: id}) }

func TestHostileBeginnings(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":      "",
		"another":      "SSH-2.0-OpenSSH_9.2\r\n",
		"HTTP":         "GET / HTTP/1.1\r\n\r\n",
		"endless line": strings.Repeat("x", 1<<20),
		"huge packet":  sshwire.ClientVersion + "\r\n\xff\xff\xff\xff" + strings.Repeat("\xff", 1<<16),
	} {
		near, there := net.Pipe()
		go io.Copy(io.Discard, near)
		go func() { io.WriteString(near, text); near.Close() }()
		if err := serve.Serve(t.Context(), there, serve.Config{}); err == nil {
			t.Errorf("%s was served", what)
		}
	}
}

func TestAnotherClient(t *testing.T) {
	near, there := net.Pipe()
	go func() {
		_, _, _, _ = ssh.NewClientConn(near, "", &ssh.ClientConfig{HostKeyCallback: ssh.InsecureIgnoreHostKey()})
	}()
	if err := serve.Serve(t.Context(), there, serve.Config{}); err == nil || !strings.Contains(err.Error(), "SSH-2.0-Go") {
		t.Error(err)
	}
	near.Close()
}

func TestHostileSessions(t *testing.T) {
	s := serveLocal(t, 0)
	box, _ := s.box("b")
	command := func(c sshwire.Command) []byte { b, _ := json.Marshal(c); return b }
	good := command(sshwire.Command{Args: []string{"sleep", "1000"}, Grace: time.Millisecond})
	type step struct {
		name    string
		payload []byte
	}
	use := step{sshwire.RequestBox, request("b")}
	for what, steps := range map[string][]step{
		"no box":            {{sshwire.RequestExec, good}},
		"an unknown box":    {{sshwire.RequestBox, request("x")}},
		"two boxes":         {use, use},
		"malformed box":     {{sshwire.RequestBox, []byte{1}}},
		"malformed pty":     {use, {"pty-req", []byte("x")}},
		"two commands":      {use, {sshwire.RequestExec, good}, {sshwire.RequestExec, good}},
		"no JSON":           {use, {sshwire.RequestExec, []byte("{")}},
		"another type":      {use, {sshwire.RequestExec, []byte(`{"args":"x"}`)}},
		"no program":        {use, {sshwire.RequestExec, command(sshwire.Command{})}},
		"NUL":               {use, {sshwire.RequestExec, command(sshwire.Command{Args: []string{"a\x00b"}})}},
		"another subsystem": {use, {"subsystem", ssh.Marshal(struct{ Name string }{"shell"})}},
		"no file server":    {use, {"subsystem", ssh.Marshal(struct{ Name string }{"sftp"})}},
		"malformed signal":  {use, {sshwire.RequestExec, good}, {"signal", []byte{9}}},
		"malformed size":    {use, {sshwire.RequestExec, good}, {"window-change", []byte{9}}},
	} {
		ch, requests := s.open("session", nil)
		for _, step := range steps {
			_, _ = ch.SendRequest(step.name, false, step.payload)
		}
		over := time.AfterFunc(bound, func() { t.Errorf("%s: the channel stays open", what); s.client.Close() })
		failed := false
		for r := range requests { // until the server has closed the channel
			failed = failed || r.Type == sshwire.EventFailure
		}
		over.Stop()
		if !failed && what != "no file server" {
			t.Errorf("%s: no failure", what)
		}
	}
	// More parts than a command may have.
	ch, requests := s.open("session", nil)
	part := bytes.Repeat([]byte(" "), sshwire.MaxPart)
	for range sshwire.MaxCommand/sshwire.MaxPart + 2 {
		if _, err := ch.SendRequest(sshwire.RequestPart, false, part); err != nil {
			break
		}
	}
	for range requests {
	}
	// Requests nobody knows, as fast as they go, and none of them answered.
	ch, requests = s.open("session", nil)
	go ssh.DiscardRequests(requests)
	for range 10_000 {
		_, _ = ch.SendRequest("nonsense", false, nil)
	}
	ch.Close()
	box.Close()
	s.works()
}

func TestHostileOrders(t *testing.T) {
	s := serveLocal(t, 0)
	for what, text := range map[string]string{
		"no JSON":      "hello\n",
		"no id":        `{"op":"listen"}` + "\n",
		"endless line": strings.Repeat("x", 1<<20),
	} {
		box, answers := s.box("b")
		_, _ = io.WriteString(box, text)
		var a sshwire.Answer
		over := time.AfterFunc(bound, func() { t.Errorf("%s: the box stays", what); s.client.Close() })
		if err := answers.Decode(&a); err == nil {
			t.Errorf("%s: %+v", what, a)
		}
		over.Stop()
	}
	box, answers := s.box("b")
	fmt.Fprintln(box, `{"id":1,"op":"dance"}`)
	var a sshwire.Answer
	if err := answers.Decode(&a); err != nil || a.Failure == nil || !errors.Is(a.Failure, sandbox.ErrUnsupported) {
		t.Error(a, err)
	}
	if _, _, err := s.client.OpenChannel(sshwire.ChannelBox, []byte(`{"id":"b"}`)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Error(err)
	}
	for _, kind := range []string{"direct-tcpip", "x11", "auth-agent@openssh.com"} {
		if _, _, err := s.client.OpenChannel(kind, nil); err == nil {
			t.Errorf("%s was opened", kind)
		}
	}
	if ok, _, _ := s.client.SendRequest("tcpip-forward", true, nil); ok {
		t.Error("it forwards")
	}
	box.Close()
	s.works()
}

// TestLease: an engine that answers nothing is taken for dead.
func TestLease(t *testing.T) {
	backend := local.New(local.Config{})
	near, there := net.Pipe()
	done := make(chan error, 1)
	go func() {
		err := serve.Serve(context.Background(), there, serve.Config{Lease: 300 * time.Millisecond, Open: func(ctx context.Context, r sshwire.BoxRequest) (sandbox.Sandbox, error) {
			return nil, errors.New("none")
		}})
		done <- errors.Join(err, backend.Close())
	}()
	conn, channels, requests, err := ssh.NewClientConn(sshwire.NewStream(near), "", &ssh.ClientConfig{
		ClientVersion: sshwire.ClientVersion, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		for range channels {
		}
	}()
	_ = requests // which nobody answers
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(bound):
		t.Fatal("it serves on")
	}
}

func TestParse(t *testing.T) {
	for line, want := range map[string]serve.Command{
		"guest serve":            {Part: "serve"},
		"guest serve --dial /s":  {Part: "serve", Dial: "/s"},
		"guest serve --dial=/s":  {Part: "serve", Dial: "/s"},
		"guest sftp":             {Part: "sftp"},
		"guest":                  {},
		"guest serve --dial":     {},
		"guest sftp --dial /s":   {},
		"guest serve --dial a b": {},
	} {
		c, ok, err := serve.Parse(strings.Fields(line))
		if !ok || c != want || (err == nil) != (want.Part != "") {
			t.Errorf("%q: %+v, %v, %v", line, c, ok, err)
		}
	}
	if _, ok, err := serve.Parse([]string{"run", "x"}); ok || err != nil {
		t.Error(ok, err)
	}
}
