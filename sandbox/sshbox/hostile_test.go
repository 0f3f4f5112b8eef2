//go:build unix

package sshbox_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// soon is how long a hostile server may take; boundless waits show at bound.
const soon = 300 * time.Millisecond

// liar is a server that does as a test says.
type liar struct {
	t        *testing.T
	stream   io.ReadWriteCloser
	conn     *ssh.ServerConn
	box      func(ch ssh.Channel)                               // after Accept; nil: says what a box is
	order    func(ch ssh.Channel, o sshwire.Order)              // nil: no answer
	session  func(ch ssh.Channel, requests <-chan *ssh.Request) // nil: no answer at all
	requests func(<-chan *ssh.Request)                          // nil: discards
}

func (l *liar) serve() {
	_, key, _ := ed25519.GenerateKey(nil)
	signer, _ := ssh.NewSignerFromSigner(key)
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: sshwire.ServerVersion}
	config.AddHostKey(signer)
	conn, channels, requests, err := ssh.NewServerConn(sshwire.NewStream(l.stream), config)
	if err != nil {
		return
	}
	l.conn = conn
	if l.requests != nil {
		go l.requests(requests)
	} else {
		go func() {
			for r := range requests {
				_ = r.Reply(true, nil)
			}
		}()
	}
	for c := range channels {
		switch {
		case c.ChannelType() == sshwire.ChannelBox:
			ch, requests, err := c.Accept()
			if err != nil {
				continue
			}
			go ssh.DiscardRequests(requests)
			if l.box != nil {
				go l.box(ch)
				continue
			}
			go func() {
				say(ch, sshwire.Answer{Info: &sandbox.Info{ID: "box", WorkDir: "/w", ScratchDir: "/s"}})
				orders := json.NewDecoder(ch)
				for {
					var o sshwire.Order
					if orders.Decode(&o) != nil {
						return
					}
					if l.order != nil {
						l.order(ch, o)
					}
				}
			}()
		case l.session != nil:
			if ch, requests, err := c.Accept(); err == nil {
				go l.session(ch, requests)
			}
		}
	}
}

func say(ch io.Writer, v any) {
	b, _ := json.Marshal(v)
	_, _ = ch.Write(append(b, '\n'))
}

// tell sends an event.
func tell(ch ssh.Channel, event string, v any) {
	b, _ := json.Marshal(v)
	_, _ = ch.SendRequest(event, false, b)
}

// link connects to the liar.
func (l *liar) link(t *testing.T) *sshbox.Link {
	t.Helper()
	l.t = t
	near, there := socketPair(t)
	l.stream = there
	served := make(chan struct{})
	go func() { defer close(served); l.serve() }()
	client, err := sshbox.Handshake(t.Context(), near)
	if err != nil {
		t.Fatal(err)
	}
	link := sshbox.New(client, sshbox.Config{Patience: soon, Keepalive: soon})
	t.Cleanup(func() {
		link.Close()
		there.Close()
		<-served
	})
	return link
}

// open opens a box that the liar makes.
func (l *liar) open(t *testing.T) (*sshbox.Link, sandbox.Sandbox) {
	t.Helper()
	link := l.link(t)
	box, err := link.Open(t.Context(), sshwire.BoxRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return link, box
}

// inTime fails when something takes as long as it is made to.
func inTime(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(bound):
		buf := make([]byte, 1<<20)
		t.Fatalf("%s takes for ever:\n%s", what, buf[:runtime.Stack(buf, true)])
	}
}

