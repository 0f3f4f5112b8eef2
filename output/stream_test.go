package output

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
)

// stream passes s through a RedactWriter in pieces of the lengths that next
// gives, and flushes where it gives 0.
func stream(t testing.TB, s string, next func() int) string {
	t.Helper()
	var out bytes.Buffer
	w := NewRedactor().Writer(&out)
	for s != "" {
		n := min(next(), len(s))
		if n == 0 {
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got, err := w.Write([]byte(s[:n])); got != n || err != nil {
			t.Fatalf("Write = %d, %v; want %d", got, err, n)
		}
		s = s[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestRedactWriterEverySplit(t *testing.T) {
	for _, s := range samples {
		want := NewRedactor().Redact(s)
		if got := stream(t, s, func() int { return 1 }); got != want {
			t.Errorf("byte by byte %q\n got %q\nwant %q", s, got, want)
		}
		for at := 1; at < len(s); at++ {
			first := at
			if got := stream(t, s, func() int { n := first; first = len(s); return n }); got != want {
				t.Fatalf("%q split at %d\n got %q\nwant %q", s, at, got, want)
			}
		}
	}
}

func TestRedactWriterRandom(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := soup(rnd, 3000)
		want := NewRedactor().Redact(s)
		if got := stream(t, s, func() int { return 1 + rnd.IntN(1+rnd.IntN(400)) }); got != want {
			t.Fatalf("seed %d: %s", seed, firstDiff(got, want))
		}
	}
}

func firstDiff(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	return "got  …" + got[from:min(len(got), i+80)] + "…\nwant …" + want[from:min(len(want), i+80)] + "…"
}

// TestRedactWriterLive: what is no part of a secret is not held back.
func TestRedactWriterLive(t *testing.T) {
	for _, c := range []struct{ in, now, flushed string }{
		{"Continue? [Y/n] ", "Continue? [Y/n] ", "Continue? [Y/n] "},
		{"10%...", "10%...", "10%..."},
		{"line\n", "line\n", "line\n"},
		{"Password", "", "Password"},
		{"a\nwaiting", "a\n", "a\nwaiting"},
		{"key sk-abc", "key ", "key "},
		{"API_TOKEN=", "", ""},
		{"-----BEGIN PRIVATE KEY-----\n(.", "-----BEGIN PRIVATE KEY-----\n(.", "-----BEGIN PRIVATE KEY-----\n(."},
		{"-----BEGIN PRIVATE KEY-----\n", "", ""},
		{`{"api_key": "x`, `{"`, `{"`},
	} {
		var out bytes.Buffer
		w := NewRedactor().Writer(&out)
		if _, err := w.Write([]byte(c.in)); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.now {
			t.Errorf("after writing %q there is %q, want %q", c.in, out.String(), c.now)
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.flushed {
			t.Errorf("after flushing %q there is %q, want %q", c.in, out.String(), c.flushed)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if out.String() != c.in {
			t.Errorf("after closing %q there is %q", c.in, out.String())
		}
	}
}

// TestRedactWriterFlushLeaksNothing flushes at every place of a text.
func TestRedactWriterFlushLeaksNothing(t *testing.T) {
	key := "sk-" + body(48)
	for _, s := range []string{"the key " + key + " end\n", "MY_API_TOKEN=" + body(40) + "\n", `{"token": "` + body(40) + `"}`,
		"Authorization: Bearer " + body(40) + "\n", pemKey + "\n", "redis://:" + body(40) + "@h\n"} {
		for at := 1; at < len(s); at++ {
			steps := []int{at, 0, len(s)}
			got := stream(t, s, func() int { n := steps[0]; steps = steps[1:]; return n })
			assertNoPart(t, got, body(48)[10:40], 8)
			assertNoPart(t, got, pemBody, 21)
		}
		flush := false
		got := stream(t, s, func() int { flush = !flush; return map[bool]int{true: 0, false: 1}[flush] })
		assertNoPart(t, got, body(48)[10:40], 8)
	}
}

// assertNoPart fails if n consecutive characters of secret are in s.
func assertNoPart(t testing.TB, s, secret string, n int) {
	t.Helper()
	for i := 0; i+n <= len(secret); i++ {
		if strings.Contains(s, secret[i:i+n]) {
			t.Fatalf("%q of the secret is in %q", secret[i:i+n], s)
		}
	}
}

// TestRedactWriterLong: a secret longer than what is held back is swallowed to
// its end, and words as long do not stop the stream.
func TestRedactWriterLong(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 5))
	for _, c := range []struct{ pre, body, post, want string }{
		{"a sk-", body(300_000), " b", "a sk-aB3...7jK9 b"},
		{"a TOKEN=", body(300_000), " b", "a TOKEN=aB3dE5...7jK9 b"},
		{`{"api_key": "`, body(300_000), `", "x": 1}`, `{"api_key": "aB3dE5...7jK9", "x": 1}`},
		{"-----BEGIN PRIVATE KEY-----\n", strings.Repeat(pemBody[:65], 4000), "-----END PRIVATE KEY-----\nb", "[REDACTED PRIVATE KEY]\nb"},
	} {
		got := stream(t, c.pre+c.body+c.post, func() int { return 1 + rnd.IntN(40_000) })
		assertNoPart(t, got, c.body[10:2000], 21)
		if len(got) > 200 || !strings.HasSuffix(got, c.post[strings.LastIndexAny(c.post, " \n"):]) {
			t.Errorf("%s…: got %q", c.pre, got)
		}
	}
	s := "x" + strings.Repeat("A", 500_000) + " é\n"
	if got := stream(t, s, func() int { return 1 + rnd.IntN(40_000) }); got != s {
		t.Errorf("a long word was changed: %d bytes of %d", len(got), len(s))
	}
}

type failing struct{ left int }

func (f *failing) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errors.New("no room")
	}
	return len(p), nil
}

func TestRedactWriterError(t *testing.T) {
	w := NewRedactor().Writer(&failing{left: 10})
	if _, err := w.Write([]byte("short\n")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it stays failed
		if n, err := w.Write([]byte("longer than ten\n")); n != 0 || err == nil {
			t.Errorf("Write = %d, %v; want 0 and an error", n, err)
		}
	}
	if err := w.Close(); err == nil {
		t.Error("Close hides the error")
	}
	w = NewRedactor().Writer(&failing{left: 10})
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Error("Write after Close passes")
	}
}

func TestRedactWriterOff(t *testing.T) {
	var out bytes.Buffer
	w := (*Redactor)(nil).Writer(&out)
	if _, err := w.Write([]byte("sk-" + body(40))); err != nil || out.String() != "sk-"+body(40) {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := errors.Join(w.Flush(), w.Close()); err != nil {
		t.Error(err)
	}
}

func TestRedactWriterConcurrent(t *testing.T) {
	var out bytes.Buffer
	w := NewRedactor().Writer(&out)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				if _, err := w.Write([]byte("sk-" + body(30) + "\n")); err != nil {
					t.Error(err)
				}
				if err := w.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if want := strings.Repeat(mask("sk-"+body(30))+"\n", 800); out.String() != want {
		t.Errorf("got %d bytes, want %d", out.Len(), len(want))
	}
}

func FuzzRedactWriter(f *testing.F) {
	for i, s := range samples {
		f.Add(s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, s string, seed uint64) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		want := NewRedactor().Redact(s)
		got := stream(t, s, func() int { return 1 + rnd.IntN(1+rnd.IntN(len(s)+1)) })
		if got != want {
			t.Fatalf("%q\n got %q\nwant %q", s, got, want)
		}
	})
}
