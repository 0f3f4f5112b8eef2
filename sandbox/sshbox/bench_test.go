//go:build unix

package sshbox_test

import (
	"context"
	"io"
	"testing"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshbox"
)

func benchBox(b *testing.B) sandbox.Sandbox {
	f := newFar(b, socketPair, sshbox.Config{})
	b.Cleanup(func() { f.Close() })
	box, err := f.Create(context.Background(), sandbox.Spec{
		Env: []string{"PATH=/usr/bin:/bin"}, Policy: sandbox.Policy{Name: "open", Unconfined: true},
	})
	if err != nil {
		b.Fatal(err)
	}
	return box
}

// BenchmarkCommand is a command on a live connection.
func BenchmarkCommand(b *testing.B) {
	box := benchBox(b)
	for b.Loop() {
		p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/bin/true"}})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := p.Wait(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOutput is what a command prints, per MiB.
func BenchmarkOutput(b *testing.B) {
	box := benchBox(b)
	b.SetBytes(1 << 20)
	r, w := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := box.Start(ctx, sandbox.Cmd{Args: []string{"cat", "/dev/zero"}, Stdout: w, Grace: 1})
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	for b.Loop() {
		if _, err := io.ReadFull(r, buf); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	go io.Copy(io.Discard, r)
	_, _ = p.Wait()
}

// BenchmarkSocket is one round trip of a byte from a process to the listener.
func BenchmarkSocket(b *testing.B) {
	box := benchBox(b)
	l, path, err := box.Listen(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	p, err := box.Start(context.Background(), sandbox.Cmd{Args: []string{"/usr/bin/python3", "-c", `import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
while s.recv(1): s.send(b"x")
`, path}})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	one := make([]byte, 1)
	for b.Loop() {
		if _, err := conn.Write(one); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, one); err != nil {
			b.Fatal(err)
		}
	}
	conn.Close()
	_, _ = p.Wait()
}
