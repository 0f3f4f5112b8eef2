//go:build linux

package sshbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// peer is a hand-made server: answer gets each request and writes what it
// likes. It is ended with the test.
func peer(t *testing.T, guest bool, answer func(w io.Writer, kind byte, id uint32, b *sshwire.Body)) *remoteFiles {
	t.Helper()
	var all sync.WaitGroup
	f := newFiles(func(context.Context) (io.ReadWriteCloser, error) {
		near, far := net.Pipe()
		all.Go(func() { defer far.Close(); servePeer(far, guest, answer) })
		return near, nil
	})
	t.Cleanup(func() { f.Close(); all.Wait() })
	return f
}

func servePeer(far io.ReadWriter, guest bool, answer func(w io.Writer, kind byte, id uint32, b *sshwire.Body)) {
	var head [4]byte
	for {
		if _, err := io.ReadFull(far, head[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint32(head[:]))
		if _, err := io.ReadFull(far, buf); err != nil {
			return
		}
		b := &sshwire.Body{Rest: buf}
		kind, id := b.Byte(), b.U32()
		if kind != sshwire.SFTPInit {
			answer(far, kind, id, b)
			continue
		}
		p := sshwire.NewPacket(nil, sshwire.SFTPVersion, 3)
		if guest {
			p = p.Text(sshwire.ExtensionFiles).Text("1")
		}
		for _, ext := range []string{sshwire.SFTPPosixRename, sshwire.SFTPHardlink, sshwire.SFTPFsync} {
			p = p.Text(ext).Text("1")
		}
		far.Write(p.Frame())
	}
}

func send(w io.Writer, p sshwire.Packet) { w.Write(p.Frame()) }

func sendAttrs(w io.Writer, id uint32, mode uint32, size uint64) {
	send(w, sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).Attrs(sshwire.Attrs{Has: sshwire.AttrMode | sshwire.AttrSize, Mode: mode, Size: size}))
}

// plausible answers as a stock server whose names are all files, but for those
// that end in "dir".
func plausible(w io.Writer, kind byte, id uint32, b *sshwire.Body) {
	switch name := b.Text(5000); {
	case kind == sshwire.SFTPLstat && (strings.HasSuffix(name, "dir") || name == "/"):
		sendAttrs(w, id, 0o40755, 0)
	case kind == sshwire.SFTPLstat, kind == sshwire.SFTPFstat:
		sendAttrs(w, id, 0o100644, 1<<62)
	case kind == sshwire.SFTPOpenFile, kind == sshwire.SFTPOpendir:
		send(w, sshwire.NewPacket(nil, sshwire.SFTPHandle, id).Text("h"))
	default:
		send(w, sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(sshwire.StatusOK))
	}
}

// everyFilesCall makes every call of Files, and those of the files it returns.
func everyFilesCall(ctx context.Context, f sandbox.Files, dir string) map[string]error {
	second := func(_ any, err error) error { return err }
	write := func(opt sandbox.CreateOptions) error {
		w, err := f.Create(ctx, dir+"/new", opt)
		if err != nil {
			return err
		}
		defer w.Discard()
		if _, err := io.WriteString(w, strings.Repeat("x", 300_000)); err != nil {
			return err
		}
		return w.Commit()
	}
	read := func() error {
		r, err := f.Open(ctx, dir+"/file")
		if err != nil {
			return err
		}
		defer r.Close()
		if _, err := io.CopyN(io.Discard, r, 10<<20); err != nil {
			return err
		}
		_, err = r.ReadAt(make([]byte, 1<<20), 1<<40)
		return err
	}
	return map[string]error{
		"Resolve":    second(f.Resolve(ctx, dir+"/x/../file")),
		"Stat":       second(f.Stat(ctx, dir+"/file")),
		"ReadDir":    second(f.ReadDir(ctx, dir)),
		"Open":       read(),
		"Create":     write(sandbox.CreateOptions{Sync: true}),
		"Create new": write(sandbox.CreateOptions{New: true}),
		"Mkdir":      f.Mkdir(ctx, dir+"/d", 0o700),
		"MkdirAll":   f.MkdirAll(ctx, dir+"/a/b", 0o700),
		"Rename":     f.Rename(ctx, dir+"/file", dir+"/file2"),
		"Remove":     f.Remove(ctx, dir+"/file"),
		"RemoveAll":  f.RemoveAll(ctx, dir),
	}
}

