package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
)

// begin serves a call that has a place in slots, in a goroutine of its own.
func (p *poll) begin(ctx context.Context, n callName) {
	ctx, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	p.calls[n] = &pollCall{cancel: cancel}
	p.mu.Unlock()
	p.s.running.begin()
	go func() {
		defer p.s.running.end()
		defer func() {
			cancel(errGone)
			p.mu.Lock()
			delete(p.calls, n)
			p.mu.Unlock()
			<-p.slots
			select {
			case p.wake <- struct{}{}:
			default:
			}
		}()
		if err := p.handle(ctx, n); err != nil && ctx.Err() == nil {
			// Its client would wait for an answer for ever.
			p.end(fmt.Errorf("rpc: poll: %w", err))
		}
	}()
}

// handle serves a call. The error says that it could not be answered.
func (p *poll) handle(ctx context.Context, n callName) error {
	s := p.s
	line, free, err := p.read(ctx, n)
	defer func() { free() }()
	if errors.Is(err, fs.ErrNotExist) { // taken back
		return nil
	}
	r, code, message := p.judge(n, line, err)
	if code != "" {
		s.cfg.Log.Debug("rpc: refused", "code", code, "message", message)
		return p.answer(ctx, n, appendRefusal(nil, request{id: n.id, hasID: true}, code, message))
	}
	stay, _, err := s.room.enter(ctx, s.need(r.tool), new(int))
	if err != nil {
		return nil // ended, or taken back
	}
	defer stay.leave()
	result := fit(s.invoke(ctx, Call{ID: r.id, Tool: r.tool, Args: r.args}), s.cfg.MaxFrame)
	line, r = nil, request{}
	free()
	free = func() {}
	stay.answered(cap(result))
	err = p.answer(ctx, n, appendHead(nil, n.id), result, []byte(answerTail))
	if err == nil || ctx.Err() != nil {
		return err
	}
	sorry := errorResult(fmt.Sprintf("the answer of %d bytes could not be delivered: %v", len(result), err))
	return p.answer(ctx, n, appendHead(nil, n.id), sorry, []byte(answerTail))
}

// read reads a request, if it is not longer than a frame or one byte more. free
// gives back the place that a big one takes.
func (p *poll) read(ctx context.Context, n callName) (data []byte, free func(), err error) {
	get := func(most int) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, opTimeout)
		defer cancel()
		return p.dir.Read(ctx, requestName+n.String(), most)
	}
	free = func() {}
	small := min(freeBuffer, p.s.cfg.MaxFrame+1)
	if data, err = get(small); err != nil || len(data) < small {
		return data, free, err
	}
	select {
	case p.s.big <- struct{}{}:
	case <-ctx.Done():
		return nil, free, context.Cause(ctx)
	}
	data, err = get(p.s.cfg.MaxFrame + 1)
	return data, func() { <-p.s.big }, err
}

// judge tells whether what was read is a request to be served, as Server.judge
// does.
func (p *poll) judge(n callName, data []byte, err error) (r request, code, message string) {
	line, ok := bytes.CutSuffix(data, []byte("\n"))
	switch {
	case err != nil:
		return r, codeInvalid, invalidMessage + err.Error()
	case len(data) > p.s.cfg.MaxFrame:
		return r, codeTooLarge, tooLarge(p.s.cfg.MaxFrame)
	case !ok || bytes.IndexByte(line, '\n') >= 0:
		return r, codeInvalid, invalidMessage + "not one line"
	}
	r, code, message = p.s.judge(line)
	if code == "" && r.id != n.id {
		return r, codeInvalid, invalidMessage + "id is not that of the file's name"
	}
	return r, code, message
}

// answer writes the response, unless nobody waits for it.
func (p *poll) answer(ctx context.Context, n callName, parts ...[]byte) error {
	if ctx.Err() != nil {
		return nil
	}
	if err := p.write(ctx, responseName+n.String(), parts...); err != nil {
		return fmt.Errorf("write answer: %w", err)
	}
	return nil
}
