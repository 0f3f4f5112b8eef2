//go:build unix

package local_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/hermes-exec/hermes-exec/backends/local"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

func newBox(t testing.TB) sandbox.Sandbox {
	t.Helper()
	b := local.New(local.Config{})
	box, err := b.Create(context.Background(), sandbox.Spec{Policy: sandbox.Policy{Unconfined: true}, Env: os.Environ()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return box
}

func run(t testing.TB, box sandbox.Sandbox, cmd sandbox.Cmd) sandbox.Exit {
	t.Helper()
	p, err := box.Start(context.Background(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	exit, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return exit
}

type counter struct{ n int }

func (c *counter) Write(b []byte) (int, error) { c.n += len(b); return len(b), nil }

func BenchmarkStartTrue(b *testing.B) {
	box := newBox(b)
	for b.Loop() {
		run(b, box, sandbox.Cmd{Args: []string{"/bin/true"}, Stdout: &counter{}, Stderr: &counter{}})
	}
}

func BenchmarkBareTrue(b *testing.B) {
	for b.Loop() {
		c := exec.Command("/bin/true")
		c.Stdout, c.Stderr = &counter{}, &counter{}
		if err := c.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStdout1GB(b *testing.B) {
	box := newBox(b)
	const size = 1 << 30
	b.SetBytes(size)
	for b.Loop() {
		var out counter
		run(b, box, sandbox.Cmd{Args: []string{"head", "-c", "1073741824", "/dev/zero"}, Stdout: &out})
		if out.n != size {
			b.Fatal(out.n)
		}
	}
}

// BenchmarkOverhead runs the same command directly and in a box, in turns, so
// that whatever else the machine does hits both alike, and with a pause, as a
// session has it between commands.
func BenchmarkOverhead(b *testing.B) {
	for name, args := range map[string][]string{"true": {"/bin/true"}, "python": {"/usr/bin/python3", "-c", "pass"}} {
		b.Run(name, func(b *testing.B) {
			box := newBox(b)
			var bare, boxed []time.Duration
			for b.Loop() {
				time.Sleep(spell)
				began := time.Now()
				c := exec.Command(args[0], args[1:]...)
				c.Stdout, c.Stderr = &counter{}, &counter{}
				if err := c.Run(); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, time.Since(began))
				time.Sleep(spell)
				began = time.Now()
				run(b, box, sandbox.Cmd{Args: args, Stdout: &counter{}, Stderr: &counter{}})
				boxed = append(boxed, time.Since(began))
			}
			b.ReportMetric(median(bare).Seconds()*1e3, "bare-ms")
			b.ReportMetric(median(boxed).Seconds()*1e3, "box-ms")
			b.ReportMetric((median(boxed)-median(bare)).Seconds()*1e3, "over-ms")
		})
	}
}

// spell is a short pause.
const spell = 10 * time.Millisecond

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
