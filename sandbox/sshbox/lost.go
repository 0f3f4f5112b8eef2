package sshbox

import (
	"fmt"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

var (
	_ sandbox.Losable = (*box)(nil)
	_ sandbox.Losable = (*plainBox)(nil)
)

// Lost implements sandbox.Losable: with the connection, or the guest's end of
// the box.
func (b *box) Lost() <-chan struct{} { return b.gone }

// WhyLost implements sandbox.Losable.
func (b *box) WhyLost() error { return b.link.whyLost(b.gone, "the box has ended") }

// Lost implements sandbox.Losable: with the connection, or the keeper.
func (b *plainBox) Lost() <-chan struct{} { return b.keeper.gone }

// WhyLost implements sandbox.Losable.
func (b *plainBox) WhyLost() error {
	return b.link.whyLost(b.keeper.gone, "the box's keeper has ended")
}

// whyLost tells whether it was the connection that ended, or something alone.
// A connection's channels end a moment before it does.
func (l *Link) whyLost(gone <-chan struct{}, alone string) error {
	select {
	case <-gone:
	default:
		return nil
	}
	moment := time.NewTimer(100 * time.Millisecond)
	defer moment.Stop()
	select {
	case <-l.done:
		return l.Err()
	case <-moment.C:
		return fmt.Errorf("%s: %s: %w", l.config.Name, alone, sandbox.ErrLost)
	}
}
