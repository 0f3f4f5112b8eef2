// Package guards is the host's side of the guards for future inputs: files that
// do nothing now and are run or trusted later, outside the box, such as a git
// hook or an editor's task.
//
// A name that is guarded and does not exist yet is reserved while sessions run
// in its workspace, so that a box can mount something read-only over it: by an
// empty directory, which git and editors overlook, or, for the few names inside
// a repository that git reads at each command and that must be files, by a
// read-only file that says what git believes without it. A Store makes these,
// shares them between all sessions of a user in a workspace and removes them
// when the last one is over. After a crash at most empty directories, these
// inert files and a journal remain, until the next Sweep. It removes what it
// made and nobody has touched since: directories only by rmdir; a file only if
// it still is the same one, with the same content and no other name.
//
// The state directory holds two files for each workspace in use, named by the
// device and inode of its root. KEY.gate is locked for as long as somebody makes
// or removes reservations. KEY.journal is locked, shared, for each session that
// runs there; its lines are
//
//	hermes-exec guards 1 "ROOT"           the first: the format, the workspace
//	+ "NAME"                              a directory is about to be made
//	= DEV INODE BIRTH "NAME"              it was made, as this one
//	~ "NAME"                              a file may bear this name for a moment
//	= DEV INODE BIRTH "NAME" "CONTENT"    this file is about to get its name
//
// in decimal, strings quoted as in Go, names relative to ROOT. A line counts
// once its newline is written. A directory that was made but not yet noted bears
// the sticky bit: by that a sweep knows it. A file is complete and noted before
// anybody can see it under its name.
//
// A workspace may be hostile: it is entered by descriptors, one name at a time,
// never through a link. An engine run by root acts in it with the rights of its
// owner.
//
// Scan finds, after a run, what no guard can prevent: nested repositories, trees
// that were moved from where nobody looks, and what has to stay writable although
// it runs later.
package guards
