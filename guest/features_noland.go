//go:build noland

package guest

// noLandlock is for tests of the lower rungs, with -tags noland.
const noLandlock = true
