package guest

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func BenchmarkForkTrue(b *testing.B) {
	runtime.LockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	streams := []int{int(null.Fd()), int(null.Fd()), int(null.Fd())}
	g := &inside{starting: map[int]struct{}{}}
	for b.Loop() {
		cmd := Command{Args: []string{"/bin/true"}, Dir: "/"}
		r, err := g.newReaper(roomOf(cmd))
		if err != nil {
			b.Fatal(err)
		}
		if stage, err := r.run(cmd, streams); err != nil {
			b.Fatal(stage, err)
		}
		var said report
		if n, err := unix.Read(r.report, bytesOf(&said)); n != reportSize || said.Last != 1 {
			b.Fatal(n, err, said)
		}
		g.bury(r)
	}
}
