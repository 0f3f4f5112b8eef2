package output

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// fill writes s to a window in pieces of random lengths.
func fill(w *Window, rnd *rand.Rand, s string) {
	for s != "" {
		n := min(1+rnd.IntN(1+rnd.IntN(1+rnd.IntN(200_000))), len(s))
		w.Write([]byte(s[:n]))
		s = s[n:]
	}
}

// oracle is Render the slow way: it has kept the whole stream. Up to a margin
// around the cuts it must agree with Window to the byte; it strips and redacts
// the same two stretches when the middle is far.
func oracle(r *Redactor, s string, head, tail int) (string, bool) {
	if len(s) <= head+tail {
		return r.Redact(StripANSI(s)), false
	}
	cut, resume := head, len(s)-tail
	for cut > 0 && splits(s, cut) {
		cut--
	}
	for resume < len(s) && splits(s, resume) {
		resume++
	}
	front, back, base := s, s, 0
	if len(s) > head+tail+2*margin {
		front, base = s[:head+margin], len(s)-tail-margin
		back = s[base:]
	}
	show := func(s string, from, to int) string {
		text, at := strip(s, from, to)
		var b strings.Builder
		i := at[0]
		for _, sp := range r.spans(text) {
			if sp.end <= i || sp.start >= at[1] {
				continue
			}
			if sp.start < i && base == 0 && from > 0 && sp.start < cut {
				i = sp.end // shown with the head
				continue
			}
			b.WriteString(text[min(i, max(i, sp.start)):max(i, sp.start)] + sp.mask)
			i = sp.end
		}
		return b.String() + text[min(i, at[1]):at[1]]
	}
	omitted := len(s) - cut - (len(s) - resume)
	return show(front, 0, cut) + fmt.Sprintf("\n\n... [OUTPUT TRUNCATED - %s bytes omitted out of %s total] ...\n\n",
		thousands(omitted), thousands(len(s))) + show(back, resume-base, len(back)), true
}

// splits says whether a cut at i falls into a valid character.
func splits(s string, i int) bool {
	for at := range s { // range steps by valid characters and single bytes
		if at == i {
			return false
		}
		if at > i {
			return true
		}
	}
	return false
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

func TestWindowOracle(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		head, tail := rnd.IntN(300), rnd.IntN(300)
		n := rnd.IntN(1500)
		if seed%8 == 0 {
			n = head + tail + 2*margin + rnd.IntN(3000) - 1000
		}
		s := soup(rnd, n)
		r := NewRedactor()
		if seed%5 == 0 {
			r = nil
		}
		w := NewWindow(head, tail)
		fill(w, rnd, s)
		got, truncated := w.Render(r)
		want, wantTruncated := oracle(r, s, head, tail)
		if got != want || truncated != wantTruncated {
			t.Fatalf("seed %d, %d bytes, %d+%d: %s", seed, len(s), head, tail, firstDiff(got, want))
		}
		if !utf8.ValidString(got) {
			t.Fatalf("seed %d: not valid UTF-8", seed)
		}
		if w.Total() != int64(len(s)) {
			t.Fatalf("seed %d: Total = %d, want %d", seed, w.Total(), len(s))
		}
	}
}

