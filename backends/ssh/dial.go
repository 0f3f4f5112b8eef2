package ssh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// dial goes the way to a host and logs in.
func dial(ctx context.Context, t target, c Config, log func(string)) (client *ssh.Client, err error) {
	for _, hop := range append(append([]target(nil), t.jumps...), t) {
		next, err := step(ctx, client, hop, c, log)
		if err != nil {
			if client != nil {
				client.Close()
			}
			if len(t.jumps) > 0 {
				err = fmt.Errorf("on the way to %s: %w", t.alias, err)
			}
			return nil, err
		}
		client = next
	}
	return client, nil
}

// step reaches the next host, from this machine or through another host.
func step(ctx context.Context, through *ssh.Client, t target, c Config, log func(string)) (*ssh.Client, error) {
	keys, err := newHostKeys(t, c.AcceptNew)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, sandbox.ErrUnavailable)
	}
	keys.accepted = log
	id, err := identify(t)
	if err != nil {
		return nil, err
	}
	defer id.close()
	timeout := fmt.Errorf("%s does not answer within %v: %w", t, c.dialTimeout(), os.ErrDeadlineExceeded)
	ctx, cancel := context.WithTimeoutCause(ctx, c.dialTimeout(), timeout)
	defer cancel()
	conn, err := reach(ctx, through, t)
	if err == nil {
		stop := context.AfterFunc(ctx, func() { conn.Close() })
		var client *ssh.Client
		client, err = greet(conn, t, keys, id)
		if !stop() && err == nil {
			client.Close()
			err = context.Cause(ctx)
		}
		if err == nil {
			return client, nil
		}
		conn.Close()
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return nil, explain(err, t, id)
}

// reach opens a stream to a host.
func reach(ctx context.Context, through *ssh.Client, t target) (net.Conn, error) {
	if through == nil {
		d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 4}}
		return d.DialContext(ctx, "tcp", t.addr())
	}
	conn, err := through.DialContext(ctx, "tcp", t.addr())
	if err != nil {
		return nil, err
	}
	return &tunnel{conn, through}, nil
}

// tunnel is a stream through another host, which is left when it ends.
type tunnel struct {
	net.Conn
	through *ssh.Client
}

func (t *tunnel) Close() error { return errors.Join(t.Conn.Close(), t.through.Close()) }

func greet(conn net.Conn, t target, keys *hostKeys, id *identity) (*ssh.Client, error) {
	c, channels, requests, err := ssh.NewClientConn(conn, t.addr(), &ssh.ClientConfig{
		User: t.user, Auth: []ssh.AuthMethod{ssh.PublicKeys(id.signers...)},
		HostKeyCallback: keys.check, HostKeyAlgorithms: keys.algorithms,
		ClientVersion: "SSH-2.0-hermes-exec",
	})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// explain turns what happened into what to do.
func explain(err error, t target, id *identity) error {
	var dns *net.DNSError
	var refused *hostKeyError
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, context.Canceled), errors.Is(err, os.ErrDeadlineExceeded):
	case errors.As(err, &dns):
		err = fmt.Errorf("%s: there is no such host: %w", t, err)
	case strings.Contains(err.Error(), "unable to authenticate"):
		return fmt.Errorf("%s: %w: the host takes none of %s; add the public key to its authorized_keys: ssh-copy-id -p %d %s@%s: %w",
			t, ErrKey, strings.Join(id.offered, ", "), t.port, t.user, t.host, sandbox.ErrUnavailable)
	case strings.Contains(err.Error(), "no common algorithm"):
		err = fmt.Errorf("%s: %w", t, err)
	default:
		err = fmt.Errorf("%s cannot be reached: %w", t, err)
	}
	return fmt.Errorf("%w: %w", err, sandbox.ErrUnavailable)
}
