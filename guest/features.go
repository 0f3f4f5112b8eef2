//go:build !nouserns && !nolandlock && !nowall

package guest

// What this binary pretends the machine does not have. Tests of the lower rungs
// build it with the tags nouserns, nolandlock (neither) and nowall (namespaces
// alone), which nobody else should.
const (
	noNamespaces = false
	noLandlock   = false
)
