// Package guest is the code that acts inside a sandbox. It is written once and
// carried there by the engine's own binary, re-executed: Main, called first in
// main, returns at once unless the process is such a guest.
//
// A session guest (confine) is PID 1 of a confined box, whose commands it forks;
// see "A confined box" in ARCHITECTURE.md. Without confinement a guest supervises:
// one guest process runs one command, is the reaper of everything the command
// starts, and ends only when all of it is gone.
//
//   - It is a child subreaper, so a descendant that daemonizes (setsid, double
//     fork) becomes its child instead of init's. wait4 that finds no child
//     proves that nothing is left; only otherwise is /proc searched.
//   - It holds one end of a socket pair. When the other end closes, because
//     the engine ended it or was killed, it kills the tree and ends.
//   - What embeds the engine is never made a subreaper, gets no signal handler
//     and no child it did not ask for but the guests.
//
// # The wire
//
// Descriptor 3 of a guest is a Unix stream socket. A frame is one byte of
// kind, four bytes of payload length (big endian) and the payload; in it a
// number is 8 bytes and a string is 4 bytes of length and its bytes. A frame
// that is cut short, too long or not understood ends the guest.
//
//	guest → engine
//	h  version                          hello, sent first
//	r  pid                              the command runs
//	f  errno stage                      it could not be run, see StartError
//	x  code signal user system rss crowded gone
//	                                    the main process ended; crowded 1: no more were allowed; gone 1: nothing is left
//	g  user system rss crowded left     nothing is left, or left processes resist SIGKILL
//
//	engine → guest
//	c  flags dir n args… n env…         the command (flags 1: keep, 2: terminal); its first byte carries the three
//	                                    descriptors that become its 0, 1 and 2
//	s  signal                           to every process of the tree
//	e  grace                            TERM to the tree, KILL after grace (ns; 0: at once)
//
// Times are nanoseconds, rss is bytes, code is two's complement.
package guest
