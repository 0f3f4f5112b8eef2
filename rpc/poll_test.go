//go:build unix

package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestPollCall(t *testing.T) {
	t.Parallel()
	s := servePoll(t, Config{Handler: echoArgs}, nil)
	if got := s.call(t, clientA, 1, "x", `{"value":[1]}`); got != `{"id":1,"result":[1]}` {
		t.Errorf("got %s", got)
	}
	for _, c := range []struct{ name, request, want string }{
		{"wrong token", `{"id":2,"token":"x","tool":"x"}` + "\n", `{"id":2,"error":{"code":"unauthorized","message":"missing or wrong token"}}`},
		{"no token", `{"id":2,"tool":"x"}` + "\n", `{"id":2,"error":{"code":"unauthorized","message":"missing or wrong token"}}`},
		{"nothing", "", `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: not one line"}}`},
		{"blank", "\n", `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: unexpected end at byte 0"}}`},
		{"cut", strings.TrimSuffix(s.request(2, "x", "{}"), "\n"), `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: not one line"}}`},
		{"two", s.request(2, "x", "{}") + s.request(3, "x", "{}"), `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: not one line"}}`},
		{"binary", "\x00\xff\n", `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: invalid UTF-8 at byte 1"}}`},
		{"another id", s.request(3, "x", "{}"), `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: id is not that of the file's name"}}`},
		{"a fault", s.request(2, "x", "[]"), `{"id":2,"error":{"code":"invalid","message":"Invalid RPC request: args is not an object"}}`},
	} {
		client := fmt.Sprintf("%016x", rand.Uint64())
		s.put(t, "req-"+client+"-2", c.request)
		if got := s.answer(t, "res-"+client+"-2"); got != c.want+"\n" {
			t.Errorf("%s: got %s", c.name, got)
		}
	}
	info, err := os.Stat(filepath.Join(s.folder.path, "engine"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := returned(t, s.ended); err != nil {
		t.Error(err)
	}
	beat := s.answer(t, "engine")
	var told struct{ Closed string }
	if err := json.Unmarshal([]byte(beat), &told); err != nil || told.Closed != closedMessage {
		t.Errorf("%v: %s", err, beat)
	}
	if err := s.ServePoll(t.Context(), s.folder); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// A call is made once, however often and in whatever guise its request comes
// back. In the reference a request that could not be answered was executed
// again with each poll: a file was written 18 times in 6 s.
func TestPollAtMostOnce(t *testing.T) {
	t.Parallel()
	clients, each := 8, 100
	if testing.Short() {
		each = 20
	}
	var mu sync.Mutex
	made := map[string]int{}
	s := servePoll(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage {
		mu.Lock()
		defer mu.Unlock()
		made[string(c.Args)]++
		return json.RawMessage(`{"ok":true}`)
	}}, nil)
	var all, again sync.WaitGroup
	for client := range clients {
		name := func(kind string, id int) string { return fmt.Sprintf("%s-%016x-%d", kind, client, id) }
		request := func(id int) string { return s.request(id, "x", fmt.Sprintf(`{"of":"%d.%d"}`, client, id)) }
		done := make(chan int, each)
		all.Go(func() {
			for id := 1; id <= each; id++ {
				s.put(t, name("req", id), request(id))
				if got := s.answer(t, name("res", id)); got != fmt.Sprintf(`{"id":%d,"result":{"ok":true}}`+"\n", id) {
					t.Errorf("got %s", got)
				}
				s.remove(t, name("req", id))
				s.remove(t, name("res", id))
				done <- id
			}
			close(done)
		})
		again.Go(func() { // what was answered comes back, and goes, and comes
			var old []int
			for id := range done {
				old = append(old, id)
				for range 3 {
					id := old[rand.IntN(len(old))]
					s.put(t, name("req", id), request(id))
					if rand.IntN(2) == 0 {
						s.remove(t, name("req", id))
					}
				}
			}
		})
	}
	all.Wait()
	again.Wait()
	if t.Failed() {
		return
	}
	s.call(t, clientA, 1, "x", `{}`) // the last that came back have been looked at
	s.call(t, clientA, 2, "x", `{"of":"end"}`)
	mu.Lock()
	defer mu.Unlock()
	if len(made) != clients*each+2 {
		t.Errorf("%d calls made, want %d", len(made), clients*each+2)
	}
	for of, n := range made {
		if n != 1 {
			t.Errorf("%s was made %d times", of, n)
		}
	}
}

// An answer of any size is delivered once, and one that cannot be is said so.
func TestPollUndeliverable(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	big := json.RawMessage(`"` + strings.Repeat("x", 5<<20) + `"`)
	full := func(p *poll) { p.dir = smallDisk{p.dir} }
	s := servePoll(t, Config{Handler: func(_ context.Context, c Call) json.RawMessage { made.Add(1); return big }}, full)
	want := `{"id":1,"result":{"error":"the answer of 5242882 bytes could not be delivered: write answer: no space left on device"}}`
	if got := s.call(t, clientA, 1, "x", "{}"); got != want {
		t.Errorf("got %.200s", got)
	}
	s.call(t, clientA, 2, "x", "{}")
	if made.Load() != 2 {
		t.Errorf("made %d times", made.Load())
	}
	s.left(t, "engine")
	// Where nothing at all can be written, clients must not wait for ever.
	if err := os.MkdirAll(filepath.Join(s.folder.path, "res-"+clientA+"-3", "taken"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.put(t, "req-"+clientA+"-3", s.request(3, "x", "{}"))
	if err := returned(t, s.ended); err == nil || !strings.Contains(err.Error(), "write answer") {
		t.Errorf("got %v", err)
	}
	if beat := s.answer(t, "engine"); !strings.Contains(beat, `"closed":"rpc: poll: write answer`) {
		t.Errorf("got %s", beat)
	}
}

// smallDisk has no space for large files.
type smallDisk struct{ Dir }

func (d smallDisk) Write(ctx context.Context, name string, content io.WriterTo) error {
	var b bytes.Buffer
	content.WriteTo(&b)
	if b.Len() > 1<<20 {
		return syscall.ENOSPC
	}
	return d.Dir.Write(ctx, name, &b)
}

// What may lie in the directory disturbs no call, and costs little.
func TestPollHostileDirectory(t *testing.T) {
	t.Parallel()
	var made atomic.Int64
	s := servePoll(t, Config{MaxFrame: 1 << 20, Handler: func(ctx context.Context, c Call) json.RawMessage {
		made.Add(1)
		return echoArgs(ctx, c)
	}}, nil)
	at := func(name string) string { return filepath.Join(s.folder.path, name) }
	elsewhere := filepath.Join(shortDir(t), "request")
	if err := os.WriteFile(elsewhere, []byte(s.request(2, "x", "{}")), 0o600); err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	id := func(n int) string { return fmt.Sprintf("%s-%d", clientB, n) }
	must(syscall.Mkfifo(at("req-"+id(1)), 0o600))
	must(os.Symlink(elsewhere, at("req-"+id(2))))
	must(os.Mkdir(at("req-"+id(3)), 0o700))
	must(os.Symlink("/dev/zero", at("req-"+id(4))))
	must(os.Symlink("req-"+id(5), at("req-"+id(5))))
	huge, err := os.Create(at("huge"))
	must(err)
	must(huge.Truncate(1 << 40))
	must(huge.Close())
	must(os.Rename(at("huge"), at("req-"+id(6))))
	l, err := net.Listen("unix", at("req-"+id(7)))
	must(err)
	defer l.Close()
	must(os.WriteFile(at("engine-x"), nil, 0o600))
	outside := filepath.Join(shortDir(t), "outside")
	must(os.WriteFile(outside, []byte("untouched"), 0o600))
	must(os.Symlink(outside, at("res-"+clientA+"-1")))
	for _, junk := range []string{
		"req-", "req-1", "req-" + clientA, "req-" + clientA + "-", "req-" + clientA + "-0", "req-" + clientA + "-01",
		"req-" + clientA + "--1", "req-" + clientA + "-1 ", "req-" + clientA + "-9007199254740993", "req-" + clientA + "-18446744073709551617",
		"req-" + strings.ToUpper(clientB) + "-1", "req-0" + clientA + "-1", "Req-" + clientA + "-1", "res-" + clientA + "-77",
		"\xff\xfe\n\r", strings.Repeat("x", 255), "req-" + strings.Repeat("1", 200), "$(touch x)", "-rf",
	} {
		must(os.WriteFile(at(junk), []byte(s.request(1, "x", "{}")), 0o600))
	}
	for n, want := range []string{"invalid", "invalid", "invalid", "invalid", "invalid", "too_large", "invalid"} {
		if got := s.answer(t, "res-"+id(n+1)); !strings.HasPrefix(got, fmt.Sprintf(`{"id":%d,"error":{"code":"%s"`, n+1, want)) {
			t.Errorf("%d: got %s", n+1, got)
		}
	}
	if made.Load() != 0 {
		t.Errorf("%d calls made", made.Load())
	}
	s.put(t, "req-"+clientA+"-1", s.request(1, "x", `{"value":"still served"}`))
	eventually(t, "the link is replaced", func() bool {
		info, err := os.Lstat(at("res-" + clientA + "-1"))
		return err == nil && info.Mode().IsRegular()
	})
	if got := s.answer(t, "res-"+clientA+"-1"); got != `{"id":1,"result":"still served"}`+"\n" {
		t.Errorf("got %s", got)
	}
	if raw, err := os.ReadFile(outside); err != nil || string(raw) != "untouched" {
		t.Errorf("%v: %s", err, raw)
	}
}

// Too many files end the service, and it says so.
func TestPollTooManyFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("65,537 files")
	}
	t.Parallel()
	s := servePoll(t, Config{Handler: echoArgs}, func(p *poll) {
		f := p.dir.(folder)
		for i := range maxEntries + 1 {
			from, name := filepath.Join(f.path, fmt.Sprint("junk", i-i%50_000)), filepath.Join(f.path, fmt.Sprint("junk", i))
			err := os.Link(from, name) // as a file may have 65 000 names
			if from == name {
				err = os.WriteFile(name, nil, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	err := returned(t, s.ended)
	if err == nil || !strings.Contains(err.Error(), "more than 65536 files") {
		t.Fatalf("got %v", err)
	}
	if beat := s.answer(t, "engine"); !strings.Contains(beat, `"closed":"rpc: poll: more than 65536 files`) {
		t.Errorf("got %s", beat)
	}
}

// Frames are bounded to the byte.
func TestPollExactCaps(t *testing.T) {
	t.Parallel()
	for _, max := range []int{leastFrame, freeBuffer - 1, freeBuffer, freeBuffer + 1, 1 << 20} {
		s := servePoll(t, Config{MaxFrame: max, Handler: echoArgs}, nil)
		empty := len(s.request(1, "x", `{"value":""}`))
		for more, want := range map[int]string{0: `"result":"`, 1: `"code":"too_large","message":"request exceeds the frame limit of ` + fmt.Sprint(max) + ` bytes"`} {
			// The answer is shorter than the request: it has no token.
			got := s.call(t, clientA, 1+more, "x", `{"value":"`+strings.Repeat("x", max-empty+more)+`"}`)
			if !strings.Contains(got, want) {
				t.Errorf("%d and %d: got %.100s", max, more, got)
			}
		}
		room := max - envelopeSize
		got := s.call(t, clientA, 5, "x", `{"value":1}`)
		if got != `{"id":5,"result":1}` {
			t.Errorf("got %s", got)
		}
		for end := time.Now().Add(bound); len(s.big) != 0; time.Sleep(time.Millisecond) { // given back after the answer
			if time.Now().After(end) {
				t.Fatalf("%d places taken", len(s.big))
			}
		}
		large := servePoll(t, Config{MaxFrame: max, Handler: func(_ context.Context, c Call) json.RawMessage {
			return json.RawMessage(`"` + strings.Repeat("x", room-2+int(c.ID)) + `"`)
		}}, nil)
		if got := large.call(t, clientA, 1, "x", "{}"); !strings.Contains(got, "exceeds the frame limit of "+fmt.Sprint(room)) {
			t.Errorf("got %.100s", got)
		}
	}
}

// A client that takes its request away has hung up.
func TestPollTakenBack(t *testing.T) {
	t.Parallel()
	began, gone := make(chan struct{}), make(chan error, 1)
	s := servePoll(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		close(began)
		<-ctx.Done()
		gone <- context.Cause(ctx)
		return json.RawMessage(`"late"`)
	}}, nil)
	s.put(t, "req-"+clientA+"-1", s.request(1, "x", "{}"))
	within(t, "call begins", began)
	s.remove(t, "req-"+clientA+"-1")
	select {
	case err := <-gone:
		if !errors.Is(err, errGone) {
			t.Errorf("cause %v", err)
		}
	case <-time.After(bound):
		t.Fatal("not cancelled")
	}
	eventually(t, "nothing is at work", func() bool { return len(s.room.waiting) == 0 && idle(s.room) })
	s.left(t, "engine") // no answer either
}

func idle(r *room) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held == 0 && r.running == 0
}

// As many calls are at work at once as may be, others wait as files.
func TestPollManyAtOnce(t *testing.T) {
	t.Parallel()
	const most, all = 64, 200
	release := make(chan struct{})
	var now, peak atomic.Int64
	var p *poll
	s := servePoll(t, Config{Handler: func(context.Context, Call) json.RawMessage {
		raise(&peak, now.Add(1))
		defer now.Add(-1)
		<-release
		return json.RawMessage(`{}`)
	}}, func(made *poll) { p = made })
	for i := range all {
		s.put(t, fmt.Sprintf("req-%016x-1", i), s.request(1, "x", "{}"))
	}
	eventually(t, "as many as may be at once", func() bool { return now.Load() == most && len(p.slots) == most })
	close(release)
	for i := range all {
		if got := s.answer(t, fmt.Sprintf("res-%016x-1", i)); got != `{"id":1,"result":{}}`+"\n" {
			t.Errorf("got %s", got)
		}
	}
	if peak.Load() != most {
		t.Errorf("%d at once", peak.Load())
	}
}

// Close ends the service at once, and cancels what is at work.
func TestPollClose(t *testing.T) {
	t.Parallel()
	began := make(chan struct{})
	var cause error
	s := servePoll(t, Config{Handler: func(ctx context.Context, c Call) json.RawMessage {
		close(began)
		<-ctx.Done()
		cause = context.Cause(ctx)
		return json.RawMessage(`{}`)
	}}, nil)
	s.put(t, "req-"+clientA+"-1", s.request(1, "x", "{}"))
	within(t, "call begins", began)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !errors.Is(cause, ErrClosed) {
		t.Errorf("cause %v", cause)
	}
	if !s.has("engine") || s.has("res-"+clientA+"-1") {
		t.Error("answered after the end, or no last word")
	}
}
