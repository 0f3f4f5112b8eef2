package guest

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A command is sent before anybody has the other end to read it, as far as the
// socket takes it: all of a short one, a part of a long one, and with a full
// buffer nothing.
func TestCommandBeforeItsReader(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, tt := range map[string]struct{ length, full int }{
		"short": {100, 0}, "long": {2 << 20, 0}, "in a full socket": {100, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := unix.SetNonblock(fds[0], true); err != nil {
				t.Fatal(err)
			}
			ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), fds[1]
			defer unix.Close(theirs)
			defer ours.Close()
			before := 0
			for before < tt.full {
				n, err := unix.Write(fds[0], make([]byte, 4096))
				if err == unix.EAGAIN {
					break
				}
				before += max(n, 0)
			}
			message := make([]byte, tt.length)
			for i := range message {
				message[i] = byte(i % 251)
			}
			got, rights := make(chan []byte, 1), 0
			read := func() error {
				go func() {
					all, buf, oob := make([]byte, 0, before+len(message)), make([]byte, 64<<10), make([]byte, 256)
					for len(all) < before+len(message) {
						n, rn, _, _, err := unix.Recvmsg(theirs, buf, oob, unix.MSG_CMSG_CLOEXEC)
						if err != nil || n == 0 {
							break
						}
						if messages, err := unix.ParseSocketControlMessage(oob[:rn]); err == nil && len(messages) == 1 {
							files, _ := unix.ParseUnixRights(&messages[0])
							rights += len(files)
							closeAll(files)
						}
						all = append(all, buf[:n]...)
					}
					got <- all[before:]
				}()
				return nil
			}
			l := newLine(ours)
			if err := l.sendCommand(message, [3]*os.File{null, null, null}, read); err != nil {
				t.Fatal(err)
			}
			if all := <-got; string(all) != string(message) || rights != 3 {
				t.Errorf("%d bytes with %d files arrived", len(all), rights)
			}
		})
	}
}
