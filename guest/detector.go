//go:build !race

package guest

// detector is for builds with the race detector.
var detector []string
