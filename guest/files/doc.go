// Package files gives access to a box's files. New is the access this process
// has itself. Where a box is confined, Serve gives the same from a thread that
// is confined as the box's commands are, and a Client at the other end of a
// socket is the sandbox.Files of whoever is outside: names are walked, checked
// and opened in the box's view with the box's rights, and only descriptors of
// regular files come out.
//
// # The wire
//
// The socket keeps the bounds of messages (SOCK_SEQPACKET), so a message is one
// system call at each end. The client sends one request and waits for its
// answer. When it gives up, it closes the connection, or, while files it has
// begun there depend on it, asks for their end without waiting for what it gave
// up: a server that sees either in the middle of a request breaks it off.
//
// A number is 4 bytes, big endian; a text is 2 bytes of length and its bytes. A
// message that is cut short, too long, not understood or not used up ends the
// connection, and with it every file that was begun on it.
//
//	client → server                     at most 16 KiB
//	op seq …                            op is a byte, seq the number of the request
//	r o s l d D  name                   Resolve Open Stat ReadDir Remove RemoveAll
//	m M  perm name                      Mkdir MkdirAll
//	n  name name                        Rename
//	c  flags perm name                  Create; flags is a byte, 1 New, 2 Sync
//	k x  handle                         Commit, Discard
//
//	server → client                     at most 32 KiB
//	.  seq …                            done: a name for r, a struct stat for s, a handle for c;
//	                                    with o and c comes a descriptor (SCM_RIGHTS)
//	+  seq entries…                     of l, before done: a byte of type, a byte of length, the name
//	!  seq count errors…                each a byte of shape (plain, path, link), its operation and
//	                                    names, a byte of cause: a text, an errno, a known error
package files