// TestWindowExact is W2 of the reference: of 50,001 bytes it kept 49,520.
func TestWindowExact(t *testing.T) {
	const wrong = 49_520
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		total, kept int
		notice      string
	}{
		{0, 0, ""},
		{49_999, 49_999, ""},
		{50_000, 50_000, ""},
		{50_001, 50_000, "\n\n... [OUTPUT TRUNCATED - 1 bytes omitted out of 50,001 total] ...\n\n"},
		{65_536, 50_000, "\n\n... [OUTPUT TRUNCATED - 15,536 bytes omitted out of 65,536 total] ...\n\n"},
		{1_234_567, 50_000, "\n\n... [OUTPUT TRUNCATED - 1,184,567 bytes omitted out of 1,234,567 total] ...\n\n"},
	} {
		var b strings.Builder
		for b.Len() < c.total {
			fmt.Fprintf(&b, "line %d\n", b.Len())
		}
		s := b.String()[:c.total]
		w := NewWindow(20_000, 30_000)
		fill(w, rnd, s)
		got, truncated := w.Render(NewRedactor())
		kept := len(got) - len(c.notice)
		if kept == wrong {
			t.Errorf("%d bytes: %d kept, the reference's wrong number", c.total, wrong)
		}
		want := s
		if c.notice != "" {
			want = s[:20_000] + c.notice + s[len(s)-30_000:]
		}
		if got != want || truncated != (c.notice != "") {
			t.Errorf("%d bytes: kept %d, want %d; truncated %v", c.total, kept, c.kept, truncated)
		}
	}
}

// TestWindowCountsBytes is W3: of a line of 15,001 emoji, 60,004 bytes, the
// reference says that 48,192 chars of 60,001 were omitted, and halves an emoji
// at each edge.
func TestWindowCountsBytes(t *testing.T) {
	const wrong = "48,192 chars omitted out of 60,001"
	for shift := range 4 {
		s := strings.Repeat("a", shift) + strings.Repeat("🐍", 15_000)
		w := NewWindow(20_000, 30_000)
		fill(w, rand.New(rand.NewPCG(1, uint64(shift))), s)
		got, _ := w.Render(nil)
		if strings.Contains(got, wrong) || strings.Contains(got, "chars omitted") {
			t.Error("the notice has the reference's wrong numbers")
		}
		if strings.Contains(got, "\uFFFD") {
			t.Errorf("shift %d: a character was cut in two", shift)
		}
		head, rest, _ := strings.Cut(got, "\n\n... [OUTPUT TRUNCATED - ")
		numbers, tail, _ := strings.Cut(rest, " total] ...\n\n")
		want := fmt.Sprintf("%s bytes omitted out of %s", thousands(len(s)-len(head)-len(tail)), thousands(len(s)))
		if numbers != want || len(head) <= 20_000-4 || len(tail) <= 30_000-4 || len(head) > 20_000 || len(tail) > 30_000 {
			t.Errorf("shift %d: %q with %d and %d bytes, want %q", shift, numbers, len(head), len(tail), want)
		}
	}
}

// TestWindowNoLeakAtCuts is S10: the reference cuts, then redacts, and prints
// what is left of a secret without its prefix. Here a secret is put at every
// offset around both cuts, whole and split by colours.
func TestWindowNoLeakAtCuts(t *testing.T) {
	const head, tail = 2000, 3000
	secretBody := "Zq7Xw3Vt9Rb5Np1Lk8Hf4Dd6Sa2Yu0Ie" // nothing like it in the filler
	colours := ""
	for i := 0; i < len(secretBody); i += 5 {
		colours += "\x1b[3" + fmt.Sprint(i%8) + "m" + secretBody[i:min(i+5, len(secretBody))] + "\x1b[0m"
	}
	filler := strings.Repeat("some words of a log, in lines\n", 3000)
	for name, secret := range map[string]string{
		"plain":   " sk-" + secretBody + " ",
		"split":   " sk-" + colours + " ",
		"named":   "\nMY_SECRET_TOKEN=" + secretBody + "\n",
		"json":    `{"api_key": "` + secretBody + `"}`,
		"dsn":     " postgres://me:" + secretBody + "@host/db ",
		"key":     "\n-----BEGIN PRIVATE KEY-----\n" + secretBody + secretBody + "\n" + secretBody + "\n-----END PRIVATE KEY-----\n",
		"bearer":  "\nAuthorization: Bearer " + secretBody + "\n",
		"nothing": " sk-" + secretBody[:5] + " ",
	} {
		for _, total := range []int{head + tail + 40, 60_000} {
			leaked := 0
			for _, cut := range []int{head, total - tail} {
				for at := cut - len(secret) - 3; at < cut+3; at++ {
					s := filler[:at] + secret + filler[at:total-len(secret)]
					w := NewWindow(head, tail)
					w.Write([]byte(s))
					got, truncated := w.Render(NewRedactor())
					if !truncated {
						t.Fatal("nothing was cut")
					}
					assertNoPart(t, got, secretBody, 8)

					// What the reference does must leak, or this test shows nothing.
					wrong := NewRedactor().Redact(StripANSI(s[:head])) + NewRedactor().Redact(StripANSI(s[len(s)-tail:]))
					for i := 0; i+8 <= len(secretBody); i++ {
						if strings.Contains(wrong, secretBody[i:i+8]) {
							leaked++
							break
						}
					}
				}
			}
			if leaked == 0 && name != "nothing" {
				t.Errorf("%s: cutting first leaks nothing: the test is blind", name)
			}
		}
	}
}

