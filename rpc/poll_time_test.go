package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shelf is a Dir whose clock is that of the test: it takes as long as is set.
type shelf struct {
	mu     sync.Mutex
	files  map[string]string
	lists  []time.Time
	beats  []time.Time
	takes  time.Duration // a listing
	broken error
}

func (s *shelf) List(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	s.lists = append(s.lists, time.Now())
	takes := s.takes
	s.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.files {
		names = append(names, name)
	}
	return names, s.broken
}

func (s *shelf) Read(_ context.Context, name string, max int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.files[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text[:min(len(text), max)]), s.broken
}

func (s *shelf) Write(_ context.Context, name string, content io.WriterTo) error {
	var b strings.Builder
	content.WriteTo(&b)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return s.broken
	}
	s.files[name] = b.String()
	if name == beatName {
		s.beats = append(s.beats, time.Now())
	}
	return nil
}

func (s *shelf) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
}

// since lists when listings were made, after a moment, in a form to compare.
func (s *shelf) since(from time.Time) (all []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.lists {
		if at.After(from) {
			all = append(all, at.Sub(from))
		}
	}
	return all
}

// onShelf runs a test in a bubble with a service of a shelf.
func onShelf(t *testing.T, handler Handler, fn func(t *testing.T, s *Server, dir *shelf, ended <-chan error)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(Config{Token: "t", Handler: handler})
		if err != nil {
			t.Fatal(err)
		}
		dir := &shelf{files: map[string]string{}}
		ended := make(chan error, 1)
		go func() { ended <- s.ServePoll(t.Context(), dir) }()
		synctest.Wait()
		fn(t, s, dir, ended)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// While calls flow the directory is looked at often, later seldom.
func TestPollIntervals(t *testing.T) {
	onShelf(t, echoArgs, func(t *testing.T, s *Server, dir *shelf, ended <-chan error) {
		start := time.Now()
		time.Sleep(10 * time.Minute)
		idle := dir.since(start)
		last := len(idle) - 1
		if per := idle[last] - idle[last-1]; per != slowPoll {
			t.Errorf("at rest every %v", per)
		}
		if n := len(dir.since(start.Add(5 * time.Minute))); n != int(5*time.Minute/slowPoll) && n != int(5*time.Minute/slowPoll)-1 {
			t.Errorf("%d listings in five minutes of rest", n)
		}
		for i := 1; i < len(idle); i++ { // slower and slower
			if a, b := idle[i]-idle[i-1], fastPoll; a < b || i > 1 && a < idle[i-1]-idle[i-2] {
				t.Fatalf("listings after %v", idle[:i+1])
			}
		}
		if early := len(dir.since(start)) - len(dir.since(start.Add(100*time.Millisecond))); early < 20 || early > 100 {
			t.Errorf("%d listings in the first 100 ms", early)
		}

		asked := time.Now()
		dir.set(func() { dir.files["req-"+"00000000000000aa-1"] = `{"id":1,"token":"t","tool":"x"}` + "\n" })
		time.Sleep(slowPoll + 10*fastPoll)
		synctest.Wait()
		var answer string
		dir.set(func() { answer = dir.files["res-00000000000000aa-1"] })
		if answer != `{"id":1,"result":null}`+"\n" {
			t.Errorf("got %q", answer)
		}
		if fast := dir.since(asked); len(fast) < 5 || fast[2]-fast[1] > 2*fastPoll {
			t.Errorf("listings after a call: %v", fast)
		}

		// Where listing takes long, it is not all that is done.
		dir.set(func() { dir.takes = 300 * time.Millisecond })
		time.Sleep(time.Minute)
		far := time.Now()
		time.Sleep(time.Minute)
		if n := len(dir.since(far)); n != 100 {
			t.Errorf("%d slow listings in a minute", n)
		}

		// A sign of life every five seconds, whatever else happens.
		dir.mu.Lock()
		defer dir.mu.Unlock()
		for i := 1; i < len(dir.beats); i++ {
			if per := dir.beats[i].Sub(dir.beats[i-1]); per != beatEvery {
				t.Errorf("a sign of life after %v", per)
			}
		}
		if lasted := time.Since(start); len(dir.beats) < int(lasted/beatEvery) {
			t.Errorf("%d signs of life in %v", len(dir.beats), lasted)
		}
		if want := `{"beat":1,"dead_after":30}` + "\n"; !strings.HasSuffix(dir.files["engine"], `,"dead_after":30}`+"\n") {
			t.Errorf("it is %q, want as %q", dir.files["engine"], want)
		}
	})
}

// A call that took long is answered and followed by fast looks again.
func TestPollIsFastAfterALongCall(t *testing.T) {
	long := func(context.Context, Call) json.RawMessage {
		time.Sleep(time.Hour)
		return json.RawMessage(`{}`)
	}
	onShelf(t, long, func(t *testing.T, s *Server, dir *shelf, ended <-chan error) {
		dir.set(func() { dir.files["req-00000000000000aa-1"] = `{"id":1,"token":"t","tool":"x"}` + "\n" })
		time.Sleep(time.Hour + time.Second)
		var answered time.Duration
		looks := dir.since(time.Now().Add(-time.Second - slowPoll))
		for i := 1; i < len(looks); i++ {
			if looks[i]-looks[i-1] == fastPoll {
				answered = looks[i]
				break
			}
		}
		if answered == 0 {
			t.Errorf("looks: %v", looks)
		}
	})
}

// A directory that fails for a while is forgiven, one that fails for as long as
// clients believe in the engine is not.
func TestPollFailures(t *testing.T) {
	broken := errors.New("connection broken")
	onShelf(t, echoArgs, func(t *testing.T, s *Server, dir *shelf, ended <-chan error) {
		for range 5 {
			dir.set(func() { dir.broken = broken })
			time.Sleep(deadAfter - beatEvery - time.Second)
			dir.set(func() { dir.broken = nil })
			time.Sleep(2 * beatEvery)
		}
		select {
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		default:
		}
		dir.set(func() { dir.broken = broken })
		begin := time.Now()
		err := <-ended
		if took := time.Since(begin); !errors.Is(err, broken) || took > deadAfter+beatEvery || took < deadAfter-beatEvery {
			t.Errorf("ended after %v: %v", took, err)
		}
	})
	// One that hangs is not waited for for ever, nor is its first file.
	onShelf(t, echoArgs, func(t *testing.T, s *Server, dir *shelf, ended <-chan error) {
		dir.set(func() { dir.takes = time.Hour })
		begin := time.Now()
		err := <-ended
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > deadAfter+2*opTimeout {
			t.Errorf("ended after %v: %v", took, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(Config{Token: "t", Handler: echoArgs})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.ServePoll(t.Context(), &shelf{broken: broken}); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	})
}

// The end of the context is one too, and its cause the error.
func TestPollEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := NewServer(Config{Token: "t", Handler: echoArgs})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		time.AfterFunc(time.Minute, func() { cancel(enough) })
		dir := &shelf{files: map[string]string{}}
		if err := s.ServePoll(ctx, dir); !errors.Is(err, enough) {
			t.Errorf("got %v", err)
		}
		if got := dir.files["engine"]; !strings.Contains(got, `"closed":"enough"`) {
			t.Errorf("last word %q", got)
		}
	})
}

