// Package serve is the part of the guest that stands at the far end of a byte
// stream: a small SSH server in front of a sandbox.Backend, which speaks the
// dialect of package sshwire with sandbox/sshbox. Every process is started,
// confined, supervised and killed by that backend; this package carries orders,
// output and sockets.
//
// What the engine asks is bounded in number and size, and nothing it leaves
// unread holds up anything but itself. When the stream ends, every box is
// closed, at once.
package serve
