package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/guest"
	"github.com/hermes-exec/hermes-exec/sandbox"
)

// checkConfined runs a command in a confined box, as the policy workspace makes
// one, and tells what holds it: the rung, each clause, and what to change on
// this machine to get more.
func (b *Backend) checkConfined(ctx context.Context) []sandbox.Finding {
	const subject = "confinement"
	failed := func(err error, fix string) []sandbox.Finding {
		return []sandbox.Finding{{Severity: sandbox.Failure, Subject: subject, Detail: err.Error(), Fix: fix}}
	}
	dir, err := os.MkdirTemp(b.config.Scratch, "hermes-exec-doctor-")
	if err != nil {
		return failed(err, "set TMPDIR to a directory of yours with space")
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return failed(err, "")
	}
	h := machine{root: "/", uid: os.Geteuid(), program: program(b.config.Guest), landlock: guest.LandlockABI()}
	spec := sandbox.Spec{WorkDir: dir, Policy: sandbox.Policy{
		Name: "workspace", Read: []string{"/"}, Write: []string{dir}, Network: sandbox.NetworkHost,
		DenyWrite:  []string{filepath.Join(dir, ".envrc")},
		BestEffort: []sandbox.ClauseName{sandbox.ClauseFiles, sandbox.ClauseGuards, sandbox.ClauseNetwork, sandbox.ClauseProcesses, sandbox.ClauseResources},
	}, Resources: sandbox.Resources{PIDs: 1024, Disk: 16 << 20}}
	box, err := b.Create(ctx, spec)
	where := ""
	if errors.Is(err, sandbox.ErrPolicy) && h.uid == 0 { // perhaps because the directory is root's
		if e := os.Chown(dir, BoxUID, BoxUID); e != nil {
			return failed(e, "")
		}
		if other, e := b.Create(ctx, spec); e == nil {
			box, err, where = other, nil, " in directories that are not root's"
		}
	}
	if err != nil {
		fix := ""
		if errors.Is(err, sandbox.ErrPolicy) {
			fix = strings.Join(slices.DeleteFunc([]string{h.namespaceFix(), h.landlockFix()}, func(s string) bool { return s == "" }), "; or ")
		}
		return failed(fmt.Errorf("only the policy open can be kept: %w", err), fix)
	}
	defer box.Close(ctx)
	began := time.Now()
	proc, err := box.Start(ctx, sandbox.Cmd{Args: []string{"/bin/sh", "-c", "echo 1 >file"}, Dir: dir})
	if err == nil {
		var exit sandbox.Exit
		if exit, err = proc.Wait(); err == nil && exit.Code != 0 {
			err = fmt.Errorf("a command could not write its work directory: exit code %d", exit.Code)
		}
	}
	if err != nil {
		return failed(err, "")
	}
	info := box.Info()
	f := sandbox.Finding{Severity: sandbox.OK, Subject: subject, Detail: fmt.Sprintf("full: rung %s, a command in %v", info.Rung, time.Since(began).Round(10*time.Microsecond))}
	if info.Rung != sandbox.RungNamespaces {
		f.Severity, f.Fix = sandbox.Warning, h.namespaceFix()
		f.Detail = fmt.Sprintf("weak: rung %s, no namespaces: workspace runs%s without what is not enforced below, sealed and what asks for the rest is refused", info.Rung, where)
	} else if h.landlock == 0 {
		f.Severity, f.Fix, f.Detail = sandbox.Warning, h.landlockFix(), f.Detail+"; without Landlock, the second wall"
	}
	findings := []sandbox.Finding{f}
	for _, c := range info.Enforcement {
		f := sandbox.Finding{Severity: sandbox.OK, Subject: string(c.Clause), Detail: string(c.State)}
		if c.State != sandbox.Enforced {
			f.Severity = sandbox.Warning
		}
		if c.Mechanism != "" {
			f.Detail += " by " + c.Mechanism
		}
		if c.Why != "" {
			f.Detail += ": " + c.Why
		}
		findings = append(findings, f)
	}
	return findings
}

// machine is where the settings that decide about confinement are.
type machine struct {
	root     string // "/" but in tests
	uid      int
	program  string
	landlock int // ABI
}

// setting reads a file of one line; "" when there is none.
func (m machine) setting(name string) string {
	text, _ := os.ReadFile(filepath.Join(m.root, name))
	return strings.TrimSpace(string(text))
}

// namespaceFix is what to change for user namespaces, by what stands against
// them here.
func (m machine) namespaceFix() string {
	var fixes []string
	sysctl := func(key, value string) {
		fixes = append(fixes, fmt.Sprintf("sysctl -w %s=%s (and the line %s=%s in /etc/sysctl.d/60-hermes-exec.conf, to keep it)", key, value, key, value))
	}
	if m.uid != 0 && m.setting("proc/sys/kernel/unprivileged_userns_clone") == "0" {
		sysctl("kernel.unprivileged_userns_clone", "1")
	}
	for _, kind := range []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"} {
		if m.setting("proc/sys/user/max_"+kind+"_namespaces") == "0" {
			sysctl("user.max_"+kind+"_namespaces", "10000")
		}
	}
	if m.uid != 0 && m.setting("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
		fixes = append(fixes, fmt.Sprintf(`an AppArmor profile: write "abi <abi/4.0>, profile hermes-exec %s flags=(unconfined) { userns, }" to /etc/apparmor.d/hermes-exec and run apparmor_parser -r /etc/apparmor.d/hermes-exec; or, for every program, sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`,
			strconv.Quote(m.program)))
	}
	if m.contained() {
		fixes = append(fixes, "this is a container: start it with --security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined, which let it make namespaces of its own and mount /proc in them")
	}
	if len(fixes) == 0 {
		return "no setting of this kernel stands against user namespaces: look whether unshare --user --map-current-user --mount true works here; a security module or the filter of what started this refuses it"
	}
	return strings.Join(fixes, "; and ")
}

// contained tells whether this is inside a container.
func (m machine) contained() bool {
	for _, mark := range []string{".dockerenv", "run/.containerenv"} {
		if _, err := os.Stat(filepath.Join(m.root, mark)); err == nil {
			return true
		}
	}
	groups := m.setting("proc/1/cgroup")
	return strings.Contains(groups, "docker") || strings.Contains(groups, "kubepods") || strings.Contains(groups, "containerd") || strings.Contains(groups, "libpod")
}

// landlockFix is what to change for Landlock.
func (m machine) landlockFix() string {
	const enough = 6
	modules := m.setting("sys/kernel/security/lsm")
	switch {
	case m.landlock >= enough:
		return ""
	case m.landlock > 0:
		return fmt.Sprintf("Landlock ABI %d: a kernel of 6.12 or newer has ABI %d", m.landlock, enough)
	case modules != "" && !slices.Contains(strings.Split(modules, ","), "landlock"):
		return "boot with lsm=landlock," + modules + " on the kernel's command line: Landlock is not among the modules that are switched on"
	}
	return "a kernel of 6.12 or newer, built with CONFIG_SECURITY_LANDLOCK and with landlock in its lsm= list"
}
