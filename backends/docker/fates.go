package docker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/moby/moby/api/types/events"
	"github.com/moby/moby/client"
)

// fates follows what becomes of an engine's containers, by the daemon's events:
// a container that removes itself cannot be asked afterwards.
type fates struct {
	mu   sync.Mutex
	of   map[string]*fate
	stop context.CancelFunc // ends the stream; nil when there is none
	done chan struct{}      // closed when the stream has ended
}

// fate is what became of one container.
type fate struct {
	dead chan struct{} // closed when it is known to have ended
	gone chan struct{} // closed when it is removed

	mu     sync.Mutex
	code   int
	signal string // the last one somebody sent through the daemon
	ooms   int
	told   time.Time // when a command was last said to have met the memory limit
	lost   error     // the stream of events has ended
}

// watch begins to follow the containers of a lease. It returns once the daemon
// tells events.
func (f *fates) watch(d *daemon, lease string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream := d.api.Events(ctx, client.EventsListOptions{Filters: client.Filters{}.
		Add("type", "container").Add("label", labelLease+"="+lease)})
	select {
	case err := <-stream.Err:
		cancel()
		return d.failed("follow the containers", err)
	default:
	}
	if f.of == nil {
		f.of = map[string]*fate{}
	}
	done := make(chan struct{})
	f.stop, f.done = cancel, done
	go func() {
		defer close(done)
		for {
			select {
			case m := <-stream.Messages:
				f.note(m)
			case err := <-stream.Err:
				cancel()
				f.ended(err)
				return
			}
		}
	}()
	return nil
}

// ended tells all who wait that nothing will be known any more.
func (f *fates) ended(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stop = nil
	for id, one := range f.of {
		one.mu.Lock()
		one.lost = fmt.Errorf("the docker engine stopped or cannot be reached any more (%w)", err)
		one.died()
		one.removed()
		one.mu.Unlock()
		delete(f.of, id)
	}
}

// of returns the fate of a container, which must not have been started yet.
func (f *fates) add(id string) *fate {
	one := &fate{dead: make(chan struct{}), gone: make(chan struct{})}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop == nil {
		one.lost = errors.New("the docker engine stopped or cannot be reached any more")
		one.died()
		one.removed()
		return one
	}
	f.of[id] = one
	return one
}

func (f *fates) forget(id string) {
	f.mu.Lock()
	delete(f.of, id)
	f.mu.Unlock()
}

func (f *fates) note(m events.Message) {
	f.mu.Lock()
	one := f.of[m.Actor.ID]
	f.mu.Unlock()
	if one == nil {
		return
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	switch m.Action {
	case events.ActionOOM:
		one.ooms++
	case events.ActionKill:
		one.signal = m.Actor.Attributes["signal"]
	case events.ActionDie:
		one.code, _ = strconv.Atoi(m.Actor.Attributes["exitCode"])
		one.died()
	case events.ActionDestroy:
		one.died()
		one.removed()
	}
}

func (f *fate) died()    { closeOnce(f.dead) }
func (f *fate) removed() { closeOnce(f.gone) }

// closeOnce closes a channel that is closed by one goroutine at a time.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// oom is how often a process of the container was ended for want of memory.
func (f *fate) oom() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ooms
}

// oomSince waits a moment for the news that the memory limit was met: it comes
// by another way than the end of the process.
func (f *fate) oomSince(before int, wait time.Duration) bool {
	for stop := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		if f.oom() > before {
			return true
		}
		if time.Now().After(stop) {
			return false
		}
	}
}

// echo is how long after an end for want of memory the engine may tell of it
// again.
const echo = time.Second

// outOfMemory tells whether the memory limit ended a command that began at a
// time, when the container had so many such ends behind it. One that comes right
// after another must have had some memory itself: the news may be the other's.
func (f *fate) outOfMemory(before int, began time.Time, rss, limit int64) bool {
	wait := oomNews
	if rss > limit/4*3 {
		wait = oomNewsNear
	}
	if !f.oomSince(before, wait) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if began.Sub(f.told) < echo && rss < limit/4 {
		return false
	}
	f.told = time.Now()
	return true
}

// How long the news may take of what ended a box, and of the end of a container
// whose guest has: it comes by another way.
const (
	boxNews   = 2 * time.Second
	deathNews = 10 * time.Second
)

// await waits until the container is known to have ended, or to have met its
// memory limit more often than before. guest is closed when its guest has ended.
func (f *fate) await(before int, guest <-chan struct{}) (dead, oom bool) {
	for began, wait := time.Now(), boxNews; ; time.Sleep(5 * time.Millisecond) {
		select {
		case <-f.dead:
			return true, false
		default:
		}
		if f.oom() > before {
			return false, true
		}
		select {
		case <-guest:
			wait = deathNews
		default:
		}
		if time.Since(began) > wait {
			return false, false
		}
	}
}

// settle waits, after an end that a stopping engine may have made, or the
// container's memory limit if it is limited, until it is known whether that was it.
func (f *fate) settle(wait time.Duration, limited bool) {
	for stop := time.Now().Add(wait); time.Now().Before(stop); time.Sleep(10 * time.Millisecond) {
		f.mu.Lock()
		killed := limited && f.signal == "" && f.code == 137 && f.ooms == 0
		open := f.lost == nil && (f.signal == "15" || killed)
		f.mu.Unlock()
		if !open {
			return
		}
	}
}

// why tells in words what ended a container.
func (f *fate) why() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.lost != nil:
		return f.lost
	case f.signal != "": // also after a command that met the memory limit
		return fmt.Errorf("somebody ended its container through the docker engine (signal %s), as docker kill, stop and rm -f do", f.signal)
	case f.ooms > 0 && f.code == 137:
		return errOOM
	case f.code == 137:
		return errors.New("its container was killed")
	}
	return fmt.Errorf("its container ended with status %d", f.code)
}

// errOOM tells that the guest itself met the memory limit.
var errOOM = errors.New("its container met the memory limit")

func (f *fates) close() {
	f.mu.Lock()
	stop, done := f.stop, f.done
	f.mu.Unlock()
	if stop != nil {
		stop()
	}
	if done != nil {
		<-done
	}
}
