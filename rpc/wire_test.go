package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the server's side of testdata/wire")

// TestWire plays the client's side of each transcript and compares what the
// server says. Each line is sent when the one before has been answered.
func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/wire/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			script, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if len(script.Files) != 2 || script.Files[0].Name != "client" || script.Files[1].Name != "server" {
				t.Fatal("want two parts, client and server")
			}
			s := serve(t, Config{Token: "TOKEN", Handler: func(_ context.Context, c Call) json.RawMessage {
				return json.RawMessage(fmt.Sprintf(`{"tool":"%s","args":%s}`, c.Tool, c.Args))
			}})
			got := converse(s.peer(t), string(script.Files[0].Data))
			if *update {
				script.Files[1].Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(script), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if want := string(script.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// converse returns what the server said until the client had no more to say or
// the server hung up.
func converse(p *peer, client string) string {
	var said strings.Builder
	for line := range strings.Lines(client) {
		if _, err := p.nc.Write([]byte(line)); err != nil {
			break
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		answer := p.line()
		if answer == "" {
			break
		}
		said.WriteString(answer + "\n")
	}
	return said.String()
}

func TestHostileLines(t *testing.T) {
	s := serve(t, Config{Handler: echoArgs})
	request := func(args string) string {
		return `{"id":1,"token":"` + s.cfg.Token + `","tool":"x","args":` + args + `}`
	}
	offset := strings.Index(request("{"), `"args":`) + len(`"args":`)
	for _, c := range []struct{ name, line, want string }{
		{"invalid UTF-8", request("{\"a\":\"\xff\"}"), fmt.Sprintf("invalid UTF-8 at byte %d", offset+6)},
		{"overlong UTF-8", request("{\"a\":\"\xc0\xaf\"}"), fmt.Sprintf("invalid UTF-8 at byte %d", offset+6)},
		{"surrogate bytes", request("{\"a\":\"\xed\xa0\x80\"}"), fmt.Sprintf("invalid UTF-8 at byte %d", offset+6)},
		{"NUL", "\x00", "unexpected character at byte 0"},
		{"NUL in a string", request("{\"a\":\"\x00\"}"), fmt.Sprintf("control character in a string at byte %d", offset+6)},
		{"depth", request(`{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`),
			fmt.Sprintf("nested too deeply at byte %d", offset+5+maxDepth-2)},
		{"open depth", strings.Repeat("[", 100_000), fmt.Sprintf("nested too deeply at byte %d", maxDepth)},
		{"object depth", strings.Repeat(`{"a":`, 100_000), fmt.Sprintf("nested too deeply at byte %d", 5*maxDepth)},
		{"long tool", `{"id":1,"token":"` + s.cfg.Token + `","tool":"` + strings.Repeat("x", 257) + `"}`, "tool is longer than 256 bytes"},
		{"BOM", "\ufeff" + request("{}"), "unexpected character at byte 0"},
		{"HTTP", "GET / HTTP/1.1\r", "unexpected character at byte 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.peer(t)
			p.send(c.line)
			var reply struct {
				Error struct{ Code, Message string }
			}
			line := p.line()
			if err := json.Unmarshal([]byte(line), &reply); err != nil {
				t.Fatalf("answer %q: %v", line, err)
			}
			if want := invalidMessage + c.want; reply.Error.Code != codeInvalid || reply.Error.Message != want {
				t.Errorf("got %s, want %s", line, want)
			}
			p.call("2", "x", `{"value":"still here"}`)
			p.want(`{"id":2,"result":"still here"}`)
		})
	}
	// As deep as allowed.
	p := s.peer(t)
	deep := strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2)
	p.call("1", "x", `{"value":`+deep+`}`)
	p.want(`{"id":1,"result":` + deep + `}`)
}

// A line without an end is read as far as the limit and no further, whoever
// sends it, and the memory of the engine does not grow with it.
func TestEndlessLine(t *testing.T) {
	const limit = 1 << 20
	s := serve(t, Config{MaxFrame: limit, Handler: echoArgs})
	p := s.peer(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	chunk := bytes.Repeat([]byte("x"), 1<<20)
	sent := 0
	for sent < 1<<30 {
		n, err := p.nc.Write(chunk)
		sent += n
		if err != nil {
			break
		}
	}
	if sent > limit+4<<20 { // and what the socket's buffers hold
		t.Errorf("%d bytes were taken", sent)
	}
	p.want(`{"id":null,"error":{"code":"too_large","message":"request exceeds the frame limit of 1048576 bytes"}}`)
	if _, err := p.in.ReadByte(); err == nil {
		t.Error("not closed")
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 8*limit {
		t.Errorf("allocated %d bytes for it", grown)
	}
	q := s.peer(t)
	q.call("1", "x", "{}")
	q.want(`{"id":1,"result":null}`)
}

// The limit counts the newline and is exact.
func TestFrameLimit(t *testing.T) {
	for _, limit := range []int{leastFrame, freeBuffer, freeBuffer + 1, 1 << 20} {
		s := serve(t, Config{MaxFrame: limit, Handler: func(_ context.Context, c Call) json.RawMessage {
			return json.RawMessage(fmt.Sprint(len(c.Args)))
		}})
		frame := func(size int) string {
			head := `{"id":1,"token":"` + s.cfg.Token + `","tool":"x","args":{"a":"`
			return head + strings.Repeat("x", size-len(head)-len(`"}}`)-1) + `"}}`
		}
		p := s.peer(t)
		p.send(frame(limit))
		if got := p.line(); !strings.HasPrefix(got, `{"id":1,"result":`) {
			t.Errorf("limit %d: a frame of that size: %s", limit, got)
		}
		p = s.peer(t)
		p.send(frame(limit + 1))
		if got := p.line(); !strings.Contains(got, codeTooLarge) {
			t.Errorf("limit %d: a frame of one byte more: %s", limit, got)
		}
	}
}

// However the bytes arrive, the lines are the same.
func TestLinesInPieces(t *testing.T) {
	var want []string
	for _, n := range []int{0, 1, 100, smallBuffer - 1, smallBuffer, smallBuffer + 1, freeBuffer - 1, freeBuffer, freeBuffer + 1, 1, 300_000, 0, 5} {
		want = append(want, strings.Repeat("x", n))
	}
	stream := strings.Join(want, "\n") + "\nrest"
	for _, piece := range []int{1, 7, 4095, 4096, 4097, 65536, 1 << 20} {
		grown := 0
		l := lines{src: &pieces{strings.NewReader(stream), piece}, max: 1 << 20, grow: func() error { grown++; return nil }}
		owned := 0
		for i, w := range want {
			line, own, err := l.next()
			if err != nil || string(line) != w {
				t.Fatalf("pieces of %d: line %d: %d bytes, %v", piece, i, len(line), err)
			}
			if own {
				owned++
			}
		}
		if _, _, err := l.next(); !errors.Is(err, io.EOF) {
			t.Errorf("pieces of %d: at the end: %v", piece, err)
		}
		if owned != grown || len(l.buf) > smallBuffer {
			t.Errorf("pieces of %d: grew for %d lines, gave %d away, holds %d bytes at the end", piece, grown, owned, len(l.buf))
		}
	}
}

type pieces struct {
	src  io.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.src.Read(b[:min(len(b), p.size)]) }

// Peers that hold big frames back cannot make the engine buffer more than so
// many; small ones pass, and a big one has its turn when a place is free.
func TestBigFramesAreBounded(t *testing.T) {
	s := serve(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		return json.RawMessage(fmt.Sprint(len(c.Args)))
	}})
	args := `{"value":"` + strings.Repeat("x", 2*freeBuffer) + `"}`
	part := `{"id":1,"token":"` + s.cfg.Token + `","tool":"x","args":` + args
	var holders []*peer
	for range bigFrames {
		p := s.peer(t)
		if _, err := p.nc.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
		holders = append(holders, p)
	}
	eventually(t, "all places taken", func() bool { return len(s.big) == bigFrames })

	late := s.peer(t)
	var got atomic.Pointer[string]
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		late.call("2", "x", args)
		line := late.line()
		got.Store(&line)
	}()
	small := s.peer(t)
	for range 100 {
		small.call("1", "x", "{}")
		small.want(`{"id":1,"result":2}`)
	}
	if line := got.Load(); line != nil {
		t.Fatalf("answered beyond the bound: %s", *line)
	}
	holders[0].send("}")
	holders[0].want(fmt.Sprintf(`{"id":1,"result":%d}`, len(args)))
	within(t, "the late frame is served", answered)
	if want := fmt.Sprintf(`{"id":2,"result":%d}`, len(args)); *got.Load() != want {
		t.Errorf("got %s", *got.Load())
	}
	holders[1].nc.Close()
	eventually(t, "places given back", func() bool { return len(s.big) == bigFrames-2 })
}

