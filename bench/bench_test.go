package bench

import (
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/guest"
)

func TestMain(m *testing.M) {
	guest.Main()
	os.Exit(m.Run())
}

// BenchmarkRunPass is a script that does nothing, in an open session.
func BenchmarkRunPass(b *testing.B) {
	e, err := NewEngine()
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	s := openSession(b, e)
	for b.Loop() {
		if err := runOnce(s, pass); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRunPassCold makes engine and session anew each time.
func BenchmarkRunPassCold(b *testing.B) {
	for b.Loop() {
		e, err := NewEngine()
		if err != nil {
			b.Fatal(err)
		}
		s := openSession(b, e)
		if err := runOnce(s, pass); err != nil {
			b.Fatal(err)
		}
		if err := e.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// The table is what the README's numbers come from: it must be possible to
// make it.
func TestMeasure(t *testing.T) {
	if testing.Short() {
		t.Skip("short: measuring takes seconds")
	}
	_, rows, err := Measure(Options{Rounds: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Value < 0 || r.What == "" || r.Bound == "" {
			t.Errorf("row %+v", r)
		}
	}
}

func openSession(b *testing.B, e *engine.Engine) *engine.Session {
	b.Helper()
	task, err := Task(b.TempDir(), "workspace")
	if err != nil {
		b.Fatal(err)
	}
	s, err := e.Open(b.Context(), task)
	if err != nil {
		b.Fatal(err)
	}
	return s
}
