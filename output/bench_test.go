package output

import (
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// logText is a megabyte of what programs print.
func logText() string {
	var b strings.Builder
	rnd := rand.New(rand.NewPCG(1, 1))
	for b.Len() < 1<<20 {
		fmt.Fprintf(&b, "2026-03-01T12:00:%02d.123Z INFO server/handler.go:%d request path=/api/v1/items id=%x took %dms (ok)\n",
			rnd.IntN(60), rnd.IntN(900), rnd.Uint64(), rnd.IntN(500))
	}
	return b.String()
}

func BenchmarkRedact(b *testing.B) {
	code := strings.Repeat("func (s *Server) handle(w http.ResponseWriter, r *http.Request) error {\n\treturn s.next(ctx, TOKEN_LIMIT)\n}\n", 9000)
	for name, s := range map[string]string{
		"log":     logText(),
		"code":    code,
		"spaces":  strings.Repeat(" ", 1<<20),
		"word":    strings.Repeat("a", 1<<20),
		"secrets": strings.Repeat("API_KEY=abcdef1234567890 sk-"+body(40)+"\n", 15000),
	} {
		b.Run(name, func(b *testing.B) {
			r := NewRedactor()
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				r.Redact(s)
			}
		})
	}
}

func BenchmarkRedactWriter(b *testing.B) {
	p := []byte(logText())
	b.SetBytes(int64(len(p)))
	w := NewRedactor().Writer(io.Discard)
	for b.Loop() {
		for q := p; len(q) > 0; q = q[min(len(q), 32<<10):] {
			w.Write(q[:min(len(q), 32<<10)])
		}
	}
}

func BenchmarkStripANSI(b *testing.B) {
	text := logText()
	for name, s := range map[string]string{
		"plain":  text,
		"colour": strings.ReplaceAll(text, "INFO", "\x1b[32mINFO\x1b[0m"),
		"utf-8":  strings.ReplaceAll(text, "INFO", "größe ≥ 5"),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				StripANSI(s)
			}
		})
	}
}

func BenchmarkWindowWrite(b *testing.B) {
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := []byte(strings.Repeat("x", size))
			w := NewWindow(20_000, 30_000)
			b.SetBytes(int64(size))
			for b.Loop() {
				w.Write(p)
			}
		})
	}
}

func BenchmarkWindowRender(b *testing.B) {
	for name, n := range map[string]int{"small": 200, "cut": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			p := []byte(logText()[:n])
			r := NewRedactor()
			for b.Loop() {
				w := NewWindow(20_000, 30_000)
				w.Write(p)
				w.Render(r)
			}
		})
	}
}
