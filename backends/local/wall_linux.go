package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/guest/landlock"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// walled confines the box without namespaces, by Landlock and seccomp alone, or
// says what that cannot keep. why is what stands against namespaces.
func (b *box) walled(ctx context.Context, spec sandbox.Spec, why *guest.SetupError) (err error) {
	p := spec.Policy
	in := &confined{write: p.Write, closed: p.DenyWrite, waiting: &b.backend.host.waiting}
	in.life, in.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, in.close())
		}
	}()
	if in.bounds, err = b.backend.bound(b.info.ID, spec.Resources, slices.Contains(p.BestEffort, sandbox.ClauseResources)); err != nil {
		return err
	}
	defer in.bounds.sent()
	if err := wallable(); err != nil {
		return err
	}
	user, err := b.backend.userOf(b.info.WorkDir)
	if err != nil {
		return err
	}
	if !b.backend.config.Contained {
		if err := wallUser(user, p.Write); err != nil {
			return err
		}
	} else if user.foreign {
		user = boxUser{uid: os.Getuid(), gid: os.Getgid()}
	}
	e, err := b.wallEnforcement(p, user, in.bounds.wall(spec.Resources), why)
	if err != nil {
		return err
	}
	if in.dir, err = b.backend.makeScratch(); err != nil {
		return err
	}
	if user.foreign {
		if err := os.Chown(in.dir.path, user.uid, user.gid); err != nil {
			return err
		}
	}
	in.scratch = in.dir.path
	// What namespaces replace is hidden: devices, of which the guest allows the
	// harmless ones, and other boxes' scratch directories.
	hidden := slices.Clone(p.DenyRead)
	var devices, shared []string
	if b.backend.config.Contained {
		devices, shared = []string{"/dev/pts"}, []string{"/dev/shm"}
	} else {
		hidden = append(hidden, "/dev")
	}
	if base := filepath.Dir(in.scratch); filepath.Base(base) == userDir() {
		hidden = append(hidden, base)
	}
	rules, err := landlock.Enumerate(p.Read, hidden)
	if err != nil {
		return err
	}
	c := guest.Confinement{
		UID: user.uid, GID: user.gid, Mapped: user.foreign, NetworkOff: p.Network == sandbox.NetworkOff,
		Groups: len(in.bounds.groups), Scratch: in.scratch, Read: []string{"/proc"}, Write: append(slices.Concat(p.Write, p.Private, shared), in.scratch),
		Devices: devices,
	}
	for _, r := range rules {
		c.Read = append(c.Read, r.Path)
	}
	if in.session, err = b.backend.host.spawner.Spawn(b.backend.config.Guest, c); err != nil {
		return err
	}
	if err = in.session.Confine(ctx, c, in.bounds.groups); err != nil {
		return err
	}
	b.enter(in, user.uid, p.Access(b.info.WorkDir).Read)
	if !slices.Contains(p.Write, "/tmp") { // which a container's box has of its own
		b.tempDir = in.scratch
	}
	b.info.Enforcement = e
	return nil
}

// wallUser refuses what would take root to be written. Without namespaces
// nothing is shown as another user's, and as root a script could change the mode
// and owner of every file of root's: Landlock does not ask about those. Caches
// of root's are left unwritable.
func wallUser(user boxUser, write []string) error {
	if !user.foreign {
		return nil
	}
	for _, dir := range write {
		st, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if owner(st) == 0 {
			return fmt.Errorf("%s belongs to root, and without namespaces a script could write it only as root: give it to an ordinary user (chown), or run as one: %w",
				dir, sandbox.ErrPolicy)
		}
	}
	return nil
}

// wallable refuses where there is not enough for any box without namespaces.
func wallable() error {
	switch abi := guest.LandlockABI(); {
	case abi == 0:
		return fmt.Errorf("neither namespaces nor Landlock are to be had: %w", sandbox.ErrPolicy)
	case abi < scopes:
		return fmt.Errorf("without namespaces Landlock ABI %d is needed, to keep signals and abstract sockets in; this kernel has %d: %w", scopes, abi, sandbox.ErrPolicy)
	}
	return nil
}

// wallEnforcement is what Landlock and seccomp keep of a policy; an error when
// the policy does not leave the rest open.
func (b *box) wallEnforcement(p sandbox.Policy, user boxUser, resources sandbox.Clause, why *guest.SetupError) (sandbox.Enforcement, error) {
	abi := guest.LandlockABI()
	sockets, err := reachableSockets(p, user)
	if err != nil {
		return nil, err
	}
	if abi < 9 && len(sockets) > 0 && !b.backend.config.Contained {
		return nil, fmt.Errorf("without namespaces a script could connect to sockets of this machine (%s): %w", strings.Join(sockets, ", "), sandbox.ErrPolicy)
	}
	wall := fmt.Sprintf("Landlock ABI %d", abi)
	none := "no namespaces here: " + why.Error()
	e := sandbox.Enforcement{
		{Clause: sandbox.ClauseFiles, State: sandbox.Partial, Mechanism: wall + ", reads allow-listed", Why: none +
			": /tmp is this machine's, and modes, times and attributes of its user's files can be changed everywhere"},
		{Clause: sandbox.ClauseNetwork, State: sandbox.Enforced, Mechanism: "the host's, as the policy says"},
		{Clause: sandbox.ClauseGuards, State: sandbox.Unsupported, Why: none},
		{Clause: sandbox.ClauseProcesses, State: sandbox.Partial, Mechanism: wall + " signal scope", Why: none},
		{Clause: sandbox.ClauseSyscalls, State: sandbox.Enforced, Mechanism: "seccomp, no capabilities, no_new_privs"},
		resources,
		{Clause: sandbox.ClauseKill, State: sandbox.Enforced, Mechanism: "subreaper"},
	}
	if p.Network == sandbox.NetworkOff {
		e[1].Mechanism = "seccomp: no internet sockets"
	}
	guarded := slices.ContainsFunc(p.DenyWrite, func(name string) bool {
		return slices.ContainsFunc(p.Write, func(root string) bool { return within(name, root) })
	})
	if !guarded && len(p.Unsearched) == 0 {
		e[2] = sandbox.Clause{Clause: sandbox.ClauseGuards, State: sandbox.Enforced, Mechanism: "nothing to guard is writable"}
	}
	var open []string
	for _, c := range e {
		if c.State != sandbox.Enforced && !slices.Contains(p.BestEffort, c.Clause) {
			name := string(c.Clause)
			if c.Clause == sandbox.ClauseResources {
				name += " (" + c.Why + ")"
			}
			open = append(open, name)
		}
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("policy %q cannot be kept without namespaces: %s (best_effort in a policy file leaves a clause open): %w",
			p.Name, strings.Join(open, ", "), sandbox.ErrPolicy)
	}
	return e, nil
}

// reachableSockets are the sockets of this machine a script could connect to.
func reachableSockets(p sandbox.Policy, user boxUser) (names []string, err error) {
	listening, err := hostSockets(func(string) bool { return true })
	if err != nil {
		return nil, err
	}
	for _, name := range listening {
		if slices.ContainsFunc(p.Write, func(root string) bool { return within(name, root) }) || strings.Contains(name, "/"+userDir()+"/") {
			continue // its own, or another box's, which asks for a token
		}
		if user.connects(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
