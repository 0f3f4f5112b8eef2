// Package docker makes boxes that are containers of a docker engine.
//
// A box is one container, made once per session, whose first process is a guest
// that serves an SSH connection (guest/serve): commands, terminals, signals,
// files and sockets are that connection's, and docker's own exec is not used.
// The image needs no shell, no python and no init. Where the daemon sees this
// machine's files, the guest is a read-only bind and dials a Unix socket that is
// bound in as well; elsewhere it is uploaded once per version into a volume, and
// the connection is the container's attached input and output.
//
// The container is the wall, and the guest confines each command besides, as far
// as the kernel allows inside: no capabilities, no new privileges, a seccomp list
// without mounts, namespaces, ptrace and odd sockets, limits of processes, memory
// and processor, /tmp and scratch in memory, no devices, no host namespaces, no
// network under sealed. Options that would open it are refused.
//
// A box is an ordinary user: the work directory's owner. Root's directory is shown
// to it as a user's own (an idmapped mount); where the kernel, the file system or
// the engine does not do that, the container is root without capabilities, and
// the enforcement says so.
//
// Spec.WorkDir is a directory of this machine that appears as /workspace, with
// what is guarded in it read-only and what is denied hidden; "" is an empty
// /workspace of the box's own.
//
// A container ends with its connection, so with its engine, and removes itself.
// What is left when that does not happen carries the name of a lease, a file the
// engine holds locked while it lives: Reap removes what belongs to a lease of
// this user on this machine that nobody holds any more.
package docker
