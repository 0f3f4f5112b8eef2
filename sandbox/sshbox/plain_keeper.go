package sshbox

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

const (
	// beat is how often the keeper hears from us; it ends the box after 30 s.
	beat = 8 * time.Second
	// maxHello bounds what a host says before and of the keeper: login banners
	// and the environment.
	maxHello = 1 << 20
)

// keeper is the channel to plain_keeper.sh.
type keeper struct {
	link *Link
	ch   ssh.Channel
	gone chan struct{} // closed when the channel has ended
	trip atomic.Int64  // ns, how long a beat took

	sending sync.Mutex

	mu      sync.Mutex
	last    uint64
	closing bool
	waiting map[uint64]chan int
}

// keep starts the keeper of a box.
func (l *Link) keep(ctx context.Context, spec PlainSpec) (_ *keeper, h plainHost, err error) {
	ch, requests, err := l.channel(ctx, "session", nil)
	if err != nil {
		return nil, h, err
	}
	go ssh.DiscardRequests(requests)
	var complaint tail
	go func() { _, _ = io.Copy(&complaint, ch.Stderr()) }()
	defer func() {
		if err != nil {
			ch.Close()
		}
	}()
	mark := "hermes-exec-" + rand.Text()
	in := bufio.NewReaderSize(ch, 4<<10)
	hello, err := ask(ctx, l, func() ([]byte, error) {
		if err := execute(ch, "exec /bin/sh -s"); err != nil {
			return nil, err
		}
		if _, err := ch.Write(keeperSource(spec, mark, "hermes-exec-"+strings.ToLower(rand.Text()[:16]))); err != nil {
			return nil, err
		}
		return readHello(in, mark)
	}, func([]byte) { ch.Close() })
	if err != nil {
		if l.Err() == nil && ctx.Err() == nil {
			return nil, h, fmt.Errorf("the host's /bin/sh does not answer as one does: %w%s: %w", err, complaint.said(), sandbox.ErrUnavailable)
		}
		return nil, h, err
	}
	if h, err = parseHello(hello); err != nil {
		return nil, h, err
	}
	k := &keeper{link: l, ch: ch, gone: make(chan struct{}), waiting: map[uint64]chan int{}}
	go k.listen(in)
	go k.beat()
	return k, h, nil
}

// execute asks for a command by the user's login shell.
func execute(ch ssh.Channel, command string) error {
	ok, err := ch.SendRequest("exec", true, ssh.Marshal(struct{ Command string }{command}))
	if err == nil && !ok {
		err = errors.New("the server runs no commands for this user")
	}
	return err
}

// readHello returns what stands between the first line that is the mark and
// the next.
func readHello(in *bufio.Reader, mark string) ([]byte, error) {
	text, err := readTo(in, "\n"+mark+"\n", maxHello)
	if err == nil {
		text, err = readTo(in, mark+"\n", maxHello)
	}
	if err != nil {
		return nil, fmt.Errorf("%w after %.200q", err, bytes.TrimSpace(text))
	}
	return text, nil
}

// readTo reads up to and with the mark and returns what is before it.
func readTo(in *bufio.Reader, mark string, most int) ([]byte, error) {
	var text []byte
	for len(text) < most {
		part, err := in.ReadSlice('\n')
		text = append(text, part...)
		if bytes.HasSuffix(text, []byte(mark)) {
			return text[:len(text)-len(mark)], nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
	return text, errors.New("too much output")
}

// listen hands out answers until there are no more.
func (k *keeper) listen(in *bufio.Reader) {
	for {
		part, err := in.ReadSlice('\n')
		id, n, ok := strings.Cut(strings.TrimSpace(string(part)), " ")
		number, idErr := strconv.ParseUint(id, 10, 64)
		answer, nErr := strconv.Atoi(n)
		if err != nil || !ok || idErr != nil || nErr != nil {
			break
		}
		k.mu.Lock()
		to := k.waiting[number]
		delete(k.waiting, number)
		k.mu.Unlock()
		if to == nil {
			break // to nothing that was asked
		}
		to <- answer
	}
	k.ch.Close()
	_, _ = io.Copy(io.Discard, in)
	close(k.gone)
}

// beat lets the keeper know that somebody is there.
func (k *keeper) beat() {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for {
		began := time.Now()
		if _, err := k.order(context.Background(), "beat"); err != nil {
			return
		}
		k.trip.Store(int64(time.Since(began)))
		select {
		case <-tick.C:
		case <-k.gone:
			return
		}
	}
}

// err tells why the keeper takes no more orders; nil while it does.
func (k *keeper) err() error {
	select {
	case <-k.gone:
	case <-k.link.done:
	default:
		return nil
	}
	if err := k.link.Err(); err != nil {
		return err
	}
	return fmt.Errorf("the box's keeper has ended: %w", sandbox.ErrLost)
}

// order gives an order, a line without its number, perhaps with more lines
// after it, and waits for the answer: a number, less than 0 when it failed.
func (k *keeper) order(ctx context.Context, order string) (int, error) {
	answer := make(chan int, 1)
	k.mu.Lock()
	if k.closing && !strings.HasPrefix(order, "close") {
		k.mu.Unlock()
		return 0, sandbox.ErrClosed
	}
	k.last++
	id := k.last
	k.waiting[id] = answer
	k.mu.Unlock()
	k.sending.Lock()
	_, err := fmt.Fprintf(k.ch, "%d %s\n", id, order)
	k.sending.Unlock()
	if err != nil {
		if lost := k.link.Err(); lost != nil {
			return 0, lost
		}
		return 0, fmt.Errorf("the box's keeper has ended: %w", sandbox.ErrLost)
	}
	late := time.NewTimer(k.link.config.Patience)
	defer late.Stop()
	select {
	case n := <-answer:
		return n, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-late.C:
		k.link.lose(errSilent)
		return 0, fmt.Errorf("%w: %w", sandbox.ErrLost, errSilent)
	case <-k.gone:
	case <-k.link.done:
	}
	select {
	case n := <-answer:
		return n, nil
	default:
		return 0, k.err()
	}
}

// signal sends a signal to the process groups of all whose mark begins with
// tag, and to the group of pid unless it is 0. It returns how many there were.
func (k *keeper) signal(ctx context.Context, name, tag string, pid int) (int, error) {
	return k.order(ctx, fmt.Sprintf("signal %s %s %d", name, tag, pid))
}

// close ends the box.
func (k *keeper) close() error {
	k.mu.Lock()
	k.closing = true
	k.mu.Unlock()
	n, err := k.order(context.Background(), "close")
	k.sending.Lock() // an order may still be on its way
	_ = k.ch.CloseWrite()
	k.sending.Unlock()
	k.ch.Close()
	select {
	case <-k.gone:
	case <-time.After(k.link.config.Patience):
		k.link.lose(errSilent)
	}
	if err == nil && n != 0 {
		err = errors.New("the scratch directory cannot be removed, or processes in it cannot be killed")
	}
	return err
}

// tail keeps the beginning of what is written, for an error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b[:min(len(b), 1000-len(t.text))]...)
	return len(b), nil
}

// said is what stands in an error, "" if nothing was said.
func (t *tail) said() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := strings.TrimSpace(string(t.text)); text != "" {
		return fmt.Sprintf(" (%.300q)", text)
	}
	return ""
}
