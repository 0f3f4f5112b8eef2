package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func always(string) bool { return true }

// patient makes a queue wait for ever, so that a slow machine changes nothing.
func (r running) patient() running { return r.relentAfter(time.Hour) }

func (r running) relentAfter(least time.Duration) running {
	r.room.mu.Lock()
	defer r.room.mu.Unlock()
	r.room.patience = least
	return r
}

// stalled waits until nothing moves any more: some call waits for room, and
// nobody is at work who could make some.
func (r running) stalled(tb testing.TB) {
	tb.Helper()
	eventually(tb, "calls wait for room", func() bool {
		r.room.mu.Lock()
		defer r.room.mu.Unlock()
		return len(r.room.waiting) > 0 && r.room.running == 0
	})
}

// empty waits until nobody takes any room.
func (r running) empty(tb testing.TB) {
	tb.Helper()
	eventually(tb, "all room is free", func() bool {
		r.room.mu.Lock()
		defer r.room.mu.Unlock()
		return r.room.held == 0 && r.room.running == 0 && r.room.over == 0 && len(r.room.waiting) == 0
	})
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// Whoever reads nothing cannot make the engine hold more answers than the
// bound, and gets all of them when he reads.
func TestUnreadAnswersAreBounded(t *testing.T) {
	const calls = 24
	size := 8 << 20
	if testing.Short() {
		size = 1 << 20
	}
	for name, c := range map[string]struct {
		cfg   Config
		conns int
		most  int // answers that exist at one time
	}{
		"one connection":   {Config{MaxFrame: 2 * size, MaxPending: 9 * size, Bulky: always}, 1, 8},
		"many connections": {Config{MaxFrame: 2 * size, MaxPending: 9 * size, Bulky: always}, calls, 8},
		// Who is not known to be bulky is found out by what he holds.
		"not bulky": {Config{MaxFrame: 2 * size, MaxRunning: 4, MaxPending: 4 * size}, 4, 4 + 4},
	} {
		t.Run(name, func(t *testing.T) {
			var handled atomic.Int64
			c.cfg.Handler = func(_ context.Context, c Call) json.RawMessage {
				handled.Add(1)
				answer := bytes.Repeat([]byte{'0' + byte(c.ID)}, size)
				answer[0], answer[size-1] = '"', '"'
				return answer
			}
			before := heap()
			s := serve(t, c.cfg).patient()
			peers := make([]*peer, c.conns)
			for i := range peers {
				peers[i] = s.peer(t)
			}
			for i := range calls {
				p := peers[i%c.conns]
				p.call(fmt.Sprint(i/c.conns), "x", "{}")
			}
			s.stalled(t)
			if n := handled.Load(); n > int64(c.most) {
				t.Errorf("%d answers wait, want at most %d", n, c.most)
			}
			if grown := heap() - before; grown > c.most*size+size+8<<20 {
				t.Errorf("%d MiB are held for them", grown>>20)
			}
			var all sync.WaitGroup
			for _, p := range peers {
				all.Go(func() {
					for range calls / c.conns {
						readBig(t, p, size)
					}
				})
			}
			all.Wait()
			if n := handled.Load(); n != calls {
				t.Errorf("%d calls handled, want %d", n, calls)
			}
			s.empty(t)
		})
	}
}

// readBig checks one answer of the handler above.
func readBig(t *testing.T, p *peer, size int) {
	line := p.line()
	var id byte
	if _, err := fmt.Sscanf(line, `{"id":%d,"result":`, &id); err != nil {
		t.Errorf("answer %.60q: %v", line, err)
		return
	}
	head := fmt.Sprintf(`{"id":%d,"result":"`, id)
	filling := strings.TrimSuffix(strings.TrimPrefix(line, head), `"}`)
	if len(filling) != size-2 || strings.Count(filling, string('0'+rune(id))) != size-2 {
		t.Errorf("answer %d is damaged: %.60q", id, line)
	}
}

// The arguments of a call are gone when its answer waits.
func TestArgsAreGoneWhenAnswered(t *testing.T) {
	const calls = 12
	size := 12 << 20
	if testing.Short() {
		size = 3 << 20
	}
	var answered atomic.Int64
	result := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	s := serve(t, Config{Handler: func(context.Context, Call) json.RawMessage { answered.Add(1); return result }})
	args := `{"value":"` + strings.Repeat("x", size) + `"}`
	before := heap()
	for i := range calls {
		p := s.peer(t)
		if i%2 == 1 { // not alone: handled by a goroutine of its own
			p.call("1", "x", "{}")
		}
		p.call("2", "x", args)
	}
	eventually(t, "all answered", func() bool { return answered.Load() == calls+calls/2 && len(s.big) == 0 })
	if grown := heap() - before; grown > 2*size+2<<20 {
		t.Errorf("%d MiB are still held", grown>>20)
	}
}

// While calls wait for room the server can close, which cancels them.
func TestCloseWhileWaiting(t *testing.T) {
	var handled atomic.Int64
	result := json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	s := serve(t, Config{MaxPending: 1, Handler: func(context.Context, Call) json.RawMessage {
		handled.Add(1)
		return result
	}}).patient()
	deaf := s.peer(t)
	deaf.call("1", "x", "{}")
	eventually(t, "its answer waits", func() bool { return handled.Load() == 1 })
	for range 10 {
		s.peer(t).call("1", "x", "{}")
	}
	s.stalled(t)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := handled.Load(); n != 1 {
		t.Errorf("%d calls handled", n)
	}
	s.empty(t)
}

// Who hangs up makes room for others.
func TestHangUpMakesRoom(t *testing.T) {
	result := json.RawMessage(`"` + strings.Repeat("x", 8<<20) + `"`)
	s := serve(t, Config{MaxPending: 1, Handler: func(_ context.Context, c Call) json.RawMessage {
		if c.Tool == "big" {
			return result
		}
		return json.RawMessage(`{}`)
	}}).patient()
	deaf, other := s.peer(t), s.peer(t)
	deaf.call("1", "big", "{}")
	eventually(t, "its answer waits", func() bool {
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		return s.room.held > len(result)
	})
	other.call("1", "x", "{}")
	s.stalled(t)
	deaf.nc.Close()
	other.want(`{"id":1,"result":{}}`)
	s.empty(t)
}

// Bulky calls take turns; others pass them.
func TestBulkyTakeTurns(t *testing.T) {
	release := make(chan struct{})
	var now, most atomic.Int64
	s := serve(t, Config{
		MaxFrame: 1 << 20, MaxPending: 3<<20 + 1<<19,
		Bulky: func(tool string) bool { return tool == "bulky" },
		Handler: func(_ context.Context, c Call) json.RawMessage {
			if c.Tool == "bulky" {
				raise(&most, now.Add(1))
				<-release
				now.Add(-1)
			}
			return json.RawMessage(`{}`)
		},
	}).patient()
	var bulky []*peer
	for range 10 {
		p := s.peer(t)
		p.call("1", "bulky", "{}")
		bulky = append(bulky, p)
	}
	eventually(t, "some wait", func() bool {
		s.room.mu.Lock()
		defer s.room.mu.Unlock()
		return len(s.room.waiting) == 7
	})
	other := s.peer(t)
	for range 100 {
		other.call("1", "x", "{}")
		other.want(`{"id":1,"result":{}}`)
	}
	close(release)
	for _, p := range bulky {
		p.want(`{"id":1,"result":{}}`)
	}
	if most.Load() != 3 {
		t.Errorf("%d bulky calls at once, want 3", most.Load())
	}
	s.empty(t)
}

func raise(most *atomic.Int64, n int64) {
	for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
	}
}

