package serve

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// samePeer refuses a connection of somebody who is not the box's user.
func samePeer(conn net.Conn, uid int) error {
	c, ok := conn.(*net.UnixConn)
	if !ok || uid < 0 {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if credErr != nil {
		return credErr
	}
	if int(cred.Uid) != uid {
		return fmt.Errorf("it came from user %d, not %d", cred.Uid, uid)
	}
	return nil
}
