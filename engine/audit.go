package engine

import (
	"context"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

const (
	// auditPatience is what a box that does not keep its own bound may take.
	auditPatience = 2 * time.Second
	// underWay is by how much later a box elsewhere may hear of a question than of
	// a command. How far the times of files lag behind the clock is the box's affair.
	underWay = 20 * time.Millisecond
)

// audit begins to look for what a script that began at a time left behind to be
// run or trusted later, also when the script was interrupted. What it returns
// waits for the answer and puts it into r.
func (p *place) audit(ctx context.Context, began time.Time) (report func(r *Result)) {
	box, ok := p.box.(sandbox.Auditor)
	s := p.session
	if policy := s.spec.Policy; !ok || policy.Unconfined || !s.elsewhere && len(policy.Write)+len(policy.Private) == 0 {
		return func(*Result) {}
	}
	type answer struct {
		list     []sandbox.FutureInput
		complete bool
		err      error
	}
	if s.elsewhere {
		began = began.Add(-underWay)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	got := make(chan answer, 1)
	go func() {
		list, complete, err := box.FutureInputs(ctx, began)
		got <- answer{list, complete, err}
	}()
	return func(r *Result) {
		defer cancel()
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
}
