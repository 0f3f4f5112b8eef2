//go:build nowall && !nouserns && !nolandlock

package guest

const (
	noNamespaces = false
	noLandlock   = true
)
