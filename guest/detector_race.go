//go:build race

package guest

// detector is what the race detector is told in guests: not to wait a second at
// each one's exit for what its other threads might still do.
var detector = []string{"GORACE=atexit_sleep_ms=0"}
