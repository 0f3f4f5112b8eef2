package sshbox

import (
	"context"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// start sends a request whose answer has at most so many bytes, and returns
// before it is answered. make gets the request's id.
func (k *sftpConn) start(ctx context.Context, most int, packet func(id uint32) sshwire.Packet) (*sftpCall, error) {
	select {
	case k.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-k.done:
		return nil, k.failure()
	}
	call := &sftpCall{most: max(most, maxSFTPAnswer), answer: make(chan sftpReply, 1)}
	k.mu.Lock()
	k.last++
	id := k.last
	k.calls[id] = call
	k.mu.Unlock()
	select {
	case k.out <- packet(id).Frame():
		return call, nil
	case <-ctx.Done():
		if k.take(id) != nil { // else a server has answered what was never sent
			<-k.slots
		}
		return nil, context.Cause(ctx)
	case <-k.done:
		return nil, k.failure()
	}
}

// wait waits for the answer. When ctx is done first, the answer will be given
// to late, if there is one.
func (k *sftpConn) wait(ctx context.Context, call *sftpCall, late func(sftpReply)) (sftpReply, error) {
	select {
	case r := <-call.answer:
		return r, nil
	default:
	}
	select {
	case r := <-call.answer:
		return r, nil
	case <-ctx.Done():
	case <-k.done:
		select {
		case r := <-call.answer: // it came just before the end
			return r, nil
		default:
		}
		return sftpReply{}, k.failure()
	}
	k.mu.Lock()
	select {
	case r := <-call.answer:
		k.mu.Unlock()
		return r, nil
	default:
	}
	call.left, call.late, call.counts = true, late, true
	k.forsaken++
	silent := k.forsaken > maxSFTPForsaken
	k.mu.Unlock()
	if silent {
		k.fail(errSFTPSilent)
	}
	return sftpReply{}, context.Cause(ctx)
}

// forsake says that the answers to these are not needed.
func (k *sftpConn) forsake(calls ...*sftpCall) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, call := range calls {
		call.left = true
	}
}

// do sends a request and waits for its answer.
func (k *sftpConn) do(ctx context.Context, most int, late func(sftpReply), packet func(id uint32) sshwire.Packet) (sftpReply, error) {
	call, err := k.start(ctx, most, packet)
	if err != nil {
		return sftpReply{}, err
	}
	return k.wait(ctx, call, late)
}

// broken ends the connection because of a malformed answer.
func (k *sftpConn) broken() error {
	k.fail(sshwire.ErrSFTP)
	return k.failure()
}

// refusal is what a status says. An error that is no refusal is about the
// connection.
func (k *sftpConn) refusal(r *sftpReply) error {
	if r.kind != sshwire.SFTPStatus {
		return k.broken()
	}
	code, f := r.body.Status()
	if r.body.Bad {
		return k.broken()
	}
	return statusError(code, f, k.guest)
}

// status is the error of a request that is answered with nothing more.
func (k *sftpConn) status(ctx context.Context, packet func(id uint32) sshwire.Packet) error {
	r, err := k.do(ctx, 0, nil, packet)
	if err != nil {
		return err
	}
	return k.refusal(&r)
}

// handle is the handle a request is answered with. One that comes too late is
// given to late, if that is not nil, else closed.
func (k *sftpConn) handle(ctx context.Context, late func(handle string), packet func(id uint32) sshwire.Packet) (string, error) {
	if late == nil {
		late = k.closeLater
	}
	r, err := k.do(ctx, 0, func(r sftpReply) {
		if h := r.body.Text(256); r.kind == sshwire.SFTPHandle && !r.body.Bad {
			late(h)
		}
	}, packet)
	if err != nil {
		return "", err
	}
	if r.kind != sshwire.SFTPHandle {
		if err := k.refusal(&r); err != nil {
			return "", err
		}
		return "", k.broken()
	}
	h := r.body.Text(256)
	if !r.body.End() || h == "" {
		return "", k.broken()
	}
	return h, nil
}

// closeLater closes a handle without waiting.
func (k *sftpConn) closeLater(handle string) {
	if call, err := k.start(context.Background(), 0, func(id uint32) sshwire.Packet {
		return sshwire.NewPacket(nil, sshwire.SFTPClose, id).Text(handle)
	}); err == nil {
		k.forsake(call)
	}
}
