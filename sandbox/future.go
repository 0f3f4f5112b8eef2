package sandbox

import (
	"context"
	"time"
)

// FutureInput is a file that does nothing now and will be run or trusted by
// somebody later, outside the box: a hook, an editor's task, a venv's python.
type FutureInput struct {
	Path string `json:"path"`
	Why  string `json:"why"` // who will run or trust it, and when
}

// Auditor is implemented by boxes that can tell what a command left for later.
type Auditor interface {
	// FutureInputs lists what was made or changed in the box's writable trees
	// at or after a time, sorted by path. It is bounded in time and number;
	// complete is false when it did not see everything.
	FutureInputs(ctx context.Context, since time.Time) (list []FutureInput, complete bool, err error)
}
