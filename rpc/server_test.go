package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNewServerRefuses(t *testing.T) {
	handler := echoArgs
	for name, cfg := range map[string]Config{
		"no token":       {Handler: handler},
		"no handler":     {Token: "t"},
		"tiny frames":    {Token: "t", Handler: handler, MaxFrame: 100},
		"negative frame": {Token: "t", Handler: handler, MaxFrame: -1},
		"negative conns": {Token: "t", Handler: handler, MaxConns: -1},
		"negative calls": {Token: "t", Handler: handler, MaxInFlight: -1},
		"negative runs":  {Token: "t", Handler: handler, MaxRunning: -1},
		"negative room":  {Token: "t", Handler: handler, MaxPending: -1},
		"no such uid":    {Token: "t", Handler: handler, PeerUID: -2},
	} {
		if s, err := NewServer(cfg); err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestNewToken(t *testing.T) {
	a, b := NewToken(), NewToken()
	if a == b || len(a) < 22 {
		t.Errorf("tokens %q and %q", a, b)
	}
}

// The answers of one connection come as the calls end: the second here while
// the first, which had the reading goroutine to itself, still runs.
func TestSlowCallDoesNotHoldConnection(t *testing.T) {
	release := make(chan struct{})
	s := serve(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		if c.Tool == "slow" {
			<-release
		}
		return json.RawMessage(`"` + c.Tool + `"`)
	}})
	p := s.peer(t)
	p.call("1", "slow", "{}")
	for range 3 { // each written when the one before has been answered
		p.call("2", "fast", "{}")
		p.want(`{"id":2,"result":"fast"}`)
	}
	close(release)
	p.want(`{"id":1,"result":"slow"}`)
	p.call("3", "fast", "{}")
	p.want(`{"id":3,"result":"fast"}`)
}

// All calls of one connection are in flight at once: none is answered before
// every one has begun.
func TestManyInFlight(t *testing.T) {
	const n = 64
	var begun sync.WaitGroup
	begun.Add(n)
	s := serve(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		begun.Done()
		begun.Wait()
		return json.RawMessage(`{}`)
	}})
	p := s.peer(t)
	for i := range n {
		p.call(fmt.Sprint(i), "meet", "{}")
	}
	seen := map[string]bool{}
	for range n {
		seen[p.line()] = true
	}
	for i := range n {
		if want := fmt.Sprintf(`{"id":%d,"result":{}}`, i); !seen[want] {
			t.Errorf("no answer %s", want)
		}
	}
}

// What is beyond MaxInFlight waits and is served later.
func TestInFlightBound(t *testing.T) {
	var now, most atomic.Int64
	s := serve(t, Config{MaxInFlight: 3, Handler: func(context.Context, Call) json.RawMessage {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		runtime.Gosched()
		now.Add(-1)
		return json.RawMessage(`1`)
	}})
	p := s.peer(t)
	go func() {
		for i := range 200 {
			fmt.Fprintf(p.nc, `{"id":%d,"token":"%s","tool":"x"}`+"\n", i, p.token)
		}
	}()
	for range 200 {
		if line := p.line(); !strings.HasSuffix(line, `"result":1}`) {
			t.Fatalf("got %q", line)
		}
	}
	if most.Load() > 3 {
		t.Errorf("%d calls at once, bound is 3", most.Load())
	}
}

// The server counts nothing, so what it must give a gate is calls that arrive
// exactly once each: a cap kept by the handler is exact under 64 threads.
func TestExactCapUnder64Clients(t *testing.T) {
	const clients, each, limit = 64, 50, 1000
	var calls, granted atomic.Int64
	s := serve(t, Config{Handler: func(context.Context, Call) json.RawMessage {
		calls.Add(1)
		if granted.Add(1) > limit {
			granted.Add(-1)
			return json.RawMessage(`{"error":"limit"}`)
		}
		return json.RawMessage(`{}`)
	}})
	var ok, refused atomic.Int64
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			p := s.peer(t)
			for i := range each {
				p.call(fmt.Sprint(i), "x", "{}")
				switch line := p.line(); line {
				case fmt.Sprintf(`{"id":%d,"result":{}}`, i):
					ok.Add(1)
				case fmt.Sprintf(`{"id":%d,"result":{"error":"limit"}}`, i):
					refused.Add(1)
				default:
					t.Errorf("answer %q", line)
				}
			}
		})
	}
	all.Wait()
	if calls.Load() != clients*each || ok.Load() != limit || refused.Load() != clients*each-limit {
		t.Errorf("calls %d, granted %d, refused %d", calls.Load(), ok.Load(), refused.Load())
	}
}