func TestHalfClose(t *testing.T) {
	release := make(chan struct{})
	var cancelled atomic.Bool
	s := serve(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		select {
		case <-release:
		case <-ctx.Done():
			cancelled.Store(true)
		}
		return json.RawMessage(`"` + c.Tool + `"`)
	}})
	p := s.peer(t)
	p.call("1", "a", "{}")
	p.call("2", "b", "{}")
	p.nc.Write([]byte(`{"id":3,"token":"` + p.token + `","tool":"cut"}`)) // no newline: no request
	if err := p.nc.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	// Both are in flight when the end of the requests has been seen.
	eventually(t, "end seen", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return len(c.slots) == cap(c.slots)
		}
		return false
	})
	close(release)
	got := map[string]bool{p.line(): true, p.line(): true}
	if !got[`{"id":1,"result":"a"}`] || !got[`{"id":2,"result":"b"}`] {
		t.Errorf("got %v", got)
	}
	p.want("")
	if cancelled.Load() {
		t.Error("a call was cancelled")
	}
}

// Who hangs up has his calls cancelled.
func TestHangUpCancels(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("elsewhere it is noticed when the answer is written")
	}
	causes := make(chan error, 2)
	s := serve(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	}})
	p := s.peer(t)
	p.call("1", "x", "{}")
	p.call("2", "x", "{}")
	eventually(t, "calls in flight", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.conns {
			return len(c.slots) == 2
		}
		return false
	})
	p.nc.Close()
	for range 2 {
		if err := <-causes; !errors.Is(err, errGone) {
			t.Errorf("cause %v", err)
		}
	}
	eventually(t, "connection forgotten", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.conns) == 0
	})
}