func TestHostileHandshake(t *testing.T) {
	for what, speak := range map[string]func(io.ReadWriteCloser){
		"silence":      func(io.ReadWriteCloser) {},
		"nothing":      func(s io.ReadWriteCloser) { s.Close() },
		"another":      func(s io.ReadWriteCloser) { io.WriteString(s, "SSH-2.0-OpenSSH_9.2\r\n"); s.Close() },
		"endless line": func(s io.ReadWriteCloser) { io.Copy(s, strings.NewReader(strings.Repeat("x", 1<<20))) },
		"endless text": func(s io.ReadWriteCloser) { io.Copy(s, strings.NewReader(strings.Repeat("hello\n", 1<<18))) },
		"huge packet": func(s io.ReadWriteCloser) {
			io.WriteString(s, sshwire.ServerVersion+"\r\n\xff\xff\xff\xff"+strings.Repeat("\xff", 1<<16))
		},
	} {
		t.Run(what, func(t *testing.T) {
			near, there := socketPair(t)
			defer there.Close()
			go io.Copy(io.Discard, there)
			go speak(there)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			inTime(t, "the handshake", func() {
				_, err := sshbox.Handshake(ctx, near)
				if err == nil || !errors.Is(err, sandbox.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
			})
		})
	}
}

func TestHostileBox(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 1<<20)
	for what, box := range map[string]func(ssh.Channel){
		"silence":       func(ssh.Channel) {},
		"closed":        func(ch ssh.Channel) { ch.Close() },
		"no info":       func(ch ssh.Channel) { say(ch, sshwire.Answer{}) },
		"another order": func(ch ssh.Channel) { say(ch, sshwire.Answer{ID: 7, Info: &sandbox.Info{}}) },
		"no JSON":       func(ch ssh.Channel) { io.WriteString(ch, "hello\n") },
		"endless line": func(ch ssh.Channel) {
			for {
				if _, err := ch.Write(long); err != nil {
					return
				}
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := &liar{box: box}
			link := l.link(t)
			inTime(t, "Open", func() {
				if _, err := link.Open(t.Context(), sshwire.BoxRequest{}); !errors.Is(err, sandbox.ErrLost) {
					t.Error(err)
				}
			})
		})
	}
}

func TestHostileSession(t *testing.T) {
	// begin drains what is asked until the command has come.
	begin := func(requests <-chan *ssh.Request) {
		for r := range requests {
			if r.Type == sshwire.RequestExec {
				go ssh.DiscardRequests(requests)
				return
			}
		}
	}
	exit := sshwire.Exit{}
	for what, c := range map[string]struct {
		session func(ssh.Channel, <-chan *ssh.Request)
		starts  bool
		ends    bool // Wait tells how it ended
	}{
		"no answer":    {session: func(ssh.Channel, <-chan *ssh.Request) {}},
		"not started":  {session: func(ch ssh.Channel, r <-chan *ssh.Request) { begin(r) }},
		"closed":       {session: func(ch ssh.Channel, r <-chan *ssh.Request) { begin(r); ch.Close() }},
		"exit first":   {session: func(ch ssh.Channel, r <-chan *ssh.Request) { begin(r); tell(ch, sshwire.EventExit, exit); ch.Close() }},
		"started junk": {session: func(ch ssh.Channel, r <-chan *ssh.Request) { begin(r); tell(ch, sshwire.EventStarted, "x"); ch.Close() }},
		"never ends": {starts: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
		}},
		"lets go": {starts: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
			tell(ch, sshwire.EventExited, nil)
			ch.Close()
		}},
		"everything twice": {starts: true, ends: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			for range 2 {
				tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
				tell(ch, sshwire.EventExited, nil)
				tell(ch, sshwire.EventFailure, sshwire.Failure{Text: "late"})
				tell(ch, sshwire.EventExit, exit)
			}
			ch.Close()
		}},
		"no end of the output": {starts: true, ends: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
			tell(ch, sshwire.EventExited, nil)
			tell(ch, sshwire.EventExit, exit)
		}},
		"endless output after the end": {starts: true, ends: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
			tell(ch, sshwire.EventExited, nil)
			tell(ch, sshwire.EventExit, exit)
			for {
				if _, err := ch.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}},
		"endless output": {starts: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
			for {
				if _, err := ch.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}},
		"endless requests": {starts: true, session: func(ch ssh.Channel, r <-chan *ssh.Request) {
			begin(r)
			tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
			for {
				if _, err := ch.SendRequest("nonsense", false, make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			if !strings.HasPrefix(what, "endless") { // they only wait
				t.Parallel()
			}
			l := &liar{session: c.session}
			_, box := l.open(t)
			ctx, cancel := context.WithTimeout(t.Context(), soon)
			defer cancel()
			if !c.starts {
				ctx = t.Context()
			}
			inTime(t, what, func() {
				var n counter
				p, err := box.Start(ctx, sandbox.Cmd{Args: []string{"x"}, Stdout: &n, Grace: soon})
				if !c.starts {
					if !errors.Is(err, sandbox.ErrLost) {
						t.Errorf("Start: %v", err)
					}
					return
				}
				if err != nil {
					t.Errorf("Start: %v", err)
					return
				}
				<-p.Exited()
				if _, err := p.Wait(); c.ends != (err == nil) || err != nil && !errors.Is(err, sandbox.ErrLost) {
					t.Errorf("Wait: %v", err)
				}
			})
			ctx, cancel = context.WithTimeout(t.Context(), soon)
			defer cancel()
			inTime(t, "Close", func() {
				if err := box.Close(ctx); err == nil {
					t.Error("Close: all is well?")
				}
			})
		})
	}
}