func TestHandlerFaults(t *testing.T) {
	results := map[string]json.RawMessage{
		"nil":       nil,
		"empty":     {},
		"word":      json.RawMessage(`nope`),
		"cut":       json.RawMessage(`{"a":`),
		"two":       json.RawMessage(`{} {}`),
		"newline":   json.RawMessage(`{"a":"` + "\n" + `"}`),
		"deep":      json.RawMessage(strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)),
		"pretty":    json.RawMessage("{\r\n  \"a\": [1,\n 2]\n}\n"),
		"bytes":     json.RawMessage("{\"a\":\"x\xff\"}"),
		"large":     json.RawMessage(`"` + strings.Repeat("x", 8192) + `"`),
		"surrogate": json.RawMessage(`"\ud800"`),
	}
	s := serve(t, Config{MaxFrame: 8192, Handler: func(_ context.Context, c Call) json.RawMessage {
		if c.Tool == "panic" {
			panic("at the disco")
		}
		return results[c.Tool]
	}})
	p := s.peer(t)
	for tool, want := range map[string]string{
		"panic":     `{"error":"internal error: the tool panicked"}`,
		"nil":       `{"error":"the tool returned nothing"}`,
		"empty":     `{"error":"the tool returned nothing"}`,
		"word":      `{"error":"the tool returned invalid JSON: unexpected character at byte 0"}`,
		"cut":       `{"error":"the tool returned invalid JSON: unexpected end at byte 5"}`,
		"two":       `{"error":"the tool returned invalid JSON: unexpected text after the value at byte 3"}`,
		"newline":   `{"error":"the tool returned invalid JSON: control character in a string at byte 6"}`,
		"deep":      `{"error":"result of 200000 bytes exceeds the frame limit of 8152 bytes: ask for a smaller part"}`,
		"pretty":    `{"a":[1,2]}`,
		"bytes":     `{"a":"x` + "\uFFFD" + `"}`,
		"large":     `{"error":"result of 8194 bytes exceeds the frame limit of 8152 bytes: ask for a smaller part"}`,
		"surrogate": `{"error":"the tool returned invalid JSON: lone surrogate (not representable in UTF-8) at byte 1"}`,
	} {
		p.call("7", tool, "{}")
		if got := p.line(); got != `{"id":7,"result":`+want+`}` {
			t.Errorf("%s:\ngot  %.200s\nwant %s", tool, got, want)
		}
	}
}

// A result of exactly the limit passes, one byte more does not, and the frame
// around it is never longer than MaxFrame.
func TestResultAtTheLimit(t *testing.T) {
	const frame = 1 << 20
	for _, size := range []int{frame - envelopeSize, frame - envelopeSize + 1} {
		result := json.RawMessage(`"` + strings.Repeat("x", size-2) + `"`)
		s := serve(t, Config{MaxFrame: frame, Handler: func(context.Context, Call) json.RawMessage { return result }})
		p := s.peer(t)
		p.call("9007199254740992", "x", "{}")
		line := p.line()
		if len(line)+1 > frame {
			t.Errorf("a frame of %d bytes", len(line)+1)
		}
		if fits := !strings.Contains(line, "exceeds"); fits != (size == frame-envelopeSize) {
			t.Errorf("result of %d bytes: got %.100s", size, line)
		}
	}
}

// The handler keeps the arguments of earlier calls while later ones are read.
func TestArgsBelongToHandler(t *testing.T) {
	var mu sync.Mutex
	var kept []json.RawMessage
	s := serve(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, c.Args)
		return json.RawMessage(`{}`)
	}})
	p := s.peer(t)
	var want []string
	for i, n := range []int{10, 1000, freeBuffer - 200, freeBuffer, 3 * freeBuffer, 10, 1 << 20, 20} {
		args := `{"value":"` + strings.Repeat(string(rune('a'+i)), n) + `"}`
		want = append(want, args)
		p.call("1", "x", args)
		p.line()
	}
	for i := range want {
		if string(kept[i]) != want[i] {
			t.Errorf("arguments %d changed: %.60s…", i, kept[i])
		}
	}
}

