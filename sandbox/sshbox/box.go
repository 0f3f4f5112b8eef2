package sshbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/sshwire"
)

// box is a sandbox in front of a serving guest.
type box struct {
	link  *Link
	ch    ssh.Channel // orders and answers
	info  sandbox.Info
	env   []string // what BoxRequest.Env was; the guest knows it too
	files *remoteFiles
	gone  chan struct{}   // closed when the channel has ended: the box is over
	ctx   context.Context // done when Close has begun
	begin context.CancelCauseFunc

	mu      sync.Mutex
	closed  bool
	using   sync.WaitGroup // Starts and Listens under way, and their processes
	last    uint64
	waiting map[uint64]chan sshwire.Answer
	sending sync.Mutex

	once     sync.Once
	closeErr error
}

var (
	_ sandbox.Sandbox = (*box)(nil)
	_ sandbox.Auditor = (*box)(nil)
)

func (l *Link) open(ctx context.Context, request sshwire.BoxRequest) (*box, error) {
	extra, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	if len(extra) > sshwire.MaxBox {
		return nil, fmt.Errorf("the environment and the policy file are too long: %d bytes, at most %d", len(extra), sshwire.MaxBox)
	}
	l.serve()
	ch, requests, err := l.channel(ctx, sshwire.ChannelBox, extra)
	if err != nil {
		return nil, rejection(err)
	}
	go ssh.DiscardRequests(requests)
	b := &box{link: l, ch: ch, env: request.Env, gone: make(chan struct{}), waiting: map[uint64]chan sshwire.Answer{}}
	b.ctx, b.begin = context.WithCancelCause(context.WithoutCancel(ctx))
	hello := make(chan sshwire.Answer, 1)
	b.waiting[0] = hello
	go b.listenToAnswers()
	a, err := b.await(ctx, hello, l.config.Patience)
	if err == nil && a.Info == nil {
		err = fmt.Errorf("the guest said nothing about the box: %w", sandbox.ErrLost)
	}
	if err != nil {
		ch.Close()
		return nil, err
	}
	b.info = *a.Info
	b.info.Backend, b.info.UID = l.config.Name, -1
	b.files = newFiles(b.sftp)
	return b, nil
}

// rejection is why the guest would not make a box.
func rejection(err error) error {
	var refused *ssh.OpenChannelError
	if !errors.As(err, &refused) {
		return err
	}
	var f sshwire.Failure
	if json.Unmarshal([]byte(refused.Message), &f) != nil || f.Text == "" {
		return fmt.Errorf("the guest refuses: %.200q", refused.Message)
	}
	return &f
}

// listenToAnswers hands out answers until there are no more.
func (b *box) listenToAnswers() {
	lines := bufio.NewScanner(b.ch)
	lines.Buffer(nil, sshwire.MaxLine)
	for lines.Scan() {
		var a sshwire.Answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			break
		}
		b.mu.Lock()
		answer := b.waiting[a.ID]
		delete(b.waiting, a.ID)
		b.mu.Unlock()
		if answer == nil {
			break // to nothing that was asked
		}
		answer <- a
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		b.link.log.Warn("the guest's answer is too long", "backend", b.link.config.Name)
	}
	b.ch.Close()
	_, _ = io.Copy(io.Discard, b.ch) // what it still says
	close(b.gone)
}

// await waits for an answer.
func (b *box) await(ctx context.Context, answer chan sshwire.Answer, patience time.Duration) (sshwire.Answer, error) {
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case a := <-answer:
		if a.Failure != nil {
			return a, a.Failure
		}
		return a, nil
	case <-ctx.Done():
		return sshwire.Answer{}, context.Cause(ctx)
	case <-late:
		b.link.lose(errSilent)
	case <-b.gone:
		select {
		case a := <-answer:
			if a.Failure != nil {
				return a, a.Failure
			}
			return a, nil
		default:
		}
	case <-b.link.done:
	}
	if err := b.link.Err(); err != nil {
		return sshwire.Answer{}, err
	}
	return sshwire.Answer{}, fmt.Errorf("the box has ended: %w", sandbox.ErrLost)
}

