// Package sshbox makes a sandbox.Sandbox of an SSH connection.
//
// A Link is one connection, with any number of boxes and processes on it at
// once. Open asks the serving guest at its other end (guest/serve) for a box,
// in the dialect of package sshwire; Plain makes do with an ordinary sshd.
//
// The other end is not trusted: what it sends is bounded in size, number and
// time. A process whose server breaks the rules, or falls silent, is lost
// (sandbox.ErrLost); nothing here waits for it for ever. What is read into
// memory for one process is at most a window (2 MiB): a writer that is slow
// holds up its own process and no other.
//
// Programs that use the package need no more than a byte stream to a guest:
//
//	client, err := sshbox.Handshake(ctx, stream)
//	link := sshbox.New(client, sshbox.Config{Name: "docker"})
//	box, err := link.Open(ctx, sshwire.BoxRequest{Profile: profile})
package sshbox
