//go:build nouserns && !nolandlock

package guest

const (
	noNamespaces = true
	noLandlock   = false
)
