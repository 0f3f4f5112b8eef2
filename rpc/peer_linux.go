package rpc

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUID returns the user id of the process that connected.
func peerUID(nc net.Conn) (int, error) {
	uid := -1
	err := withFD(nc, func(fd int) error {
		cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err == nil {
			uid = int(cred.Uid)
		}
		return err
	})
	return uid, err
}

// hungUp reports whether the peer closed its socket, and did not merely shut
// down its sending side.
func hungUp(nc net.Conn) bool {
	gone := false
	err := withFD(nc, func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(fds, 0)
		gone = err == nil && fds[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
		return nil
	})
	return err == nil && gone
}
