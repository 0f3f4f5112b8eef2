// Package seccomp makes and installs the system call filter of a confined
// command: the wall behind namespaces, capabilities and Landlock, and on the
// lower rung the only one against calls that no file rule describes.
//
// Program assembles the filter for amd64 and arm64; on any other architecture
// it is an error, never a weaker filter. Elsewhere than on Linux the package is
// empty. What a filtered process meets:
//
//   - A call of another architecture's table (int 0x80, AArch32) or of x32 kills
//     the process with SIGSYS: no honest program mixes tables, and the numbers
//     of a foreign one mean other calls.
//   - What Denied lists answers EPERM. These are calls that make or enter
//     namespaces and mounts, look into other processes, load code into the
//     kernel, set the machine's state, or have been the way in to more kernel
//     than a script needs (io_uring, userfaultfd, bpf, perf, keyrings).
//   - clone may not make namespaces. Its flags are in a register and are
//     looked at. Those of clone3 are in memory, where a filter cannot look, so
//     it answers ENOSYS, on which every libc falls back to clone.
//   - fcntl takes no leases, delegations or notifications of a file. They hold
//     up, or watch, whoever opens it, and that may be the host.
//   - Calls newer than the reviewed table answer ENOSYS, as on a kernel that
//     does not have them yet.
//   - Sockets are stream, datagram and (AF_UNIX) seqpacket sockets of AF_UNIX,
//     AF_INET and AF_INET6 with an ordinary protocol; all others answer EPERM.
//
// Only numbers decide, never pointers, so there is nothing to race. Arguments
// are compared in the width in which the kernel reads them: all that are looked
// at are C ints, whose upper 32 bits the kernel drops, and so does the filter.
//
// # Speed
//
// The number is searched for in a balanced tree. Where nothing but the number
// decides for allowing, kernels from 5.11 on remember that and do not run the
// filter again; only the calls whose arguments are looked at and what is denied
// ever reach it.
package seccomp
