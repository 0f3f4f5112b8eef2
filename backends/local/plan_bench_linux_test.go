package local

import (
	"os"
	"testing"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// What is made up while the guest starts must not take longer than that.
func BenchmarkPlan(b *testing.B) {
	dir := b.TempDir()
	p, _, err := policy.Resolve(policy.Workspace, policy.Context{Home: b.TempDir(), WorkDir: dir, Environ: os.Environ()})
	if err != nil {
		b.Fatal(err)
	}
	p.Private = nil
	plan := func() *plan {
		pl, err := newPlan(p, guest.Confinement{UID: os.Getuid(), GID: os.Getgid(), Base: true}, boxUser{uid: os.Getuid(), gid: os.Getgid()}, "")
		if err != nil {
			b.Fatal(err)
		}
		return pl
	}
	b.Run("plan", func(b *testing.B) {
		for b.Loop() {
			plan().close()
		}
	})
	b.Run("covers", func(b *testing.B) {
		pl := plan()
		defer pl.close()
		for b.Loop() {
			covers, err := pl.covers(denied(pl.policy), nil)
			if err != nil {
				b.Fatal(err)
			}
			newCover(pl, covers, nil)
		}
	})
	b.Run("sockets", func(b *testing.B) {
		for b.Loop() {
			if _, err := hostSockets(func(string) bool { return true }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
