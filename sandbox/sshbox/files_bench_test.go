//go:build linux

package sshbox

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/guest/serve"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// overSocket are the files of a server at the other end of a pair of sockets.
func overSocket(b *testing.B) *remoteFiles {
	b.Helper()
	var serving sync.WaitGroup
	f := newFiles(func(context.Context) (io.ReadWriteCloser, error) {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		var ends [2]net.Conn
		for i, fd := range fds {
			file := os.NewFile(uintptr(fd), "pair")
			if ends[i], err = net.FileConn(file); err != nil {
				return nil, err
			}
			file.Close()
		}
		serving.Go(func() {
			defer ends[1].Close()
			if err := serve.SFTP(ends[1], ends[1]); err != nil {
				b.Error(err)
			}
		})
		return ends[0], nil
	})
	b.Cleanup(func() { f.Close(); serving.Wait() })
	return f
}

// BenchmarkFiles times whole calls over a pair of sockets, without SSH between.
func BenchmarkFiles(b *testing.B) {
	f, dir := overSocket(b), tempTree(b)
	ctx, name, small := b.Context(), dir+"/small", make([]byte, 1000)
	large := dir + "/large"
	if err := os.WriteFile(large, make([]byte, 64<<20), 0o600); err != nil {
		b.Fatal(err)
	}
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("stat", func(b *testing.B) {
		for b.Loop() {
			_, err := f.Stat(ctx, dir)
			check(err)
		}
	})
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			_, err := f.Resolve(ctx, dir)
			check(err)
		}
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			check(put(f, name, small, sandbox.CreateOptions{}))
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			r, err := f.Open(ctx, name)
			check(err)
			_, err = io.ReadAll(r)
			check(err)
			r.Close()
		}
	})
	b.Run("read64M", func(b *testing.B) {
		b.SetBytes(64 << 20)
		buf := make([]byte, 64<<10)
		for b.Loop() {
			r, err := f.Open(ctx, large)
			check(err)
			_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buf)
			check(err)
			r.Close()
		}
	})
	b.Run("write64M", func(b *testing.B) {
		b.SetBytes(64 << 20)
		data := make([]byte, 64<<20)
		for b.Loop() {
			check(put(f, dir+"/written", data, sandbox.CreateOptions{}))
		}
	})
	if _, err := f.Stat(ctx, dir); err != nil {
		b.Fatal(err)
	}
}

// slowLink is rw at a distance: what is sent arrives after a delay.
func slowLink(rw io.ReadWriteCloser, delay time.Duration) io.ReadWriteCloser {
	type delayed struct {
		at time.Time
		p  []byte
	}
	near, far := net.Pipe()
	pump := func(dst io.WriteCloser, src io.Reader) {
		q := make(chan delayed, 1024)
		go func() {
			defer dst.Close()
			for d := range q {
				time.Sleep(time.Until(d.at))
				if _, err := dst.Write(d.p); err != nil {
					for range q {
					}
					return
				}
			}
		}()
		defer close(q)
		for {
			buf := make([]byte, 64<<10)
			n, err := src.Read(buf)
			if n > 0 {
				q <- delayed{time.Now().Add(delay), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	}
	go pump(rw, far)
	go pump(far, rw)
	return near
}

// BenchmarkFilesFar times calls over a link of 20 ms there and back.
func BenchmarkFilesFar(b *testing.B) {
	for _, server := range []string{"guest", "stock"} {
		b.Run(server, func(b *testing.B) {
			s := &servers{args: guestServer(b)}
			if server == "stock" {
				s.args = []string{stockServer(b)}
			}
			f := newFiles(func(ctx context.Context) (io.ReadWriteCloser, error) {
				rw, err := s.open(ctx)
				if err != nil {
					return nil, err
				}
				return slowLink(rw, 10*time.Millisecond), nil
			})
			b.Cleanup(func() { f.Close(); s.all.Wait() })
			name := tempTree(b) + "/file"
			if err := put(f, name, make([]byte, 1000), sandbox.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
			b.Run("write", func(b *testing.B) {
				for b.Loop() {
					if err := put(f, name, make([]byte, 1000), sandbox.CreateOptions{}); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run("read", func(b *testing.B) {
				for b.Loop() {
					r, err := f.Open(b.Context(), name)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadAll(r); err != nil {
						b.Fatal(err)
					}
					r.Close()
				}
			})
		})
	}
}
