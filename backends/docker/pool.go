package docker

import (
	"errors"
	"sync"
	"time"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// mostKinds bounds how many kinds of containers are kept ready; the one that
// was used the longest time ago gives way.
const mostKinds = 4

// refillPause is how long after one was taken another container is made: that
// takes more of a machine than a box's first command.
const refillPause = 300 * time.Millisecond

// pool are containers that are ready for a box.
type pool struct {
	mu     sync.Mutex
	closed bool
	kinds  []*kind // the last used first
}

// kind are containers of equal orders.
type kind struct {
	key    string
	ready  []*machine
	making int
}

// take returns a container that is ready, nil when there is none, and those
// that have died or are not any more what was ordered, to be ended.
func (p *pool) take(key string) (m *machine, stale []*machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.kinds {
		for k.key == key && len(k.ready) > 0 {
			m, k.ready = k.ready[0], k.ready[1:]
			if m.alive() {
				return m, stale
			}
			stale = append(stale, m)
		}
	}
	return nil, stale
}

// discard ends containers, in the background while there is one.
func (b *Backend) discard(list []*machine) {
	for _, m := range list {
		if !b.background(func() { _ = m.end() }) {
			_ = m.end()
		}
	}
}

// refill makes in the background what a kind that was just used lacks.
func (b *Backend) refill(d *daemon, spec sandbox.Spec, key string) {
	if b.config.Pool <= 0 || key == "" {
		return
	}
	k, lacks, old := b.pool.use(key, b.config.Pool)
	b.discard(old)
	for range lacks {
		started := b.background(func() {
			select { // what was just taken has the machine to itself
			case <-time.After(refillPause):
			case <-b.closing.Done():
			}
			m, err := b.ready(d, spec, key)
			if err != nil && b.closing.Err() == nil {
				b.log.Warn("cannot keep a container ready", "err", err)
			}
			if !b.pool.put(k, m) && m != nil {
				_ = m.end()
			}
		})
		if !started {
			b.pool.put(k, nil)
		}
	}
}

// ready makes a container like another one.
func (b *Backend) ready(d *daemon, spec sandbox.Spec, key string) (*machine, error) {
	o, err := b.order(b.closing, d, spec)
	if err != nil {
		return nil, err
	}
	if o.key() != key {
		return nil, errors.New("what was asked for means something else by now")
	}
	m, err := b.make(b.closing, d, o)
	if err != nil {
		return nil, err
	}
	if err := m.prepare(b.closing, spec); err != nil {
		return nil, errors.Join(err, m.end())
	}
	return m, nil
}

// background does something that Close waits for; false, and nothing is done,
// when it is too late.
func (b *Backend) background(do func()) bool {
	if !b.enter() {
		return false
	}
	go func() {
		defer b.using.Done()
		do()
	}()
	return true
}

// use notes that a kind was used. It returns how many are to be made, and what
// has to give way.
func (p *pool) use(key string, want int) (k *kind, lacks int, old []*machine) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, one := range p.kinds {
		if one.key == key {
			k = one
			p.kinds = append(p.kinds[:i], p.kinds[i+1:]...)
			break
		}
	}
	if k == nil {
		k = &kind{key: key}
	}
	p.kinds = append([]*kind{k}, p.kinds...)
	for len(p.kinds) > mostKinds {
		last := p.kinds[len(p.kinds)-1]
		old = append(old, last.ready...)
		last.ready = nil
		p.kinds = p.kinds[:len(p.kinds)-1]
	}
	lacks = max(0, want-len(k.ready)-k.making)
	k.making += lacks
	return k, lacks, old
}

// put adds what was made, nil if it failed; false when nobody wants it any more.
func (p *pool) put(k *kind, m *machine) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	k.making--
	wanted := !p.closed
	if wanted {
		wanted = false
		for _, one := range p.kinds {
			wanted = wanted || one == k
		}
	}
	if wanted && m != nil {
		k.ready = append(k.ready, m)
	}
	return wanted
}

// close ends what is ready.
func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	var all []*machine
	for _, k := range p.kinds {
		all = append(all, k.ready...)
	}
	p.kinds = nil
	p.mu.Unlock()
	errs := make([]error, len(all))
	var ending sync.WaitGroup
	for i, m := range all {
		ending.Go(func() { errs[i] = m.end() })
	}
	ending.Wait()
	return errors.Join(errs...)
}
