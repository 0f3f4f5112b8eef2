package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// reapers is how many containers are removed at once.
const reapers = 8

// Reap removes what engines of this user on this machine have left: containers,
// volumes and state of leases that nobody holds. It says what it removed. What
// belongs to an engine that lives, to another user or another machine is never
// touched. Create does it once by itself.
func (b *Backend) Reap(ctx context.Context) ([]string, error) {
	if !b.enter() {
		return nil, fmt.Errorf("%s: reap: %w", b.config.Name, os.ErrClosed)
	}
	defer b.using.Done()
	d, err := b.connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: reap: %w", b.config.Name, err)
	}
	removed, err := b.reap(ctx, d)
	if err != nil {
		err = fmt.Errorf("%s: reap: %w", b.config.Name, err)
	}
	return removed, err
}

func (b *Backend) reap(ctx context.Context, d *daemon) (removed []string, err error) {
	sweepGuards(b.log)
	owner, err := openState(b.config.StateDir)
	if err != nil {
		return nil, err
	}
	// Labels are looked at before the leases: what is made meanwhile carries a
	// lease that is held.
	list, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", labelOwner+"="+owner)})
	if err != nil {
		return nil, d.failed("list containers", err)
	}
	of := map[string][]string{}
	for _, c := range list.Items {
		if id := c.Labels[labelLease]; isName(id) && c.Labels[labelOwner] == owner {
			of[id] = append(of[id], c.ID)
		}
	}
	shown, _ := os.ReadDir(filepath.Join(b.config.StateDir, shownDir))
	for _, e := range shown {
		if isName(e.Name()) {
			of[e.Name()] = of[e.Name()]
		}
	}
	for _, id := range leases(b.config.StateDir) {
		if _, ok := of[id]; !ok {
			of[id] = nil
		}
	}
	b.mu.Lock()
	own := b.lease
	b.mu.Unlock()
	living := 0 // other engines
	var errs []error
	for id, containers := range of {
		l := deadLease(b.config.StateDir, owner, id)
		if l == nil {
			if own == nil || own.id != id {
				living++
			}
			continue
		}
		gone, err := b.removeAll(ctx, d, containers)
		removed = append(removed, gone...)
		if err != nil {
			l.drop() // the next one does it
			errs = append(errs, err)
			continue
		}
		errs = append(errs, l.release())
	}
	if living == 0 { // one of them may be about to use a volume
		volumes, err := b.reapVolumes(ctx, d, owner)
		removed, errs = append(removed, volumes...), append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// removeAll removes containers, several at once.
func (b *Backend) removeAll(ctx context.Context, d *daemon, ids []string) (removed []string, err error) {
	var mu sync.Mutex
	var errs []error
	next := make(chan string)
	var all sync.WaitGroup
	for range min(reapers, len(ids)) {
		all.Go(func() {
			for id := range next {
				err := d.remove(ctx, id)
				mu.Lock()
				if err != nil {
					errs = append(errs, d.failed("remove container "+id[:min(12, len(id))], err))
				} else {
					removed = append(removed, "container "+id[:min(12, len(id))])
				}
				mu.Unlock()
			}
		})
	}
	for _, id := range ids {
		next <- id
	}
	close(next)
	all.Wait()
	return removed, errors.Join(errs...)
}

// reapVolumes removes volumes with guest programs of other versions that nobody
// uses.
func (b *Backend) reapVolumes(ctx context.Context, d *daemon, owner string) (removed []string, err error) {
	list, err := d.api.VolumeList(ctx, client.VolumeListOptions{Filters: client.Filters{}.Add("label", labelOwner+"="+owner)})
	if err != nil {
		return nil, d.failed("list volumes", err)
	}
	b.mu.Lock()
	current := map[string]bool{}
	for _, name := range b.guests {
		current[name] = true
	}
	b.mu.Unlock()
	var errs []error
	for _, v := range list.Items {
		if v.Labels[labelKind] != "guest" || !strings.HasPrefix(v.Name, prefix) || current[v.Name] {
			continue
		}
		_, err := d.api.VolumeRemove(ctx, v.Name, client.VolumeRemoveOptions{})
		switch {
		case err == nil:
			removed = append(removed, "volume "+v.Name)
		case !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err): // in use, or gone
			errs = append(errs, d.failed("remove volume "+v.Name, err))
		}
	}
	return removed, errors.Join(errs...)
}

// tidy does, once and beside everything else, what Reap does.
func (b *Backend) tidy(d *daemon, _ *lease) {
	b.mu.Lock()
	done := b.reaped
	b.reaped = true
	b.mu.Unlock()
	if done || b.config.KeepStrays {
		return
	}
	b.background(func() {
		removed, err := b.reap(b.closing, d)
		if len(removed) > 0 {
			b.log.Info("removed what a killed engine left behind", "what", removed)
		}
		if err != nil && b.closing.Err() == nil {
			b.log.Warn("cannot remove all that killed engines left behind", "err", err)
		}
	})
}
