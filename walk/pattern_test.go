package walk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// oracle says what a pattern means by the standard library. maybe is what it
// may mean besides, since $ also stands before a carriage return.
func oracle(t testing.TB, pattern string, line string) (must, maybe bool) {
	t.Helper()
	re, err := regexp.Compile("(?s:" + pattern + ")")
	if err != nil {
		t.Fatal(err)
	}
	text, cr := strings.CutSuffix(line, "\r")
	return re.MatchString(line), cr && re.MatchString(text)
}

var patterns = []string{
	"needle", "n", "", "^", "$", "^$", "^ +", "a|b", "(foo|bar)baz", `\w+_\w+\(`, `func \w+\(`, `\bfoo\b`, `\Bfoo`, `foo\B`, `o\b.`,
	"(?i)todo", "(?i)straße", "(?i)k", "[^a]$", "^[^x]*$", `\d{2,4}-\d{2}`, "é", "[à-ü]+", ".é.", `\pL+\s\pL`, "日本", "[^ -~]",
	`x*`, `(a|ab)(c|bcd)`, `(?:(?:a{1,3}){1,3}){1,3}b`, `a.*b.*c`, `\x{1F600}`, `^.{3}$`, `^..$`, `(?m)^foo$|bar`, `\Afoo`, `foo\z`,
	`(^|x)foo`, `foo(\b|_)`, `(?:^$|^a)`, `[[:space:]]x`, `\S+\s$`, `"[^"]*"`, `//.*$`, `a$b`, `(a*)*$`, `(?U)a+`, `{}`, `interface{}`,
	`\t`, `\r`, `\.go\b`, `^\s*$`, `..\b`, `\b`, `\B`, `^\B$`,
}

var texts = []string{
	"", "\n", "foo", "foo\n", "\nfoo", "foo\r\n", "a\r\n\r\nb", "\r", "x\r", "foo bar\nbarbaz foo_bar(1)\nneedle\n",
	"func main() {\n\tfmt.Println(\"hi\") // todo\n}\n", "TODO Straße STRASSE ſtraße K k \u212a\n", "é\nàé\n日本語\n😀\n",
	"ab\nabc\nabcd\naaaaab\n", "a.b.c\nabc", "caf\xe9 x\n\xff\xfe\xfd\n", "12-34 1234-56\n", "_foo foo_ foo. .foo\n", "   \n\t\nx\n",
	"interface{} {}\n", strings.Repeat("a", 300) + "\n" + strings.Repeat("xy ", 200), "a\n\n\nb\n\n", "a\n\nb", "\u00e9b\nb\u00e9\n",
}

// lines splits as a search does: no line after the last newline.
func lines(text string) (out []string) {
	for line := range strings.Lines(text) {
		out = append(out, strings.TrimSuffix(line, "\n"))
	}
	return out
}

func check(t testing.TB, pattern string, p *Pattern, text string) {
	t.Helper()
	want := 0
	m := p.matcher()
	defer p.free(m)
	for _, line := range lines(text) {
		got := m.line([]byte(line))
		if got {
			want++
		}
		if !utf8.ValidString(line) {
			continue // the standard library takes such bytes for U+FFFD
		}
		if must, maybe := oracle(t, pattern, line); must && !got || got && !must && !maybe {
			t.Errorf("%q in line %q: got %t, want %t", pattern, line, got, must)
		}
	}
	// All at once must give what line by line gives.
	if got := m.count([]byte(text)); got != want {
		t.Errorf("%q in %q: %d lines, one by one %d", pattern, text, got, want)
	}
}

func TestPatternMeansWhatRegexpMeans(t *testing.T) {
	for _, pattern := range patterns {
		p, err := Compile(pattern)
		if err != nil {
			t.Fatalf("%q: %v", pattern, err)
		}
		for _, text := range texts {
			check(t, pattern, p, text)
		}
	}
}

func FuzzPattern(f *testing.F) {
	f.Add("[ab]{3}|$^", "\r\n\r")
	for i, pattern := range patterns {
		f.Add(pattern, texts[i%len(texts)])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 2000 || strings.ContainsRune(text, '\ufffd') {
			return
		}
		p, err := Compile(pattern)
		if err != nil {
			return
		}
		if strings.Contains(pattern, "(?") || strings.Contains(pattern, `\Q`) {
			p.sums(t, text) // flags do not survive the oracle's wrapping
			return
		}
		check(t, pattern, p, text)
	})
}

