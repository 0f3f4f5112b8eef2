// Package landlock restricts threads by Landlock: what of the file system they
// may read, write and make, and whether they may use TCP, connect to abstract
// sockets or signal processes outside. It needs no privilege. Elsewhere than on
// Linux the package is empty.
//
// A Ruleset is made once and is a descriptor: threads restrict themselves with
// it, and children that were forked by hand and can make nothing but raw system
// calls call landlock_restrict_self(FD(), 0) after no_new_privs. That is why the
// calls are made here: the well-kept library for Landlock makes the ruleset,
// uses it on the whole process and lets it go within one call.
//
// A ruleset handles everything that the kernel's Landlock and this code know,
// and grants what Allow says; what no rule grants is refused with EACCES (EXDEV
// for a link or rename into another directory). What an older kernel cannot
// keep is data: Ruleset.Missing.
//
// # What Landlock cannot do
//
//   - It grants trees and never takes a part of one back. "All but ~/.ssh"
//     becomes a list of everything beside it: Enumerate. What is made later
//     beside a denied entry is in no rule, and cannot be read, and nothing can
//     be made there. Nor can those directories be listed, unless List is
//     granted for the whole tree, which tells the denied entries' names too.
//   - It goes by where a file is, through mounts: the same file by a hard link,
//     or the same directory by a bind mount elsewhere in an allowed tree, is
//     allowed there.
//   - It does not restrict chdir, stat, access, chmod, chown, utimes, flock,
//     fcntl and extended attributes, nor descriptors that were open before.
package landlock