// A server that breaks the rules makes calls fail, at once.
func TestFilesHostileAnswers(t *testing.T) {
	type answer = func(w io.Writer, kind byte, id uint32, b *sshwire.Body)
	raw := func(p []byte) answer {
		return func(w io.Writer, _ byte, _ uint32, _ *sshwire.Body) { w.Write(p) }
	}
	reply := func(p func(id uint32) sshwire.Packet) answer {
		return func(w io.Writer, _ byte, id uint32, _ *sshwire.Body) { send(w, p(id)) }
	}
	regular := sshwire.Attrs{Has: sshwire.AttrMode | sshwire.AttrSize, Mode: 0o100644}
	for what, a := range map[string]answer{
		"a huge length": raw([]byte{0xff, 0xff, 0xff, 0xff, 101, 0, 0, 0, 1}),
		"no length":     raw(make([]byte, 64)),
		"another's id": func(w io.Writer, _ byte, id uint32, _ *sshwire.Body) {
			send(w, sshwire.NewPacket(nil, sshwire.SFTPStatus, id+7).Status(nil))
		},
		"an answer twice": func(w io.Writer, _ byte, id uint32, _ *sshwire.Body) {
			p := sshwire.NewPacket(nil, sshwire.SFTPHandle, id).Text("h")
			send(w, p)
			send(w, p)
		},
		"half an answer": func(w io.Writer, _ byte, id uint32, _ *sshwire.Body) {
			p := sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(4).Text("x")
			w.Write(p.Frame()[:12])
			w.(io.Closer).Close()
		},
		"an unknown kind": reply(func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, 222, id) }),
		"a cut status":    reply(func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(4).U32(99) }),
		"success for all": reply(func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPStatus, id).Status(nil) }),
		"an empty handle": reply(func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPHandle, id).Text("") }),
		"cut attributes":  reply(func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).U32(0xf) }),
		"a negative size": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).Attrs(sshwire.Attrs{Has: 5, Size: 1 << 63, Mode: 0o100644})
		}),
		"4 billion extras": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).U32(1<<31 | 4).U32(0o100644).U32(0xffffffff)
		}),
		"4 billion names": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(0xffffffff).Text("a")
		}),
		"a relative name": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(1).Text("etc/passwd").Text("").Attrs(regular)
		}),
		"a name upwards": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(1).Text("/a/../etc").Text("").Attrs(regular)
		}),
		"data unasked": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPData, id).Text(strings.Repeat("x", 10_000))
		}),
		"a large answer": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPData, id).Text(strings.Repeat("x", 250_000))
		}),
		"an end of file": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(1).Text("").Text("")
		}),
		"an opened device": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPReply, id).Text("h").Attrs(sshwire.Attrs{Has: 4, Mode: 0o020644}).Text("x").Byte(0)
		}),
		"no handle, no end": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPReply, id).Text("").Attrs(regular).Text("x").Byte(0)
		}),
		"an end and more": reply(func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPReply, id).Text("h").Attrs(regular).Text("x").Byte(1)
		}),
		"a gone connection": func(w io.Writer, _ byte, _ uint32, _ *sshwire.Body) { w.(io.Closer).Close() },
	} {
		for _, guest := range []bool{true, false} {
			t.Run(fmt.Sprint(what, "/guest=", guest), func(t *testing.T) {
				f := peer(t, guest, a)
				ctx, stop := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("it hangs"))
				defer stop()
				for call, err := range everyFilesCall(ctx, f, "/dir") {
					if ctx.Err() != nil {
						t.Fatal("a call hangs")
					}
					harmless := strings.HasPrefix(what, "success") && guest && (call == "Mkdir" || call == "MkdirAll" || call == "Rename" || call == "Remove" || call == "RemoveAll")
					if err == nil && !harmless {
						t.Errorf("%s believes it", call)
					}
				}
			})
		}
	}
}

