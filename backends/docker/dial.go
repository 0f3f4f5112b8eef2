package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// dialSSH returns a dialer that reaches an engine as the docker command does:
// ssh starts "docker system dial-stdio" over there.
func dialSSH(host string) (func(ctx context.Context, network, addr string) (net.Conn, error), error) {
	u, err := url.Parse(host)
	if err != nil {
		return nil, err
	}
	args := []string{"-o", "ConnectTimeout=30", "-o", "BatchMode=yes", "-T"}
	if user := u.User.Username(); user != "" {
		args = append(args, "-l", user)
	}
	if port := u.Port(); port != "" {
		args = append(args, "-p", port)
	}
	args = append(args, "--", u.Hostname(), "docker")
	if u.Path != "" && u.Path != "/" {
		args = append(args, "--host", "unix://"+u.Path)
	}
	args = append(args, "system", "dial-stdio")
	return func(context.Context, string, string) (net.Conn, error) {
		// The connection outlives the request it is made for.
		return dialCommand(exec.Command("ssh", args...))
	}, nil
}

// commandConn is a connection over a command's input and output.
type commandConn struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    io.ReadCloser
	stderr tail
	once   sync.Once
	ended  chan struct{}
}

func dialCommand(cmd *exec.Cmd) (net.Conn, error) {
	c := &commandConn{cmd: cmd, ended: make(chan struct{})}
	var err error
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.out, err = cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	cmd.Stderr = &c.stderr
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *commandConn) Read(p []byte) (int, error) {
	n, err := c.out.Read(p)
	if n == 0 && errors.Is(err, io.EOF) {
		c.Close()
		if text := c.stderr.String(); text != "" {
			return 0, fmt.Errorf("%s: %s", c.cmd.Args[0], strings.TrimSpace(text))
		}
	}
	return n, err
}

func (c *commandConn) Write(p []byte) (int, error) { return c.in.Write(p) }

// CloseWrite ends the input alone.
func (c *commandConn) CloseWrite() error { return c.in.Close() }

func (c *commandConn) Close() error {
	c.once.Do(func() {
		c.in.Close()
		late := time.AfterFunc(time.Second, func() { _ = c.cmd.Process.Kill() })
		c.out.Close()
		_ = c.cmd.Wait()
		late.Stop()
		close(c.ended)
	})
	<-c.ended
	return nil
}

type commandAddr struct{}

func (commandAddr) Network() string { return "ssh" }
func (commandAddr) String() string  { return "ssh" }

func (c *commandConn) LocalAddr() net.Addr              { return commandAddr{} }
func (c *commandConn) RemoteAddr() net.Addr             { return commandAddr{} }
func (c *commandConn) SetDeadline(time.Time) error      { return nil }
func (c *commandConn) SetReadDeadline(time.Time) error  { return nil }
func (c *commandConn) SetWriteDeadline(time.Time) error { return nil }

// tail keeps the last of what is written to it. It may be used concurrently.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// maxTail is what a tail keeps, in bytes.
const maxTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-maxTail):]...)
	t.text = t.text[max(0, len(t.text)-maxTail):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
