package serve

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// What one engine may have open at once.
const (
	mostBoxes    = 1 << 10
	mostSessions = 1 << 14
	mostOrders   = 64      // of a box, under way
	mostSockets  = 512     // connections to one box's sockets
	mostText     = 8 << 10 // bytes of an error
)

// greetWithin bounds how long the engine may take to begin.
const greetWithin = 30 * time.Second

// Config says what is served.
type Config struct {
	// Open makes a box. Its context is done when the stream has ended. What
	// Close of the box returned with a done context leaves nothing running.
	Open func(ctx context.Context, request sshwire.BoxRequest) (sandbox.Sandbox, error)
	// Guest is this program as processes of a box may start it, "" if they may
	// not: then there is no sftp. It is said in Info.Guest.
	Guest string
	// Env is said in Info.Env of a box that has none of its own.
	Env []string
	// Lease is how long the engine may answer nothing before it is taken for
	// dead; 0 means for ever, for a stream that ends when the engine does.
	Lease time.Duration
	// Log gets what is worth knowing but no error; nil discards.
	Log *slog.Logger
}

// server is one stream with what is open on it.
type server struct {
	config Config
	log    *slog.Logger
	conn   ssh.Conn
	room   func() // waits until the stream takes more bulk data
	ended  context.Context
	using  sync.WaitGroup

	mu       sync.Mutex
	boxes    map[string]*box
	opening  int
	sessions int
}

// Serve serves the engine at the other end of a stream, until the stream ends
// or ctx is done. When it returns every box is closed, whatever ran in them is
// gone, and the stream is closed. The error tells why there was no connection;
// one that was made and ended is no error.
func Serve(ctx context.Context, stream io.ReadWriteCloser, config Config) error {
	s := sshwire.NewStream(stream)
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	settings, err := settings()
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	late := time.AfterFunc(greetWithin, func() { s.Close() })
	conn, channels, requests, err := ssh.NewServerConn(s, settings)
	if !late.Stop() && err == nil {
		err = errors.New("the engine took too long to begin")
	}
	if err == nil && string(conn.ClientVersion()) != sshwire.ClientVersion {
		err = fmt.Errorf("the other end says it is %.80q", conn.ClientVersion())
	}
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	v := &server{config: config, log: config.Log, conn: conn, room: s.Room, boxes: map[string]*box{}}
	if v.log == nil {
		v.log = slog.New(slog.DiscardHandler)
	}
	var end context.CancelCauseFunc
	v.ended, end = context.WithCancelCause(context.WithoutCancel(ctx))
	v.using.Go(func() { v.global(requests) })
	if config.Lease > 0 {
		v.using.Go(v.keepAlive)
	}
	for c := range channels {
		v.channel(c)
	}
	end(errors.New("the engine is gone"))
	v.using.Wait()
	return nil
}

// settings are those of every connection. Nobody authenticates, so the key
// proves nothing: it is made for each.
func settings() (*ssh.ServerConfig, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromSigner(key)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{NoClientAuth: true, ServerVersion: sshwire.ServerVersion}
	config.KeyExchanges = []string{ssh.KeyExchangeCurve25519}
	config.Ciphers = []string{ssh.CipherAES128GCM}
	config.MACs = []string{ssh.HMACSHA256ETM}
	config.AddHostKey(signer)
	return config, nil
}

// global answers requests that belong to no channel.
func (v *server) global(requests <-chan *ssh.Request) {
	for r := range requests {
		_ = r.Reply(r.Type == "keepalive@openssh.com", nil)
	}
}

// keepAlive ends a connection whose engine answers nothing.
func (v *server) keepAlive() {
	tick := time.NewTicker(v.config.Lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-v.ended.Done():
			return
		case <-tick.C:
		}
		late := time.AfterFunc(v.config.Lease*2/3, func() {
			v.log.Warn("the engine has not answered within the lease: everything ends")
			v.conn.Close()
		})
		_, _, err := v.conn.SendRequest("keepalive@openssh.com", true, nil)
		late.Stop()
		if err != nil {
			return
		}
	}
}

// channel begins to serve one channel; it does not wait.
func (v *server) channel(c ssh.NewChannel) {
	switch c.ChannelType() {
	case sshwire.ChannelBox:
		if !v.count(&v.opening, mostBoxes, 1) {
			_ = c.Reject(ssh.ResourceShortage, reason(errors.New("too many boxes")))
			return
		}
		v.using.Go(func() {
			defer v.count(&v.opening, mostBoxes, -1)
			v.openBox(c)
		})
	case "session":
		if !v.count(&v.sessions, mostSessions, 1) {
			_ = c.Reject(ssh.ResourceShortage, reason(errors.New("too many sessions")))
			return
		}
		v.using.Go(func() {
			defer v.count(&v.sessions, mostSessions, -1)
			v.session(c)
		})
	default:
		_ = c.Reject(ssh.UnknownChannelType, reason(errors.New("unknown channel type")))
	}
}

// count adds to a number unless that would be too many.
func (v *server) count(n *int, most, add int) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if *n+add > most {
		return false
	}
	*n += add
	return true
}

// failure is an error as it is sent.
func failure(err error) []byte {
	f := sshwire.NewFailure(err)
	if len(f.Text) > mostText {
		f.Text = f.Text[:mostText] + "…"
	}
	b, _ := json.Marshal(f)
	return b
}

func reason(err error) string { return string(failure(err)) }
