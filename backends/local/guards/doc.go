// Package guards is the host's side of the guards for future inputs: files that
// do nothing now and are run or trusted later, outside the box, such as a git
// hook or an editor's task.
//
// A name that is guarded and does not exist yet is reserved while sessions run
// in its workspace: by an empty directory, which git and editors overlook and
// over which a box mounts a read-only one. A Store makes these directories,
// shares them between all sessions of a user in a workspace and removes them
// when the last one is over. After a crash at most empty directories and a
// journal remain, until the next Sweep. What it removes is empty (it only ever
// calls rmdir) and is what it made.
//
// The state directory holds two files for each workspace in use, named by the
// device and inode of its root. KEY.gate is locked for as long as somebody makes
// or removes directories. KEY.journal is locked, shared, for each session that
// runs there; its lines are
//
//	hermes-exec guards 1 "ROOT"          the first: the format, the workspace
//	+ "NAME"                             NAME was missing and is about to be made
//	= DEV INODE BIRTH "NAME"             it was made, as this directory
//
// in decimal, names quoted as in Go and relative to ROOT. A line counts once its
// newline is written. A directory that was made but not yet noted bears the
// sticky bit: by that a sweep knows it.
//
// A workspace may be hostile: it is entered by descriptors, one name at a time,
// never through a link. An engine run by root acts in it with the rights of its
// owner.
//
// Scan finds, after a run, what no guard can prevent: nested repositories, and
// what has to stay writable although it runs later.
package guards