// sums only asserts that one by one and all at once agree.
func (p *Pattern) sums(t *testing.T, text string) {
	m := p.matcher()
	defer p.free(m)
	want := 0
	for _, line := range lines(text) {
		if m.line([]byte(line)) {
			want++
		}
	}
	if got := m.count([]byte(text)); got != want {
		t.Errorf("%q: %d lines, one by one %d", text, got, want)
	}
}

func TestPatternRefusals(t *testing.T) {
	for pattern, want := range map[string]string{
		"(":                       "put a backslash before it",
		"*":                       "put a backslash before it",
		"foo(?=bar)":              "look-around",
		"(?<!x)y":                 "look-around",
		"(?>x)":                   "look-around",
		`(a)\1`:                   "backreferences",
		`a\nb`:                    "line by line",
		"a\nb":                    "line by line",
		`\pL{1000}`:               "",
		"\xff":                    "UTF-8",
		strings.Repeat("x", 1e5):  "longer than",
		strings.Repeat("(", 2000): "",
		"((a{100}){100}){100}":    "",
	} {
		_, err := Compile(pattern)
		if !errors.Is(err, ErrPattern) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%.40q: error %v, want one with %q", pattern, err, want)
		}
	}
}

// A pattern with too many states for the table must still answer, in bounded
// memory.
func TestAutomatonForgetsStates(t *testing.T) {
	p, err := Compile("[ab]*a[ab]{17}c")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	random := rand.New(rand.NewPCG(1, 2))
	for range 150_000 {
		text.WriteByte("ab"[random.IntN(2)])
	}
	m := p.matcher()
	if got := m.count(text.Bytes()); got != 0 {
		t.Errorf("%d lines match", got)
	}
	text.WriteString("a" + strings.Repeat("b", 17) + "c")
	if got := m.count(text.Bytes()); got != 1 {
		t.Errorf("%d lines match, want 1", got)
	}
	if d := m.automaton(); len(d.next) > maxTable+1<<d.shift {
		t.Errorf("the table has %d entries", len(d.next))
	} else if d.resets == 0 {
		t.Error("the table was never reset: the test tests nothing")
	}
}

// Even the dearest pattern can be interrupted.
func TestCountCancelled(t *testing.T) {
	p, err := Compile("[ab]*a" + strings.Repeat("[ab]{1000}", 9) + "c")
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "ab"[random.IntN(2)]
	}
	tired := errors.New("tired")
	ctx, stop := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, tired)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		_, err := p.Count(ctx, bytes.NewReader(text))
		ended <- err
	}()
	select {
	case err := <-ended:
		if !errors.Is(err, tired) {
			t.Errorf("error %v", err)
		}
	case <-time.After(20 * time.Second): // to its end it takes minutes
		t.Error("it does not end")
	}
}

func TestRequiredLiteral(t *testing.T) {
	for _, c := range []struct {
		pattern, literal string
		whole            bool
	}{
		{"needle", "needle", true},
		{"n", "n", true},
		{`func \w+\(`, "func ", false},
		{`\w+_\w+\(`, "", false},
		{"(foo|bar)bazaar", "bazaar", false},
		{"a(bc)d", "abcd", true},
		{"ab*cde", "cde", false},
		{"x?(yz)+", "yz", false},
		{"(?:abc){2,3}", "abc", false},
		{"(?:abc){0,3}", "", false},
		{"foo|bar", "", false},
		{"(?i)foo", "", false},
		{"^foo$", "foo", false},
		{"foo|", "", false},
		{"(?:)foo", "foo", true},
	} {
		p, err := Compile(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.literal) != c.literal || p.whole != c.whole {
			t.Errorf("%q: literal %q, whole %t", c.pattern, p.literal, p.whole)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add("xxneedle", "needle")
	f.Add("eeeeeeeeeeeeeeeeeeeezeze", "ez")
	f.Add("error erro errers error rorers errorx errors", "errors")
	f.Add("aaaaaaaaaaaaaaaaaaaaaaaab", "aab")
	f.Fuzz(func(t *testing.T, text, lit string) {
		if lit == "" {
			return
		}
		p := Pattern{literal: []byte(lit), rare: rarest([]byte(lit))}
		if got, want := p.index([]byte(text)), strings.Index(text, lit); got != want {
			t.Errorf("%q in %q: %d, want %d", lit, text, got, want)
		}
		for at := 0; at <= len(text)-len(lit); at++ {
			want := strings.Index(text[at:], lit)
			if want >= 0 {
				want += at
			}
			if got := p.indexPair([]byte(text), at); got != want {
				t.Errorf("%q in %q from %d: %d, want %d", lit, text, at, got, want)
			}
		}
	})
}