// However little room there is, every call is handled once, and no more of them
// at one time than may be.
func TestLittleRoom(t *testing.T) {
	const clients, each = 32, 40
	for name, cfg := range map[string]Config{
		"one byte":    {MaxPending: 1},
		"one at once": {MaxRunning: 1},
		"three":       {MaxRunning: 3},
		"both":        {MaxRunning: 2, MaxPending: 3 * callSize, Bulky: always},
		"some bulky":  {MaxRunning: 4, MaxFrame: leastFrame, MaxPending: 4 * callSize, Bulky: func(tool string) bool { return tool > "5" }},
	} {
		t.Run(name, func(t *testing.T) {
			var handled, now, most atomic.Int64
			cfg.Handler = func(context.Context, Call) json.RawMessage {
				handled.Add(1)
				raise(&most, now.Add(1))
				runtime.Gosched()
				now.Add(-1)
				return json.RawMessage(`1`)
			}
			s := serve(t, cfg)
			var all sync.WaitGroup
			for range clients {
				all.Go(func() {
					p := s.peer(t)
					for i := range each {
						p.call(fmt.Sprint(i), fmt.Sprint(i%10), "{}")
					}
					for range each {
						if line := p.line(); !strings.HasSuffix(line, `"result":1}`) {
							t.Errorf("got %q", line)
							return
						}
					}
				})
			}
			all.Wait()
			if handled.Load() != clients*each {
				t.Errorf("%d calls handled, want %d", handled.Load(), clients*each)
			}
			if bound := int64(s.cfg.MaxRunning); most.Load() > bound {
				t.Errorf("%d handlers at once, bound is %d", most.Load(), bound)
			}
			s.empty(t)
		})
	}
}

