package sshbox

import (
	"context"
	"encoding/json"
	"fmt"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// session is an open session channel, in a box.
type session struct {
	ch       ssh.Channel
	requests <-chan *ssh.Request
}

// session opens a session channel in the box.
func (b *box) session(ctx context.Context) (session, error) {
	ch, requests, err := b.link.channel(ctx, "session", nil)
	if err != nil {
		return session{}, rejection(err)
	}
	s := session{ch, requests}
	if err := s.send(sshwire.RequestBox, ssh.Marshal(sshwire.BoxID{ID: b.info.ID})); err != nil {
		go ssh.DiscardRequests(requests)
		ch.Close()
		return session{}, err
	}
	return s, nil
}

// send sends a request that is not answered.
func (s session) send(name string, payload []byte) error {
	if _, err := s.ch.SendRequest(name, false, payload); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// eventFailure is what a refusal says, nil if the request is none.
func eventFailure(r *ssh.Request) error {
	if r.Type != sshwire.EventFailure {
		return nil
	}
	var f sshwire.Failure
	if json.Unmarshal(r.Payload, &f) != nil || f.Text == "" {
		f.Text = "the guest refuses"
	}
	return &f
}
