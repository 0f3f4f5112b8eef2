package sshbox

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// streamConn is an ssh.Conn that knows how full its stream is.
type streamConn struct {
	ssh.Conn
	stream *sshwire.Stream
}

// Handshake begins a connection with a serving guest over a byte stream, which
// is then the client's to close. Nobody proves who he is: the stream must be
// one that leads to the guest and nowhere else. The error wraps
// sandbox.ErrUnavailable when what is at the other end is no guest of this
// version; when ctx is done first, its cause.
func Handshake(ctx context.Context, stream io.ReadWriteCloser) (*ssh.Client, error) {
	s := sshwire.NewStream(stream)
	stop := context.AfterFunc(ctx, func() { s.Close() })
	conn, channels, requests, err := ssh.NewClientConn(s, "guest", &ssh.ClientConfig{
		Config: ssh.Config{ // one of each, fast everywhere: both ends are of one version
			KeyExchanges: []string{ssh.KeyExchangeCurve25519}, Ciphers: []string{ssh.CipherAES128GCM}, MACs: []string{ssh.HMACSHA256ETM},
		},
		User:            "engine",
		ClientVersion:   sshwire.ClientVersion,
		HostKeyCallback: ssh.InsecureIgnoreHostKey(),
	})
	if err == nil && string(conn.ServerVersion()) != sshwire.ServerVersion {
		err = fmt.Errorf("the other end says it is %.80q", conn.ServerVersion())
	}
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
		if cause := context.Cause(ctx); cause != nil {
			return nil, fmt.Errorf("the guest's greeting: %w", cause)
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("the stream ended")
		}
		return nil, fmt.Errorf("the guest's greeting: %w: %w", err, sandbox.ErrUnavailable)
	}
	return ssh.NewClient(&streamConn{conn, s}, channels, requests), nil
}