// First come, first served, but who needs little passes who needs much; who
// gives up is forgotten.
func TestRoomQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const much = 1 << 20
		r := &room{max: much, most: 2, patience: 1000 * time.Hour}
		first, waited, err := r.enter(t.Context(), much, new(int))
		if err != nil || waited {
			t.Fatal(waited, err)
		}
		var order []string
		begin := func(ctx context.Context, name string, need int) {
			go func() {
				s, _, err := r.enter(ctx, need, new(int))
				if err != nil {
					name += " " + err.Error()
				}
				order = append(order, name) // one at a time, by synctest.Wait or by room for only one
				if err == nil {
					s.answered(100)
					s.leave()
				}
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		begin(t.Context(), "a", much)
		begin(ctx, "b", much)
		begin(t.Context(), "c", much)
		first.answered(much / 2) // who needs much must still wait
		begin(t.Context(), "little", callSize)
		cancel(errors.New("gave up"))
		synctest.Wait()
		first.leave()
		synctest.Wait()
		if got := strings.Join(order, ", "); got != "little, b gave up, a, c" {
			t.Errorf("order: %s", got)
		}
		if r.held != 0 || r.running != 0 || len(r.waiting) != 0 || r.clock.Stop() {
			t.Errorf("left: %d bytes, %d running, %d waiting, or the clock", r.held, r.running, len(r.waiting))
		}
	})
}

// Who waits for long is let in, and who reads nothing at all does not get many
// more answers for it; but as soon as they are read, others wait no longer than
// at first.
func TestRoomStandstill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{max: 1 << 20, most: 64, patience: standstill}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var let []time.Duration
		var stays []*stay
		begin := func() {
			s, _, err := r.enter(ctx, 1<<20, new(int))
			if err != nil {
				return
			}
			let = append(let, time.Since(start))
			stays = append(stays, s)
			s.answered(1 << 20)
		}
		for range 20 {
			go begin()
			synctest.Wait()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if want := "[0s 1s 5s 21s 1m25s 5m41s]"; fmt.Sprint(let) != want {
			t.Errorf("let in after %v, want %v", let, want)
		}
		begun := time.Now()
		for _, s := range stays[2:] { // the first keeps the room full
			s.leave()
		}
		stays, let, start = stays[:2], nil, begun
		time.Sleep(3 * time.Second) // 1 s is over, one still unread: 4 s from now on
		synctest.Wait()
		if len(let) != 0 {
			t.Errorf("let in after %v", let)
		}
		stays[1].leave()
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if want := "[4s]"; fmt.Sprint(let) != want {
			t.Errorf("let in after %v, want %v", let, want)
		}
		cancel()
		synctest.Wait()
		for _, s := range stays {
			s.leave()
		}
		if r.held != 0 || r.running != 0 || r.over != 0 || len(r.waiting) != 0 || r.clock.Stop() {
			t.Errorf("left: %d bytes, %d running, %d over, %d waiting, or the clock", r.held, r.running, r.over, len(r.waiting))
		}
	})
}