// A window agrees with one that never forgets, as far as it promises.
func FuzzWindow(f *testing.F) {
	f.Add([]byte{1, 2, 3, 3, 2, 1})
	f.Add([]byte{255, 0, 255, 1, 255, 254, 128, 7})
	f.Fuzz(func(t *testing.T, steps []byte) {
		w, seen, top := window{}, map[uint64]bool{}, uint64(0)
		for i, step := range steps {
			id := top + uint64(step)*uint64(i%5)/2 + 1 // ahead by up to two windows
			if back := uint64(step) * 3 / 2; i%3 == 0 && back < top {
				id = top - back // behind by up to one and a half
			}
			want := seen[id] || id <= top && top-id >= windowSize
			if got := w.taken(id); got != want {
				t.Fatalf("step %d: id %d of %d: taken %v, want %v", i, id, top, got, want)
			}
			if !want {
				w.take(id)
				seen[id] = true
				top = max(top, id)
			}
			if !w.taken(id) {
				t.Fatalf("step %d: id %d can be taken again", i, id)
			}
		}
	})
}

// A name stands for one call, and a call has one name.
func FuzzRequestName(f *testing.F) {
	for _, name := range []string{"req-0123456789abcdef-1", "req-0123456789abcdef-9007199254740992", "req-0123456789abcdef-01", "req-0123456789ABCDEF-1", "res-0123456789abcdef-1", "req-+123456789abcdef-1", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		n, ok := parseRequestName(name)
		if ok && (requestName+n.String() != name || n.id < 1 || n.id > maxID) {
			t.Fatalf("%q is %q", name, fmt.Sprint(n))
		}
	})
}