// TestHostileSilence: a server that answers nothing at all is noticed, and who
// waits is told.
func TestHostileSilence(t *testing.T) {
	l := &liar{requests: func(<-chan *ssh.Request) {}}
	link, box := l.open(t)
	inTime(t, "the link", func() { <-link.Done() })
	if err := link.Err(); !errors.Is(err, sandbox.ErrLost) {
		t.Error(err)
	}
	if _, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"x"}}); !errors.Is(err, sandbox.ErrLost) {
		t.Error(err)
	}
	if _, err := box.Files().Stat(t.Context(), "/x"); err == nil {
		t.Error("there is a file")
	}
	inTime(t, "Close", func() { _ = box.Close(t.Context()) })
}

// TestHostileSockets: connections nobody listens for are refused, as many as
// come; lying names of sockets are.
func TestHostileSockets(t *testing.T) {
	names := []string{"/run/a", "/run/a", ""}
	l := &liar{order: func(ch ssh.Channel, o sshwire.Order) {
		a := sshwire.Answer{ID: o.ID}
		if o.Op == sshwire.OrderListen {
			a.Path, names = names[0], names[1:]
		}
		say(ch, a)
	}}
	_, box := l.open(t)
	listener, path, err := box.Listen(t.Context())
	if err != nil || path != "/run/a" {
		t.Fatal(path, err)
	}
	for range 2 {
		if _, _, err := box.Listen(t.Context()); !errors.Is(err, sandbox.ErrLost) {
			t.Error(err)
		}
	}
	open := func(name sshwire.SocketID) error {
		ch, requests, err := l.conn.OpenChannel(sshwire.ChannelSocket, ssh.Marshal(name))
		if err == nil {
			go ssh.DiscardRequests(requests)
			_ = ch
		}
		return err
	}
	inTime(t, "refusing", func() {
		for range 1000 {
			if open(sshwire.SocketID{Path: "/run/other", Box: "box"}) == nil || open(sshwire.SocketID{Path: "/run/a", Box: "other"}) == nil {
				t.Error("somebody listens")
			}
		}
		taken := 0
		for range 2000 {
			if open(sshwire.SocketID{Path: "/run/a", Box: "box"}) == nil {
				taken++
			}
		}
		if taken == 0 || taken > 1000 {
			t.Errorf("%d connections nobody accepts", taken)
		}
	})
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(soon))
	inTime(t, "a read with a deadline", func() { _, err = conn.Read(make([]byte, 1)) })
	if err == nil {
		t.Error("read something")
	}
	inTime(t, "closing", func() {
		if err := listener.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := listener.Accept(); err == nil {
		t.Error("accepted")
	}
}

// TestHostileStream: what is no SSH any more ends the link.
func TestHostileStream(t *testing.T) {
	l := &liar{session: func(ch ssh.Channel, r <-chan *ssh.Request) {
		go ssh.DiscardRequests(r)
		tell(ch, sshwire.EventStarted, sshwire.Started{PID: 1})
	}}
	link, box := l.open(t)
	p, err := box.Start(t.Context(), sandbox.Cmd{Args: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.stream.Write(bytes.Repeat([]byte{0xff}, 1<<16)); err != nil {
		t.Fatal(err)
	}
	inTime(t, "the link", func() { <-link.Done() })
	if _, err := p.Wait(); !errors.Is(err, sandbox.ErrLost) {
		t.Error(err)
	}
}