// A server that is plausible up to the one thing.
func TestFilesHostileContent(t *testing.T) {
	names := func(list ...string) func(id uint32) sshwire.Packet {
		return func(id uint32) sshwire.Packet {
			p := sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(uint32(len(list)))
			for _, n := range list {
				p = p.Text(n).Text("").Attrs(sshwire.Attrs{Has: sshwire.AttrMode, Mode: 0o100644})
			}
			return p
		}
	}
	many := make([]string, 3000)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	body := names(many...)(0)
	for what, c := range map[string]struct {
		kind   byte
		answer func(id uint32) sshwire.Packet
	}{
		"a name with a slash": {sshwire.SFTPReaddir, names("a", "../../etc/passwd")},
		"a name with NUL":     {sshwire.SFTPReaddir, names("a\x00b")},
		"no name":             {sshwire.SFTPReaddir, names("")},
		"no names, for ever":  {sshwire.SFTPReaddir, names()},
		"a huge name":         {sshwire.SFTPReaddir, names(strings.Repeat("x", 100_000))},
		"an endless directory": {sshwire.SFTPReaddir, func(id uint32) sshwire.Packet {
			p := slices.Clone(body)
			binary.BigEndian.PutUint32(p[5:], id)
			return p
		}},
		"a directory of dots":  {sshwire.SFTPReaddir, names(".", "..")},
		"empty data, for ever": {sshwire.SFTPRead, func(id uint32) sshwire.Packet { return sshwire.NewPacket(nil, sshwire.SFTPData, id).Text("") }},
		"more than was asked": {sshwire.SFTPRead, func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPData, id).Text(strings.Repeat("x", stockChunk+1))
		}},
		"nothing of 4 EiB": {sshwire.SFTPRead, func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(1).Text("").Text("")
		}},
		"a link to nothing":          {sshwire.SFTPReadlink, names("")},
		"a link with NUL":            {sshwire.SFTPReadlink, names("a\x00b")},
		"a link to itself, for ever": {sshwire.SFTPReadlink, names("link")},
		"a link that grows":          {sshwire.SFTPReadlink, names(strings.Repeat("x/", 1000) + "y")},
		"a file that is a FIFO": {sshwire.SFTPFstat, func(id uint32) sshwire.Packet {
			return sshwire.NewPacket(nil, sshwire.SFTPAttrs, id).Attrs(sshwire.Attrs{Has: 4, Mode: 0o010644})
		}},
	} {
		t.Run(what, func(t *testing.T) {
			f := peer(t, false, func(w io.Writer, kind byte, id uint32, b *sshwire.Body) {
				switch {
				case kind == c.kind:
					send(w, c.answer(id))
				case kind == sshwire.SFTPLstat && c.kind == sshwire.SFTPReadlink:
					sendAttrs(w, id, 0o120777, 0)
				default:
					plausible(w, kind, id, b)
				}
			})
			ctx, stop := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it hangs"))
			defer stop()
			var err error
			switch c.kind {
			case sshwire.SFTPReaddir:
				var list any
				if list, err = f.ReadDir(ctx, "/dir"); err == nil {
					t.Errorf("listed %v", list)
				}
			case sshwire.SFTPReadlink, sshwire.SFTPLstat:
				var real string
				if real, err = f.Resolve(ctx, "/dir/link"); err == nil {
					t.Errorf("resolved %q", real)
				}
			default:
				r, oerr := f.Open(ctx, "/dir/file")
				if err = oerr; err == nil {
					_, err = io.Copy(io.Discard, r)
					r.Close()
				}
			}
			if what == "nothing of 4 EiB" { // that is a file that was cut meanwhile
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || ctx.Err() != nil {
				t.Errorf("believed: %v, %v", err, context.Cause(ctx))
			}
		})
	}
}

