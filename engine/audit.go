package engine

import (
	"context"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

const (
	// auditPatience is what a box that does not keep its own bound may take.
	auditPatience = 2 * time.Second
	// clockTick is by how much the times of files lag behind the clock.
	clockTick = 20 * time.Millisecond
)

// audit puts into r what a script that began at a time left behind to be run or
// trusted later, also when the script was interrupted.
func (s *Session) audit(ctx context.Context, began time.Time, r *Result) {
	box, ok := s.box.(sandbox.Auditor)
	if p := s.confinement; !ok || p.Unconfined || !s.elsewhere && len(p.Write)+len(p.Private) == 0 {
		return
	}
	type answer struct {
		list     []sandbox.FutureInput
		complete bool
		err      error
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	got := make(chan answer, 1)
	go func() {
		list, complete, err := box.FutureInputs(ctx, began.Add(-clockTick))
		got <- answer{list, complete, err}
	}()
	var a answer
	select {
	case a = <-got:
	case <-ctx.Done(): // a look at a dead network file system does not end
		a.err = ctx.Err()
	}
	for _, f := range a.list {
		f.Path, f.Why = s.engine.redact(f.Path), s.engine.redact(f.Why)
		r.FutureInputs = append(r.FutureInputs, f)
	}
	if a.err != nil {
		s.engine.cfg.Log.Warn("future inputs", "error", a.err)
	}
	if a.err != nil || !a.complete {
		r.FutureInputsComplete = new(bool)
	}
}
