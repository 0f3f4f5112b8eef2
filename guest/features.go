//go:build !noland

package guest

// noLandlock hides Landlock from this binary; see features_noland.go.
const noLandlock = false
