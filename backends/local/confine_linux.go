package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/files"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/guards"
)

// host is what a backend keeps to confine boxes.
type host struct {
	spawner  guest.Spawner
	waiting  waiting
	reserved reservations
	maps     guest.IDMaps
	limits   limiter
	sweep    sync.Once // of what killed engines left in workspaces
}

func (h *host) close() {
	h.waiting.close()
	h.reserved.close()
	h.spawner.Close()
	h.maps.Close()
	h.limits.close()
}

// confined is a box's session guest with what belongs to it on this machine.
type confined struct {
	session  *guest.Session
	files    *files.Client
	waiting  *waiting
	mu       sync.Mutex
	covering sync.Mutex
	soon     sync.WaitGroup  // what nobody waits for but close
	life     context.Context // done when close has begun
	end      context.CancelFunc
	first    *os.File // a connection to the file server nobody has taken yet
	scratch  string
	write    []string                      // what the policy lets it write, but for private places
	closed   []string                      // and what in there not
	guarded  map[string]os.FileInfo        // of that, what was there, as it was when it was made read-only
	cover    *cover                        // nil without namespaces; under covering
	before   map[string]guards.Directories // of each tree of write, as the first command finds it
	begun    atomic.Int64                  // when that was asked for, in ns since 1970
	holds    []*reservation
	dir      *lockedDir // the scratch directory on this machine, where it has to be there
	bounds   bounds
}

// confine makes the parts of a confined box, on the highest rung this machine
// has, if that one keeps what the policy does not leave open.
func (b *box) confine(ctx context.Context, spec sandbox.Spec) error {
	p := spec.Policy
	if p.Network != sandbox.NetworkOff && p.Network != sandbox.NetworkHost {
		return fmt.Errorf("network %q: want off or host: %w", p.Network, sandbox.ErrPolicy)
	}
	if len(p.Watch) > 0 {
		return fmt.Errorf("watch: %w", sandbox.ErrPolicy)
	}
	user, err := b.backend.userOf(b.info.WorkDir)
	if err != nil {
		return err
	}
	for _, dir := range p.Private {
		if err := makePrivate(dir, user); err != nil {
			return err
		}
	}
	b.backend.host.sweep.Do(func() {
		for _, left := range (guards.Store{}).Sweep() {
			b.backend.log.Info("removed what a killed engine left behind", "dir", left)
		}
	})
	if b.info.ID == "" {
		b.info.ID = strings.ToLower(rand.Text()[:nameLength])
	}
	err = b.namespaced(ctx, spec, user)
	var setup *guest.SetupError
	if !errors.As(err, &setup) || !setup.Unavailable() {
		return err
	}
	lower := b.walled(ctx, spec, setup)
	if lower != nil {
		return fmt.Errorf("%w (full confinement is not to be had here: %w)", lower, err)
	}
	b.backend.log.Warn("this machine does not allow namespaces: weaker confinement", "err", err)
	return nil
}

// namespaced confines the box in namespaces of its own.
func (b *box) namespaced(ctx context.Context, spec sandbox.Spec, user boxUser) (err error) {
	p := spec.Policy
	network, err := networkClause(&p, guest.LandlockABI(), b.backend.config.Contained)
	if err != nil {
		return err
	}
	guarded, err := guardsClause(&p)
	if err != nil {
		return err
	}
	in := &confined{scratch: scratchInside, write: p.Write, closed: p.DenyWrite, waiting: &b.backend.host.waiting}
	in.life, in.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if err = b.view(ctx, in, spec, user); err != nil {
		return err
	}
	b.enter(in, user.uid, p.Access(b.info.WorkDir).Read)
	b.info.Enforcement = in.enforcement(network, guarded, spec.Resources)
	return nil
}

