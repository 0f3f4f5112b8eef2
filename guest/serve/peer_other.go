//go:build !linux

package serve

import "net"

// samePeer trusts the mode of the socket's directory here.
func samePeer(net.Conn, int) error { return nil }