func TestWindowBytes(t *testing.T) {
	w := NewWindow(100, 100)
	w.Write([]byte("a\x00b\r\n\xff\x1b[31mred\x1b[0m \xe4\xb8"))
	got, truncated := w.Render(NewRedactor())
	if want := "a\x00b\r\n\uFFFDred \uFFFD\uFFFD"; got != want || truncated {
		t.Errorf("got %q, %v; want %q", got, truncated, want)
	}
	j, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(j, &back); err != nil || back != got {
		t.Errorf("through JSON it is %q, %v", back, err)
	}
}

func TestWindowEdges(t *testing.T) {
	for _, c := range []struct{ head, tail int }{{0, 0}, {-1, -5}, {0, 5}, {5, 0}} {
		w := NewWindow(c.head, c.tail)
		if got, truncated := w.Render(nil); got != "" || truncated {
			t.Errorf("%v, empty: %q, %v", c, got, truncated)
		}
		w.Write([]byte("0123456789"))
		head, tail := max(c.head, 0), max(c.tail, 0)
		want := fmt.Sprintf("%s\n\n... [OUTPUT TRUNCATED - %d bytes omitted out of 10 total] ...\n\n%s",
			"0123456789"[:head], 10-head-tail, "0123456789"[10-tail:])
		if got, truncated := w.Render(nil); got != want || !truncated {
			t.Errorf("%v: %q, %v; want %q", c, got, truncated, want)
		}
	}
}

// TestWindowFlat: what a window keeps does not grow with what it is given.
func TestWindowFlat(t *testing.T) {
	w := NewWindow(20_000, 30_000)
	p := make([]byte, 64<<10)
	for range 200 {
		w.Write(p)
		w.Write(p[:1000])
	}
	if n := cap(w.first) + cap(w.ring); n > 3*(50_000+2*margin) {
		t.Errorf("the window holds %d bytes", n)
	}
	if allocs := testing.AllocsPerRun(10, func() { w.Write(p) }); allocs > 0 {
		t.Errorf("a write allocates %v times", allocs)
	}
}

func FuzzWindow(f *testing.F) {
	for i, s := range samples {
		f.Add(s, uint16(i*7), uint16(i*3), uint64(i), uint16(i*2000))
	}
	f.Fuzz(func(t *testing.T, s string, head, tail uint16, seed uint64, pad uint16) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		h, l := int(head%2000), int(tail%2000)
		text := s + soup(rnd, int(pad)) + s
		w := NewWindow(h, l)
		fill(w, rnd, text)
		got, truncated := w.Render(NewRedactor())
		want, wantTruncated := oracle(NewRedactor(), text, h, l)
		if got != want || truncated != wantTruncated {
			t.Fatalf("%q, %d+%d: %s", text, h, l, firstDiff(got, want))
		}
		if !utf8.ValidString(got) {
			t.Fatal("not valid UTF-8")
		}
	})
}