// view starts the guest and tells it what the box shall see.
func (b *box) view(ctx context.Context, in *confined, spec sandbox.Spec, user boxUser) (err error) {
	p := spec.Policy
	who := guest.Confinement{
		UID: user.uid, GID: user.gid, Mapped: user.foreign, Namespaces: true, NetworkOff: p.Network == sandbox.NetworkOff,
		Base: slices.Contains(p.Read, "/"), Scratch: scratchInside, Size: spec.Resources.Disk,
	}
	if who.Size == 0 {
		who.Size = usualSize(spec.Resources.Memory)
	}
	host, program := &b.backend.host, b.backend.config.Guest
	in.session = host.waiting.take(who)
	waited := in.session != nil
	if !waited {
		if in.session, err = host.spawner.Spawn(program, who); err != nil {
			return err // without a guest no plan matters
		}
	}
	pl, err := newPlan(p, who, user, b.info.Home)
	if err != nil {
		return err
	}
	defer pl.close()
	deny, err := b.reserve(ctx, in, p) // what is not to be written
	if err != nil {
		return err
	}
	if in.bounds, err = b.backend.bound(b.info.ID, spec.Resources, slices.Contains(p.BestEffort, sandbox.ClauseResources)); err != nil {
		return err
	}
	defer in.bounds.sent()
	defer host.waiting.again(&host.spawner, program, who)
	ours, theirs, err := files.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	in.first = ours
	pl.c.Files, pl.c.More = true, true
	pass := append([]*os.File{theirs}, in.bounds.apply(&pl.c)...)
	if pl.c.PIDs == 0 { // nobody set one, but a fork bomb shall end somewhere
		pl.c.PIDs = usualProcesses
	}
	pass = append(pass, pl.trees...)
	pl.c.Trees = len(pl.trees)
	cover := sync.OnceValues(func() ([]guest.Mount, error) {
		covers, err := pl.covers(denied(p), deny)
		if err == nil {
			// As it is before: who replaces something meanwhile is noticed.
			in.guarded, in.cover = identify(deny), newCover(pl, covers, deny)
		}
		return covers, err
	})
	covered, err := in.build(ctx, pl.c, pass, cover)
	if waited && errors.Is(err, guest.ErrGone) { // somebody has ended it while it waited
		_ = in.session.Close()
		if in.session, err = host.spawner.Spawn(program, who); err == nil {
			covered, err = in.build(ctx, pl.c, pass, cover)
		}
	}
	if err != nil {
		return err
	}
	return covered()
}

// build has the guest make the box's view. While the guest is at it, this
// goroutine looks for what is to be covered, which nothing runs before. It
// asks no other one for help: on a small machine that takes the guest's place on
// a processor, and is waited for as long. covered waits until that is covered.
func (in *confined) build(ctx context.Context, c guest.Confinement, pass []*os.File, cover func() ([]guest.Mount, error)) (covered func() error, err error) {
	if err := in.session.BeginConfine(c, pass); err != nil {
		return nil, err
	}
	covers, coverErr := cover()
	if coverErr == nil {
		var locks []*os.File // a reservation outlasts a killed engine as long as its box
		for _, h := range in.holds {
			locks = append(locks, h.Lock())
		}
		covered, coverErr = in.session.BeginMount(covers, locks...)
		in.before = map[string]guards.Directories{}
		for _, root := range in.write {
			in.before[root] = guards.ReadDirectories(root)
		}
	}
	if errors.Is(coverErr, guest.ErrMounts) {
		coverErr = fmt.Errorf("%d places have to be hidden or guarded, which are too many: use a smaller work dir, or fewer repositories in it, or leave theirs open (open_guards: [git]): %w",
			len(covers), sandbox.ErrPolicy)
	}
	if coverErr != nil {
		covered = func() error { return coverErr }
	}
	return covered, in.session.Confined(ctx) // which knows why the mounts could not be asked for
}

// What a box has that sets no bounds of its own.
const usualProcesses = 4096

// usualSize is 4 GiB for scratch and /tmp, at most half of the memory it is in: of
// the machine's, and of the box's limit unless that is 0.
func usualSize(limit int64) int64 {
	size := int64(4 << 30)
	if limit > 0 {
		size = min(size, limit/2)
	}
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) == nil {
		size = min(size, int64(info.Totalram)*int64(info.Unit)/2)
	}
	return size
}

