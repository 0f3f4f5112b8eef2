package sandboxtest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

func policyLaws() []law {
	return []law{
		{"every clause of a policy is enforced or refused", policyEnforced},
		{"a stricter policy for one command is enforced or refused", commandPolicy},
		{"every resource limit is enforced or refused", resourcesEnforced},
		{"what is asked and cannot be done is refused", unsupported},
	}
}

// refused reports whether err refuses what was asked, in words.
func refused(err error) bool {
	return errors.Is(err, sandbox.ErrPolicy) || errors.Is(err, sandbox.ErrUnsupported)
}

// create makes a box that may be refused; nil then.
func (b *bench) create(what string, spec sandbox.Spec) sandbox.Sandbox {
	b.Helper()
	box, err := b.backend.Create(b.Context(), spec)
	if err != nil {
		if !refused(err) {
			b.Errorf("%s: %v, want ErrPolicy or ErrUnsupported", what, err)
		}
		return nil
	}
	b.Cleanup(func() { box.Close(b.within()) })
	return box
}

// enforces checks that a box that was made says it keeps a clause.
func (b *bench) enforces(what string, box sandbox.Sandbox, clause sandbox.ClauseName) {
	b.Helper()
	for _, c := range box.Info().Enforcement {
		if c.Clause == clause && c.State == sandbox.Enforced {
			return
		}
	}
	b.Errorf("%s: neither refused nor enforced: %+v", what, box.Info().Enforcement)
}

func policyEnforced(b *bench) {
	witness := b.box()
	// A place of this machine's, which a box may have or not.
	dir, err := os.MkdirTemp(b.options.Spec.WorkDir, "law")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	secret := path.Join(dir, "secret")
	if err := errors.Join(os.WriteFile(secret, []byte("secret"), 0o644), os.Chmod(dir, 0o777)); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	write := sh(`echo x >"$1/new"`, dir)
	dial := []string{"python3", "-c", "import socket,sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)",
		fmt.Sprint(l.Addr().(*net.TCPAddr).Port)}
	all := sandbox.Policy{Name: "law", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost}
	with := func(change func(*sandbox.Policy)) sandbox.Policy {
		p := all
		change(&p)
		return p
	}
	for _, c := range []struct {
		what   string
		policy sandbox.Policy
		clause sandbox.ClauseName
		probe  []string // must fail inside
	}{
		{"the zero policy", sandbox.Policy{}, sandbox.ClauseFiles, write},
		{"Read", with(func(p *sandbox.Policy) { p.Read = nil; p.Write = nil }), sandbox.ClauseFiles, []string{"cat", secret}},
		{"Write", with(func(p *sandbox.Policy) { p.Write = nil }), sandbox.ClauseFiles, write},
		{"DenyRead", with(func(p *sandbox.Policy) { p.DenyRead = []string{secret} }), sandbox.ClauseFiles, []string{"cat", secret}},
		{"DenyWrite", with(func(p *sandbox.Policy) { p.DenyWrite = []string{dir} }), sandbox.ClauseFiles, write},
		{"Watch", with(func(p *sandbox.Policy) { p.Watch = []string{dir} }), sandbox.ClauseFiles, nil},
		{"Network", with(func(p *sandbox.Policy) { p.Network = sandbox.NetworkOff }), sandbox.ClauseNetwork, dial},
		{"an unknown network", with(func(p *sandbox.Policy) { p.Network = "some" }), "none", nil},
	} {
		spec := b.options.Spec
		spec.Policy = c.policy
		box := b.create(c.what, spec)
		if box == nil {
			continue
		}
		b.enforces(c.what, box, c.clause)
		if c.probe != nil {
			p, err := box.Start(b.within(), sandbox.Cmd{Args: c.probe, Dir: box.Info().ScratchDir})
			if err == nil && b.wait(p).Code == 0 {
				b.Errorf("%s: %q succeeded inside", c.what, c.probe)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
				b.Errorf("%s: %q: %v", c.what, c.probe, err)
			}
		}
	}
	// The probes themselves work where nothing is denied.
	for _, probe := range [][]string{write, {"cat", secret}} {
		b.output(witness, probe...)
	}
}

func commandPolicy(b *bench) {
	box := b.box()
	target := path.Join(box.Info().ScratchDir, "new")
	p, err := box.Start(b.within(), sandbox.Cmd{
		Args:   sh(`echo x >"$1"`, target),
		Policy: &sandbox.Policy{Name: "stricter", Read: []string{"/"}, DenyWrite: []string{target}},
	})
	if err != nil {
		if !refused(err) {
			b.Errorf("%v, want ErrPolicy or ErrUnsupported", err)
		}
		return
	}
	if exit := b.wait(p); exit.Code == 0 {
		b.Error("neither refused nor enforced")
	}
}

func resourcesEnforced(b *bench) {
	for what, r := range map[string]sandbox.Resources{
		"CPU":    {CPU: 0.5},
		"Memory": {Memory: 256 << 20},
		"Disk":   {Disk: 64 << 20},
		"PIDs":   {PIDs: 64},
	} {
		spec := b.options.Spec
		spec.Resources = r
		if box := b.create(what, spec); box != nil {
			b.enforces(what, box, sandbox.ClauseResources)
		}
	}
}

func unsupported(b *bench) {
	box := b.box()
	var out lockedBuffer
	p, err := box.Start(b.within(), sandbox.Cmd{Args: sh("test -t 1 && echo terminal"), Stdout: &out, PTY: &sandbox.Winsize{Rows: 24, Cols: 80}})
	switch {
	case err == nil:
		if exit := b.wait(p); exit.Code != 0 || !strings.Contains(out.String(), "terminal") {
			b.Errorf("a terminal was promised: %+v, %q", exit, out.String())
		}
	case !errors.Is(err, sandbox.ErrUnsupported):
		b.Errorf("a terminal: %v, want ErrUnsupported", err)
	}
	spec := b.options.Spec
	spec.Mounts = []sandbox.Mount{{Source: b.TempDir(), Target: "/mnt/law", Writable: true}}
	if box := b.create("Mounts", spec); box != nil {
		b.output(box, sh("echo x >/mnt/law/file")...)
	}
}
