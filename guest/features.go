//go:build !nouserns && !nolandlock

package guest

// What this binary pretends the machine does not have. Tests of the lower rungs
// build it with the tags nouserns and nolandlock, which nobody else should.
const (
	noNamespaces = false
	noLandlock   = false
)