// enter makes in what holds the box. A work directory that cannot be seen in it
// gives way to the scratch directory.
func (b *box) enter(in *confined, uid int, visible bool) {
	in.files = files.NewClient(in.dial)
	b.inside, b.files = in, in.files
	b.info.ScratchDir, b.info.UID, b.info.Rung = in.scratch, uid, sandbox.RungNamespaces
	if in.dir != nil {
		b.info.Rung = sandbox.RungLandlock
	}
	if !visible {
		b.info.WorkDir = in.scratch
	}
}

// dial opens a connection to the box's file server; the first one is open since
// the guest began.
func (in *confined) dial(context.Context) (*os.File, error) {
	in.mu.Lock()
	first := in.first
	in.first = nil
	in.mu.Unlock()
	if first != nil {
		return first, nil
	}
	return in.session.Dial()
}

// identify remembers which files the names are of now.
func identify(names []string) map[string]os.FileInfo {
	were := map[string]os.FileInfo{}
	for _, name := range names {
		if info, err := os.Lstat(name); err == nil {
			were[name] = info
		}
	}
	return were
}

// reserve makes what is guarded and missing, empty or inert, so that there is
// something to guard. It returns what is to be made read-only. What
// exists is asked for too: it may be another session's reservation.
func (b *box) reserve(ctx context.Context, in *confined, p sandbox.Policy) ([]string, error) {
	var deny []string
	for _, root := range p.Write {
		var names []string
		for _, name := range p.DenyWrite {
			if name == root {
				deny = append(deny, name)
			} else if within(name, root) {
				names = append(names, name[len(strings.TrimSuffix(root, "/"))+1:])
			}
		}
		if len(names) == 0 {
			continue
		}
		hold, err := b.backend.host.reserved.hold(ctx, b.backend.log, root, names)
		if isLink(err) {
			err = fmt.Errorf("%w: replace the link by what it leads to, or open the guard: %w", err, sandbox.ErrPolicy)
		}
		if err != nil {
			return nil, err
		}
		in.holds = append(in.holds, hold)
		deny = slices.AppendSeq(deny, maps.Keys(hold.places))
	}
	slices.Sort(deny)
	return slices.Compact(deny), nil
}

// ended is when there is time to think of the next box.
func (in *confined) ended() { in.waiting.soon() }

func (in *confined) command() (supervisor, error) {
	if err := in.keepCovered(); err != nil {
		return nil, err
	}
	in.begun.CompareAndSwap(0, time.Now().UnixNano())
	return in.session.Command()
}

// keepCovered puts a mount again over what has lost it.
func (in *confined) keepCovered() error {
	if in.cover == nil {
		return nil
	}
	in.covering.Lock()
	defer in.covering.Unlock()
	mounts, err := in.cover.missing(slices.Sorted(maps.Keys(in.guarded)))
	if err == nil {
		err = in.session.Mount(mounts)
	}
	return err
}

// terminal makes a terminal of the box's own, else one of this machine's.
func (in *confined) terminal(uid int) (ours, theirs *os.File, err error) {
	if in.dir == nil {
		return in.session.Terminal()
	}
	ours, theirs, err = guest.OpenTerminal()
	if err == nil && uid != os.Getuid() {
		if err = theirs.Chown(uid, -1); err != nil {
			ours.Close()
			theirs.Close()
		}
	}
	return ours, theirs, err
}

