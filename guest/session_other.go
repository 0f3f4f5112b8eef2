//go:build !linux

package guest

type spawner struct{}

// Close has nothing to end: only Linux has what a session guest is made of.
func (*Spawner) Close() {}
