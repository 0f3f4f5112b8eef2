//go:build nolandlock

package guest

const (
	noNamespaces = true
	noLandlock   = true
)
