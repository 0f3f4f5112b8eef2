//go:build linux || darwin

package rpc

import (
	"errors"
	"net"
	"syscall"
)

// withFD calls fn with the connection's file descriptor.
func withFD(nc net.Conn, fn func(fd int) error) error {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return errors.New("the connection has no file descriptor")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = fn(int(fd)) }); err != nil {
		return err
	}
	return inner
}