// send sends an order; its answer will be in the channel.
func (b *box) send(o sshwire.Order) (chan sshwire.Answer, error) {
	answer := make(chan sshwire.Answer, 1)
	b.mu.Lock()
	b.last++
	o.ID = b.last
	b.waiting[o.ID] = answer
	b.mu.Unlock()
	line, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	b.sending.Lock()
	defer b.sending.Unlock()
	if _, err := b.ch.Write(append(line, '\n')); err != nil {
		if lost := b.link.Err(); lost != nil {
			return nil, lost
		}
		return nil, fmt.Errorf("the box has ended: %w", sandbox.ErrLost)
	}
	return answer, nil
}

// order sends an order and waits for its answer.
func (b *box) order(ctx context.Context, o sshwire.Order) (sshwire.Answer, error) {
	answer, err := b.send(o)
	if err != nil {
		return sshwire.Answer{}, err
	}
	return b.await(ctx, answer, b.link.config.Patience)
}

func (b *box) Info() sandbox.Info {
	info := b.info
	info.Enforcement = append(sandbox.Enforcement{}, b.info.Enforcement...)
	info.Env = append([]string(nil), b.info.Env...)
	return info
}

func (b *box) Files() sandbox.Files { return b.files }

// FutureInputs implements sandbox.Auditor: the guest looks.
func (b *box) FutureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	if err := b.use(); err != nil {
		return nil, false, fmt.Errorf("%s: future inputs: %w", b.link.config.Name, err)
	}
	defer b.using.Done()
	a, err := b.order(ctx, sshwire.Order{Op: sshwire.OrderFuture, Age: time.Since(since)})
	if err != nil {
		return nil, false, fmt.Errorf("%s: future inputs: %w", b.link.config.Name, err)
	}
	return a.Future, a.Complete, nil
}

// use registers something that Close waits for.
func (b *box) use() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return sandbox.ErrClosed
	}
	select {
	case <-b.gone:
		if err := b.link.Err(); err != nil {
			return err
		}
		return fmt.Errorf("the box has ended: %w", sandbox.ErrLost)
	default:
	}
	b.using.Add(1)
	return nil
}

// sftp opens an sftp connection into the box.
func (b *box) sftp(ctx context.Context) (io.ReadWriteCloser, error) {
	if err := b.use(); err != nil {
		return nil, err
	}
	defer b.using.Done()
	s, err := b.session(ctx)
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		for r := range s.requests {
			if f := eventFailure(r); f != nil && len(failed) == 0 {
				failed <- f
			}
			_ = r.Reply(false, nil)
		}
	}()
	ok, err := ask(ctx, b.link, func() (bool, error) {
		return s.ch.SendRequest("subsystem", true, ssh.Marshal(struct{ Name string }{"sftp"}))
	}, nil)
	if err == nil && ok {
		return s.ch, nil
	}
	s.ch.Close()
	if ctx.Err() == nil {
		select {
		case f := <-failed: // closed with the channel
			if f != nil {
				return nil, f
			}
		case <-b.link.done:
		case <-time.After(b.link.config.Patience):
		}
	}
	if err == nil {
		err = fmt.Errorf("the guest serves no files: %w", sandbox.ErrUnsupported)
	}
	return nil, err
}

// Close implements sandbox.Sandbox.
func (b *box) Close(ctx context.Context) error {
	b.once.Do(func() {
		if err := b.close(ctx); err != nil {
			b.closeErr = fmt.Errorf("%s: close: %w", b.link.config.Name, err)
		}
	})
	return b.closeErr
}

func (b *box) close(ctx context.Context) error {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.begin(sandbox.ErrClosed)
	_ = b.files.Close()
	answer, err := b.send(sshwire.Order{Op: sshwire.OrderClose})
	if err == nil {
		if _, err = b.await(ctx, answer, 0); err != nil && ctx.Err() != nil {
			_ = b.ch.CloseWrite() // at once, then
			_, err = b.await(context.Background(), answer, b.link.config.Patience)
		}
	}
	b.ch.Close()
	select {
	case <-b.gone:
	case <-b.link.done:
	case <-time.After(b.link.config.Patience):
		b.link.lose(errSilent)
	}
	b.using.Wait()
	return err
}
