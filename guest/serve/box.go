package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// box is one sandbox, for as long as its channel is open.
type box struct {
	v       *server
	inner   sandbox.Sandbox
	info    sandbox.Info
	ch      ssh.Channel
	hurry   context.Context // done: what still runs is killed at once
	rush    context.CancelFunc
	orders  chan struct{}
	sockets chan struct{}
	using   sync.WaitGroup
	closing atomic.Bool
	over    chan struct{} // closed when nothing of the box is left

	writing sync.Mutex // one answer at a time

	mu        sync.Mutex
	listeners map[string]net.Listener
}

// openBox makes a box and serves its orders until it is closed.
func (v *server) openBox(c ssh.NewChannel) {
	b, err := v.makeBox(c.ExtraData())
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, reason(err))
		return
	}
	defer b.rush()
	ch, requests, err := c.Accept()
	if err != nil {
		b.rush()
		b.close()
		return
	}
	b.ch = ch
	go ssh.DiscardRequests(requests)
	if inner, ok := b.inner.(sandbox.Losable); ok {
		go func() {
			select {
			case <-inner.Lost(): // as it is here, it is for the engine; unless that has closed it
				if !b.closing.Load() {
					ch.Close()
				}
			case <-b.over:
			}
		}()
	}
	b.answer(sshwire.Answer{Info: &b.info})
	b.obey()
	b.rush() // no more orders: the engine is gone, or wants it to be over
	b.close()
	b.using.Wait()
	ch.Close()
}

func (v *server) makeBox(extra []byte) (*box, error) {
	var request sshwire.BoxRequest
	if err := json.Unmarshal(extra, &request); err != nil {
		return nil, fmt.Errorf("the request for a box: %w", err)
	}
	inner, err := v.config.Open(v.ended, request)
	if err != nil {
		return nil, bare(err)
	}
	b := &box{
		v: v, inner: inner, info: inner.Info(), listeners: map[string]net.Listener{}, over: make(chan struct{}),
		orders: make(chan struct{}, mostOrders), sockets: make(chan struct{}, mostSockets),
	}
	b.info.Guest = v.config.Guest
	if b.info.Env == nil {
		b.info.Env = v.config.Env
	}
	b.hurry, b.rush = context.WithCancel(v.ended)
	v.mu.Lock()
	taken := v.boxes[b.info.ID] != nil
	if !taken {
		v.boxes[b.info.ID] = b
	}
	v.mu.Unlock()
	if taken {
		b.rush()
		return nil, errors.Join(fmt.Errorf("there is a box %q already", b.info.ID), inner.Close(b.hurry))
	}
	return b, nil
}

// bare is an error without the name of the backend here, which is none that the
// engine's user has chosen.
func bare(err error) error {
	if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "local: ") {
		return inner
	}
	return err
}

// close closes the box, gracefully while hurry is not done.
func (b *box) close() error {
	b.closing.Store(true)
	err := b.inner.Close(b.hurry)
	b.v.mu.Lock()
	defer b.v.mu.Unlock()
	if b.v.boxes[b.info.ID] == b {
		delete(b.v.boxes, b.info.ID)
		close(b.over)
	}
	return err
}

// obey reads orders until there are no more.
func (b *box) obey() {
	lines := bufio.NewScanner(b.ch)
	lines.Buffer(nil, sshwire.MaxPart)
	for lines.Scan() {
		var o sshwire.Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil || o.ID == 0 {
			return
		}
		b.orders <- struct{}{}
		b.using.Go(func() {
			defer func() { <-b.orders }()
			b.answer(b.do(o))
		})
	}
}

// journey is how long an order may have been under way: its age is as old as
// that when it comes.
const journey = 100 * time.Millisecond

// do carries out one order.
func (b *box) do(o sshwire.Order) sshwire.Answer {
	a := sshwire.Answer{ID: o.ID}
	var err error
	switch o.Op {
	case sshwire.OrderListen:
		a.Path, err = b.listen()
	case sshwire.OrderUnlisten:
		err = b.unlisten(o.Path)
	case sshwire.OrderFuture:
		if auditor, ok := b.inner.(sandbox.Auditor); ok {
			a.Future, a.Complete, err = auditor.FutureInputs(b.hurry, time.Now().Add(-o.Age-journey))
		} else {
			a.Complete = true
		}
	case sshwire.OrderClose:
		err = b.close()
	default:
		err = fmt.Errorf("order %.40q: %w", o.Op, sandbox.ErrUnsupported)
	}
	if err != nil {
		a.Failure = sshwire.NewFailure(bare(err))
	}
	return a
}

func (b *box) answer(a sshwire.Answer) {
	line, err := json.Marshal(a)
	if err != nil || len(line) >= sshwire.MaxLine {
		line, _ = json.Marshal(sshwire.Answer{ID: a.ID, Failure: &sshwire.Failure{Text: "the answer is too long"}})
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	_, _ = b.ch.Write(append(line, '\n'))
}