func TestUnauthorized(t *testing.T) {
	var calls atomic.Int64
	s := serve(t, Config{Handler: func(context.Context, Call) json.RawMessage { calls.Add(1); return json.RawMessage(`{}`) }})
	stale := NewToken() // of another run
	for name, request := range map[string]string{
		"none":        `{"id":1,"tool":"x","args":{}}`,
		"empty":       `{"id":1,"token":"","tool":"x","args":{}}`,
		"wrong":       `{"id":1,"token":"` + stale + `","tool":"x","args":{}}`,
		"prefix":      `{"id":1,"token":"` + s.cfg.Token[:len(s.cfg.Token)-1] + `","tool":"x","args":{}}`,
		"longer":      `{"id":1,"token":"` + s.cfg.Token + `A","tool":"x","args":{}}`,
		"case":        `{"id":1,"token":"` + strings.ToLower(s.cfg.Token) + `","tool":"x","args":{}}`,
		"other key":   `{"id":1,"Token":"` + s.cfg.Token + `","tool":"x","args":{}}`,
		"not a str":   `{"id":1,"token":["` + s.cfg.Token + `"],"tool":"x","args":{}}`,
		"faulty too":  `{"id":1,"token":"` + stale + `","tool":1,"more":2}`,
		"second good": `{"id":1,"token":"` + stale + `","token":"` + s.cfg.Token + `","tool":"x","args":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := s.peer(t)
			p.send(request)
			p.want(`{"id":1,"error":{"code":"unauthorized","message":"missing or wrong token"}}`)
			p.want("") // hung up
		})
	}
	// After a good request too, and nothing behind the bad one is served.
	p := s.peer(t)
	p.call("1", "x", "{}")
	p.want(`{"id":1,"result":{}}`)
	p.send(`{"id":2,"token":"no","tool":"x"}` + "\n" + `{"id":3,"token":"` + s.cfg.Token + `","tool":"x"}`)
	p.want(`{"id":2,"error":{"code":"unauthorized","message":"missing or wrong token"}}`)
	p.want("")
	if calls.Load() != 1 {
		t.Errorf("%d calls dispatched, want 1", calls.Load())
	}
}

// Who has never shown the token gets a few answers to junk; who has gets as
// many as he likes.
func TestJunkBudget(t *testing.T) {
	s := serve(t, Config{Handler: echoArgs})
	const answer = `{"id":null,"error":{"code":"invalid","message":"Invalid RPC request: expected an object at byte 0"}}`
	p := s.peer(t)
	for range maxJunk {
		p.send(`[1,2]`)
		p.want(answer)
	}
	p.want("")

	p = s.peer(t)
	p.send(`[1,2]`)
	p.want(answer)
	p.call("1", "x", "{}")
	p.want(`{"id":1,"result":null}`)
	for range 10 * maxJunk {
		p.send(`[1,2]`)
		p.want(answer)
	}
	p.call("2", "x", "{}")
	p.want(`{"id":2,"result":null}`)
}

// The peer's uid alone decides here: the other user can reach the socket and
// has the token.
func TestForeignUID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	var calls atomic.Int64
	handler := func(context.Context, Call) json.RawMessage { calls.Add(1); return json.RawMessage(`{}`) }
	for _, c := range []struct {
		peer int
		want string
	}{
		{0, `{"id":null,"error":{"code":"unauthorized","message":"uid 12345 may not connect"}}` + "\n"},
		{12345, `{"id":1,"result":{}}` + "\n"},
	} {
		s, err := NewServer(Config{Token: NewToken(), PeerUID: c.peer, Handler: handler})
		if err != nil {
			t.Fatal(err)
		}
		dir := shortDir(t)
		path := filepath.Join(dir, "sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		for name, mode := range map[string]os.FileMode{dir: 0o755, path: 0o777} {
			if err := os.Chmod(name, mode); err != nil {
				t.Fatal(err)
			}
		}
		go s.Serve(l)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "RPC_TEST_DIAL="+path,
			"RPC_TEST_SEND="+`{"id":1,"token":"`+s.cfg.Token+`","tool":"x"}`+"\n")
		cmd.Dir = "/"
		asUser(cmd, 12345)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := runCopied(t, cmd)
		if err != nil {
			t.Fatalf("helper: %v %s", err, stderr.String())
		}
		if out != c.want {
			t.Errorf("peer %d: got %q, want %q", c.peer, out, c.want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if calls.Load() != 1 {
		t.Errorf("%d calls dispatched, want the permitted one", calls.Load())
	}
}

// runCopied runs the test binary from a place another user can execute it.
func runCopied(t *testing.T, cmd *exec.Cmd) (string, error) {
	t.Helper()
	dir := shortDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(cmd.Path)
	if err != nil {
		t.Fatal(err)
	}
	cmd.Path = filepath.Join(dir, "helper")
	if err := os.WriteFile(cmd.Path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	return string(out), err
}

// dialAndShow is what TestForeignUID runs as another user.
func dialAndShow(path, request string) error {
	nc, err := net.Dial("unix", path)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.Write([]byte(request)) // may fail: the answer is there already
	answer, err := bufio.NewReader(nc).ReadString('\n')
	fmt.Print(answer)
	return err
}

// A connection that cannot tell who is there is refused, unless that was asked.
func TestUnknownPeer(t *testing.T) {
	for peer, want := range map[int]string{
		AnyPeer: `{"id":1,"result":{}}`,
		0:       `{"id":null,"error":{"code":"unauthorized","message":"cannot tell who connected: the connection has no file descriptor"}}`,
	} {
		s, err := NewServer(Config{Token: "t", PeerUID: peer,
			Handler: func(context.Context, Call) json.RawMessage { return json.RawMessage(`{}`) }})
		if err != nil {
			t.Fatal(err)
		}
		l := &pipeListener{conns: make(chan net.Conn)}
		go s.Serve(l)
		client, server := net.Pipe()
		l.conns <- server
		go client.Write([]byte(`{"id":1,"token":"t","tool":"x"}` + "\n"))
		buf := make([]byte, 1000)
		n, _ := client.Read(buf)
		if got := strings.TrimSuffix(string(buf[:n]), "\n"); got != want && runtime.GOOS == "linux" {
			t.Errorf("peer %d: got %s", peer, got)
		}
		client.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// pipeListener accepts what is put on conns, until it is closed.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	nc, ok := <-l.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return nc, nil
}
func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.conns) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Net: "pipe"} }

func TestTooManyConnections(t *testing.T) {
	s := serve(t, Config{MaxConns: 2, Handler: echoArgs})
	a, b := s.peer(t), s.peer(t)
	for _, p := range []*peer{a, b} {
		p.call("1", "x", "{}")
		p.want(`{"id":1,"result":null}`)
	}
	s.peer(t).want(`{"id":null,"error":{"code":"busy","message":"too many connections (limit 2)"}}`)
	a.nc.Close()
	eventually(t, "place for another", func() bool {
		p := s.peer(t)
		fmt.Fprintf(p.nc, `{"id":1,"token":"%s","tool":"x"}`+"\n", p.token)
		return p.line() == `{"id":1,"result":null}`
	})
}

func TestCloseCancelsAndRefuses(t *testing.T) {
	began := make(chan struct{})
	var cause error
	s := serve(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		if c.Tool == "quick" {
			return json.RawMessage("{}")
		}
		close(began)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return json.RawMessage(`{"error":"cancelled"}`)
	}})
	p, idle := s.peer(t), s.peer(t)
	idle.call("0", "quick", "{}") // it has been accepted, too
	idle.want(`{"id":0,"result":{}}`)
	p.call("1", "x", "{}")
	within(t, "call begins", began)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(cause, ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	if line := p.line(); line != "" && line != `{"id":1,"result":{"error":"cancelled"}}` {
		t.Errorf("got %s", line)
	}
	idle.want("")
	if _, err := net.Dial("unix", s.path); err == nil {
		t.Error("still listening")
	}
	l, err := net.Listen("unix", filepath.Join(shortDir(t), "again"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != nil {
		t.Errorf("Serve after Close: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

// A request that was read when the server closed is told so. Seen from inside,
// as the connection is closed a moment later.
func TestRefusedAfterClose(t *testing.T) {
	s, err := NewServer(Config{Token: "t", Handler: func(context.Context, Call) json.RawMessage {
		t.Error("dispatched")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	client, server := net.Pipe()
	defer client.Close()
	c := newConn(s, server)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	go c.admit([]byte(`{"id":5,"token":"t","tool":"x"}`))
	buf := make([]byte, 1000)
	n, _ := client.Read(buf)
	if want := `{"id":5,"error":{"code":"closed","message":"` + closedMessage + `"}}` + "\n"; string(buf[:n]) != want {
		t.Errorf("got %s", buf[:n])
	}
}

// Close does not wait for a handler that ignores its context for ever.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		s, err := NewServer(Config{Token: "t", PeerUID: AnyPeer, Handler: func(context.Context, Call) json.RawMessage {
			<-release
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := &pipeListener{conns: make(chan net.Conn)}
		go s.Serve(l)
		client, server := net.Pipe()
		l.conns <- server
		client.Write([]byte(`{"id":1,"token":"t","tool":"x"}` + "\n"))
		synctest.Wait()
		begin := time.Now()
		err = s.Close()
		if took := time.Since(begin); err == nil || took != closeWait {
			t.Errorf("Close returned %v after %v", err, took)
		}
		if again := s.Close(); again != err {
			t.Errorf("second Close: %v", again)
		}
		close(release)
		client.Close()
	})
}

func TestServeFailsWithItsListener(t *testing.T) {
	s, err := NewServer(Config{Token: "t", Handler: echoArgs})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l := &pipeListener{conns: make(chan net.Conn)}
	l.Close()
	if err := s.Serve(l); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
