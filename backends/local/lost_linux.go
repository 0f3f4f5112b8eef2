package local

import (
	"fmt"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

var _ sandbox.Losable = (*box)(nil)

// Lost implements sandbox.Losable. A confined box is lost with its session
// guest; one that is not confined has nothing that could be lost.
func (b *box) Lost() <-chan struct{} {
	if in, ok := b.inside.(*confined); ok {
		return in.session.Done()
	}
	return nil
}

// WhyLost implements sandbox.Losable.
func (b *box) WhyLost() error {
	select {
	case <-b.Lost():
		return fmt.Errorf("local: the session guest was killed: %w", sandbox.ErrLost)
	default:
		return nil
	}
}