// A server that says nothing, at the greeting or later, holds up nobody for
// longer than he wants to wait, and is left for another.
func TestFilesSilentServer(t *testing.T) {
	why := errors.New("patience is over")
	for _, greets := range []bool{false, true} {
		for _, guest := range []bool{false, true} {
			t.Run(fmt.Sprint("greets=", greets, "/guest=", guest), func(t *testing.T) {
				silent := true
				var all sync.WaitGroup
				f := newFiles(func(context.Context) (io.ReadWriteCloser, error) {
					near, far := net.Pipe()
					quiet := silent
					all.Go(func() {
						defer far.Close()
						switch {
						case !quiet:
							servePeer(far, guest, plausible)
						case greets:
							servePeer(far, guest, func(io.Writer, byte, uint32, *sshwire.Body) {})
						default:
							io.Copy(io.Discard, far)
						}
					})
					return near, nil
				})
				defer all.Wait()
				defer f.Close()
				begin := time.Now()
				for range maxSFTPForsaken + 1 {
					ctx, stop := context.WithTimeoutCause(t.Context(), 5*time.Millisecond, why)
					if _, err := f.Stat(ctx, "/dir"); !errors.Is(err, why) {
						t.Fatalf("Stat: %v", err)
					}
					stop()
				}
				if d := time.Since(begin); d > 10*time.Second {
					t.Errorf("waited for %v", d)
				}
				silent = false
				if _, err := f.Stat(t.Context(), "/dir"); err != nil {
					t.Errorf("with another connection: %v", err)
				}
			})
		}
	}
}

// Calls under way when a connection is lost fail as lost; after Close they are
// closed.
func TestFilesLostAndClosed(t *testing.T) {
	asked := make(chan io.Closer, 8)
	f := peer(t, true, func(w io.Writer, _ byte, _ uint32, _ *sshwire.Body) { asked <- w.(io.Closer) })
	got := make(chan error, 1)
	go func() { _, err := f.Stat(context.Background(), "/dir"); got <- err }()
	(<-asked).Close()
	if err := <-got; !errors.Is(err, sandbox.ErrLost) {
		t.Errorf("after the server went: %v", err)
	}
	go func() { _, err := f.Stat(context.Background(), "/dir"); got <- err }()
	<-asked
	f.Close()
	if err := <-got; !errors.Is(err, sandbox.ErrClosed) || errors.Is(err, sandbox.ErrLost) {
		t.Errorf("under way at Close: %v", err)
	}
	for call, err := range everyFilesCall(context.Background(), f, "/dir") {
		if !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("%s after Close: %v", call, err)
		}
	}
}

// A server may answer in any order: the end of a directory before its last
// names.
func TestFilesListedOutOfOrder(t *testing.T) {
	asked := 0
	f := peer(t, false, func(w io.Writer, kind byte, id uint32, b *sshwire.Body) {
		if kind != sshwire.SFTPReaddir {
			plausible(w, kind, id, b)
			return
		}
		if asked++; asked == 2 {
			send(w, sshwire.NewPacket(nil, sshwire.SFTPName, id).U32(1).Text("a").Text("").Attrs(sshwire.Attrs{Has: sshwire.AttrMode, Mode: 0o100644}))
			return
		}
		send(w, sshwire.NewPacket(nil, sshwire.SFTPStatus, id).U32(sshwire.StatusEOF))
	})
	list, err := f.ReadDir(t.Context(), "/dir")
	if err != nil || len(list) != 1 || list[0].Name() != "a" {
		t.Errorf("listed %v, %v", list, err)
	}
}
