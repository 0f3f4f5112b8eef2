package rpc

import (
	"fmt"
	"net"
)

// checkPeer refuses everybody but want. A connection that cannot tell who is at
// the other end is refused too, unless want is AnyPeer.
func checkPeer(nc net.Conn, want int) error {
	if want == AnyPeer {
		return nil
	}
	uid, err := peerUID(nc)
	if err != nil {
		return fmt.Errorf("cannot tell who connected: %w", err)
	}
	if uid != want {
		return fmt.Errorf("uid %d may not connect", uid)
	}
	return nil
}
