// Package cgroup bounds what a box uses, on Linux, by control groups: memory,
// processes and processor time of everything in it, whatever it forks.
//
// Find tells what can be had here and, of what cannot, why and how to change
// it; it changes nothing. Host.New makes the groups of one box, one in each
// hierarchy it takes: version 1 has one a controller, version 2 one for all,
// and a host can have both. Group.Procs gives descriptors through which a
// process puts itself in; a Mark tells what happened since; Close ends what is
// left inside and removes the groups.
//
// Joining. A version 1 group is joined through its tasks file, by a process
// of one thread: that takes 20 µs. Through cgroup.procs, which version 2
// requires, the kernel waits for a grace period of its own, 5 to 15 ms, unless
// it favours dynamic modifications. A process that is born in a group
// (Group.Spawn) does not wait; the group for the kill that a host with limits
// in version 1 has in version 2 is to be entered that way.
//
// Crashes. A group's directories are locked while their maker lives. Sweep
// ends and removes the user's groups that are not, in the places where Find
// would have groups made, and SweepElsewhere in all others. Groups are made
// below the maker's own group where the hierarchy allows it, so that its bounds
// hold for boxes too.
//
// A limit is for the box, not for a command, and memory counts what was written
// to its private /tmp and files read into the page cache as well.
package cgroup
