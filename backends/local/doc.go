// Package local runs commands on this machine.
//
// Every command runs in a session and process group of its own under a guest
// (see package guest) that finds and ends whatever the command starts: after
// the command's end, when its context is done, when the box closes, and when
// the engine is killed. On Unix systems other than Linux only the process
// group can be ended, and Info.Enforcement says so.
//
// There is no confinement: Create takes policies that ask for none and refuses
// every other. Programs that use the backend call guest.Main first in main.
//
// A box has a scratch directory that no other user can enter, below a
// directory of the user's own: $TMPDIR/hermes-exec-<uid>/. It is locked for as
// long as the engine lives, so that the next engine can tell what a killed one
// left behind, and removes it.
package local
