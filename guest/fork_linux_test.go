package guest

import (
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func BenchmarkForkTrue(b *testing.B) {
	runtime.LockOSThread()
	for b.Loop() {
		l := newLaunch()
		var st, rp [2]int
		unix.Pipe2(st[:], unix.O_CLOEXEC)
		unix.Pipe2(rp[:], unix.O_CLOEXEC)
		l.started, l.report = st[1], rp[1]
		null, _ := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
		l.stdio = [3]int{null, null, null}
		path := "/bin/true"
		l.path, _ = syscall.BytePtrFromString(path)
		argv, _ := syscall.SlicePtrFromStrings([]string{"true"})
		env, _ := syscall.SlicePtrFromStrings(nil)
		l.argv, l.env = &argv[0], &env[0]
		l.dir, _ = syscall.BytePtrFromString("/")
		pid, err := l.fork()
		if err != nil {
			b.Fatal(err)
		}
		unix.Close(st[1])
		unix.Close(rp[1])
		unix.Close(null)
		var buf [8]byte
		n, _ := unix.Read(st[0], buf[:])
		if n != 0 {
			b.Fatal(*(*failure)(unsafe.Pointer(&buf)))
		}
		data, _ := io.ReadAll(os.NewFile(uintptr(rp[0]), "r"))
		if len(data) != 2*reportSize {
			b.Fatal(len(data))
		}
		unix.Close(st[0])
		unix.Wait4(pid, nil, 0, nil)
	}
}