// A client that asks and never reads holds up neither others nor Close.
func TestClientThatNeverReads(t *testing.T) {
	result := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	s := serve(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		if c.Tool == "big" {
			return result
		}
		return json.RawMessage(`{}`)
	}})
	deaf := s.peer(t)
	for i := range 8 { // more than the socket holds
		deaf.call(fmt.Sprint(i), "big", "{}")
	}
	other := s.peer(t)
	for i := range 100 {
		other.call(fmt.Sprint(i), "x", "{}")
		other.want(fmt.Sprintf(`{"id":%d,"result":{}}`, i))
	}
	if err := s.Close(); err != nil { // it gives up after closeWait
		t.Error(err)
	}
}

// A slow reader gets everything, whole.
func TestSlowReader(t *testing.T) {
	result := `"` + strings.Repeat("0123456789", 100_000) + `"`
	s := serve(t, Config{Handler: func(context.Context, Call) json.RawMessage { return json.RawMessage(result) }})
	p := s.peer(t)
	p.call("1", "x", "{}")
	p.call("2", "x", "{}")
	var got []byte
	small := make([]byte, 1000)
	for bytes.Count(got, []byte("\n")) < 2 {
		n, err := p.nc.Read(small)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, small[:n]...)
	}
	one, two := `{"id":1,"result":`+result+"}\n", `{"id":2,"result":`+result+"}\n"
	if string(got) != one+two && string(got) != two+one {
		t.Errorf("got %d bytes, want %d", len(got), len(one+two))
	}
}

// An idle connection holds little, whatever passed over it.
func TestIdleConnectionsAreSmall(t *testing.T) {
	s := serve(t, Config{Handler: echoArgs})
	size := 1 << 20
	if testing.Short() {
		size /= 4
	}
	args := `{"value":"` + strings.Repeat("x", size) + `"}`
	idle := make([]*net.UnixConn, 0, 32)
	for range cap(idle) {
		p := s.peer(t)
		go fmt.Fprintf(p.nc, `{"id":1,"token":"%s","tool":"x","args":%s}`+"\n", p.token, args)
		if line := p.line(); len(line) < size {
			t.Fatalf("got %.100s", line)
		}
		idle = append(idle, p.nc) // the test's own buffers go
	}
	eventually(t, "memory is small again", func() bool {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc < uint64(cap(idle)*size)
	})
	runtime.KeepAlive(idle)
}

func TestJunkFromManyConnections(t *testing.T) {
	s := serve(t, Config{MaxConns: 64, Handler: echoArgs})
	for i := range 200 {
		nc, err := net.Dial("unix", s.path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = nc.Write(bytes.Repeat([]byte{byte(i)}, i*100))
		if err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
		nc.Close()
	}
	eventually(t, "served after all that", func() bool {
		p := s.peer(t)
		fmt.Fprintf(p.nc, `{"id":1,"token":"%s","tool":"x"}`+"\n", p.token)
		return p.line() == `{"id":1,"result":null}`
	})
}
