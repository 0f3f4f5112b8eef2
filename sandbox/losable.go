package sandbox

// Losable is implemented by a Sandbox that can end without Close: its container
// is removed, its connection drops, its guest is killed. All that was in it has
// ended then, its methods answer with ErrLost, and Close alone is of use. After
// Close both methods mean nothing.
type Losable interface {
	Sandbox
	// Lost is closed once the box has ended; nil when it cannot be lost. The
	// news may come a moment after the first ErrLost.
	Lost() <-chan struct{}
	// WhyLost tells what ended the box; nil before Lost is closed. The error
	// wraps ErrLost, and may take some seconds to be learnt.
	WhyLost() error
}