// listen implements confinement.
func (in *confined) listen() (wait func(context.Context) (net.Listener, string, error)) {
	if !in.isCovered() { // a command comes next, and would have to wait for it
		in.soon.Go(func() { _ = in.keepCovered() })
	}
	name := strings.ToLower(rand.Text()[:nameLength])
	dir, listening := path.Join(in.scratch, name), in.session.Listen(name)
	remove := func() {
		in.soon.Go(func() {
			select {
			case <-time.After(afterEnd): // when nobody waits for anything
				_ = in.files.RemoveAll(in.life, dir)
			case <-in.life.Done(): // with all of scratch
			}
		})
	}
	return func(ctx context.Context) (net.Listener, string, error) {
		l, err := listening(ctx)
		if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) { // it comes nevertheless
			in.soon.Go(func() {
				if l, err := listening(in.life); err == nil {
					l.Close()
					remove()
				}
			})
		}
		if err != nil {
			return nil, "", err
		}
		return &inner{l, remove}, path.Join(dir, socketName), nil
	}
}

// isCovered reports whether what is to be covered was looked for just now.
func (in *confined) isCovered() bool {
	if in.cover == nil {
		return true
	}
	if !in.covering.TryLock() { // somebody is at it
		return true
	}
	defer in.covering.Unlock()
	return time.Since(in.cover.looked) < coverAfter
}

// inner is a socket in a confined box.
type inner struct {
	net.Listener
	remove func() // its directory, soon
}

// Close closes the socket. Its directory is removed soon after: it is in the
// box's own file system, and gone with that.
func (l *inner) Close() error {
	err := l.Listener.Close()
	l.remove()
	return err
}

func (in *confined) close() error {
	in.end()
	var errs []error
	if in.files != nil {
		errs = append(errs, in.files.Close())
	}
	in.soon.Wait()
	if in.first != nil {
		in.first.Close()
	}
	if in.session != nil {
		errs = append(errs, in.session.Close())
	}
	if in.bounds.group != nil {
		errs = append(errs, in.bounds.group.Close())
	}
	if in.dir != nil {
		errs = append(errs, in.dir.remove())
	}
	for _, h := range in.holds {
		h.release()
	}
	return errors.Join(errs...)
}

// unchanged reports whether a file is the same and was not touched. The number
// alone does not tell: a script can make files until one gets the number of what
// was removed. The change time it cannot set.
func unchanged(was, is os.FileInfo) bool {
	return os.SameFile(was, is) && was.Sys().(*syscall.Stat_t).Ctim == is.Sys().(*syscall.Stat_t).Ctim
}

// futureInputs looks through the writable trees for what is run or trusted
// later.
func (in *confined) futureInputs(ctx context.Context, since time.Time) ([]sandbox.FutureInput, bool, error) {
	var list []sandbox.FutureInput
	all := true
	var kept []string
	for name, was := range in.guarded {
		// What the host has replaced lost its mount with the file: it is looked at.
		if is, err := os.Lstat(name); err == nil && unchanged(was, is) {
			kept = append(kept, name)
		}
	}
	first := since.UnixNano() <= in.begun.Load() // no command ran before
	for _, root := range in.write {
		o := guards.ScanOptions{Guarded: kept, Closed: in.closed}
		if first {
			o.Before = in.before[root]
		}
		found, complete, err := guards.Scan(ctx, root, since, o)
		if err != nil {
			return list, false, err
		}
		list, all = append(list, found...), all && complete
	}
	return list, all, nil
}

// enforcement is what a confined box keeps, and by what.
func (in *confined) enforcement(network, guarded sandbox.Clause, r sandbox.Resources) sandbox.Enforcement {
	files := sandbox.Clause{Clause: sandbox.ClauseFiles, State: sandbox.Enforced, Mechanism: "mount namespace"}
	if abi := in.session.Setup().Landlock; abi > 0 {
		files.Mechanism += fmt.Sprintf(", Landlock ABI %d", abi)
	}
	return sandbox.Enforcement{
		files, network, guarded,
		{Clause: sandbox.ClauseProcesses, State: sandbox.Enforced, Mechanism: "pid namespaces"},
		{Clause: sandbox.ClauseSyscalls, State: sandbox.Enforced, Mechanism: "seccomp, no capabilities, no_new_privs"},
		in.bounds.clause(ownBounds(r)...),
		{Clause: sandbox.ClauseKill, State: sandbox.Enforced, Mechanism: "pid namespaces"},
	}
}