// While all who may be at work are, nobody is let in for having waited.
func TestRoomAllAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{max: 1 << 20, most: 1, patience: standstill}
		first, _, _ := r.enter(t.Context(), callSize, new(int))
		in := false
		go func() {
			s, _, _ := r.enter(t.Context(), callSize, new(int))
			in = true
			s.leave()
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		if in {
			t.Error("two at work")
		}
		first.answered(2 << 20) // no room, but that is another matter
		time.Sleep(2 * standstill)
		synctest.Wait()
		if !in {
			t.Error("still waits")
		}
		first.leave()
	})
}

// A call behind unread answers of its own connection is not let in for having
// waited: that would help nobody. It does not keep others from it.
func TestRoomBehindUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &room{max: 1 << 20, most: 64, patience: standstill}
		deaf, other := new(int), new(int)
		first, _, _ := r.enter(t.Context(), callSize, deaf)
		first.answered(2 << 20)
		var in []string
		begin := func(name string, unread *int) {
			go func() {
				s, _, _ := r.enter(t.Context(), callSize, unread)
				in = append(in, name)
				s.answered(100)
				s.leave()
			}()
			synctest.Wait()
		}
		begin("deaf", deaf)
		for range 3 {
			begin("other", other)
		}
		time.Sleep(3*standstill + standstill/2)
		synctest.Wait()
		if got := strings.Join(in, " "); got != "other other other" {
			t.Errorf("in: %q", got)
		}
		first.leave()
		synctest.Wait()
		if len(in) != 4 || *deaf != 0 || *other != 0 || r.held != 0 || r.over != 0 || r.clock.Stop() {
			t.Errorf("left: %v, unread %d and %d, %d bytes, %d over, or the clock", in, *deaf, *other, r.held, r.over)
		}
	})
}

// A script that makes a plain call in the middle of its coroutines stops the
// loop that would read their answers, and is served all the same.
func TestPlainCallAmongCoroutines(t *testing.T) {
	big := page()
	s := serve(t, Config{MaxFrame: 2 << 20, MaxPending: 1 << 20, Bulky: func(tool string) bool { return tool == "page" },
		Handler: func(_ context.Context, c Call) json.RawMessage {
			if c.Tool == "page" {
				return big
			}
			return json.RawMessage(`{"ok":true}`)
		}}).relentAfter(time.Millisecond)
	versions := pythons(t)
	out, err := s.python(t, versions[len(versions)-1].path, `
import asyncio
from hermes_tools import aio, noop, page
async def main():
    tasks = [asyncio.ensure_future(aio.page()) for _ in range(8)]
    size = 0
    for t in tasks:
        size += len((await t)["content"])
        assert noop() == {"ok": True}
        assert len(page()["content"]) * (tasks.index(t) + 1) == size
    print(size)
asyncio.run(main())
`).CombinedOutput()
	var content struct{ Content string }
	if e := json.Unmarshal(big, &content); e != nil {
		t.Fatal(e)
	}
	if want := fmt.Sprintln(8 * len(content.Content)); err != nil || string(out) != want {
		t.Errorf("%v: got %s, want %s", err, out, want)
	}
	s.empty(t)
}
