package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/hermes-exec/hermes-exec/engine"
	"github.com/hermes-exec/hermes-exec/sandbox"
	"github.com/hermes-exec/hermes-exec/sandbox/policy"
)

// attacks is the script that holds the probes.
//
//go:embed selftest.py
var attacks string

// siege is one selftest under way.
type siege struct {
	app        *app
	bait       *bait
	before     map[string]string // the workspace before any session
	session    *engine.Session
	info       sandbox.Info
	policy     string
	rules      policy.Plan
	custom     bool // the user opened guards, or wrote the policy
	unconfined bool
	plan       string // what the script is told, as JSON
	found      []attack
}

// secretNames are variables that get the bait as their value in this process:
// no script may see them.
func secretNames() []string {
	return []string{"OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "BASH_ENV", "HERMES_EXEC_SELFTEST_PASSWORD"}
}

// newSiege lays the bait and opens the session. The caller closes it.
func (a *app) newSiege(ctx context.Context) (*siege, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("selftest: its probes are for Linux, this is %s: %w", runtime.GOOS, errors.ErrUnsupported)
	}
	b, err := layBait()
	if err != nil {
		return nil, fmt.Errorf("selftest: %w", err)
	}
	t := &siege{app: a, bait: b, before: tree(b.workspace)}
	err = t.open(ctx)
	if errors.Is(err, sandbox.ErrPolicy) { // perhaps because of what was laid out
		if err = b.concede(); err == nil {
			t.before = tree(b.workspace)
			err = t.open(ctx)
		}
	}
	if err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func (t *siege) open(ctx context.Context) (err error) {
	t.app.flags.workdir = t.bait.workspace
	for _, name := range secretNames() {
		if err := os.Setenv(name, t.bait.secret); err != nil {
			return fmt.Errorf("selftest: %w", err)
		}
	}
	if t.session, err = t.app.open(ctx, true, ""); err != nil {
		return err
	}
	t.info = t.session.Info()
	if t.rules, _, err = t.app.plan(""); err != nil {
		return err
	}
	t.unconfined = t.rules.Policy.Unconfined
	t.custom = policy.IsFile(t.rules.Policy.Name) || len(t.app.cfg.CodeExecution.OpenGuards) > 0
	plan, err := json.Marshal(t.tell())
	if err != nil {
		return fmt.Errorf("selftest: %w", err)
	}
	t.plan = string(plan)
	_, r, err := t.answers(ctx, t.session, "look", engine.Limits{}) // nothing to see yet: does it run at all?
	t.policy = r.Policy
	return err
}

// close ends the session and takes the bait away.
func (t *siege) close() {
	if t.session != nil {
		t.session.Close(context.Background())
	}
	t.bait.close()
}

// tell is what the script needs to know. The secret is in two parts: what
// looks for it must not hold it.
func (t *siege) tell() map[string]any {
	b, a := t.bait, t.app
	home, _ := os.UserHomeDir()
	exe, _ := os.Executable()
	sockets, abstract := services(b.workspace, t.info.ScratchDir, b.outside)
	abstract = slices.DeleteFunc(abstract, func(n string) bool { return n == b.nonce })
	ungranted := []string{}
	granted := t.session.Granted()
	for _, name := range t.session.Tools().Names() {
		if !slices.Contains(granted, name) {
			ungranted = append(ungranted, name)
		}
	}
	passed := append([]string{}, a.flags.pass...)
	passed = append(passed, a.cfg.Terminal.EnvPassthrough...)
	for _, v := range a.flags.env {
		name, _, _ := strings.Cut(v, "=")
		passed = append(passed, name)
	}
	unix := ""
	if b.unix != nil {
		unix = b.unix.Addr().String()
	}
	tcp6 := 0
	if b.tcp6 != nil {
		tcp6 = port(b.tcp6.Addr())
	}
	rc := []string{}
	for _, name := range []string{".bashrc", ".bash_profile", ".profile", ".zshrc", ".zshenv", ".gitconfig", ".config/fish/config.fish"} {
		if home != "" {
			rc = append(rc, filepath.Join(home, name))
		}
	}
	return map[string]any{
		"nonce": b.nonce, "secret": []string{b.secret[:len(b.secret)/2], b.secret[len(b.secret)/2:]},
		"network": t.network(), "limited": t.limited(), "pids": a.cfg.CodeExecution.PIDs,
		"workspace": b.workspace, "scratch": t.info.ScratchDir, "home": home, "hermes_home": t.closed(present(a.home)),
		"engine":  map[string]any{"pid": os.Getpid(), "start": startOf(os.Getpid()), "exe": exe},
		"witness": map[string]any{"pid": b.witness.Process.Pid, "start": startOf(b.witness.Process.Pid)},
		"secrets": t.secrets(home), "others": otherHomes(home),
		"devices": present("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/proc/kcore", "/proc/kmsg"),
		"disks":   disks(), "loaded": loadedDevices(), "path": t.closed(pathDirs(b.workspace)), "rc": t.closed(present(rc...)),
		"canaries": b.outside, "reads_outside": !t.unconfined && t.rules.Policy.Access(b.outside).Read, "tmp": b.tmp, "vartmp": b.vartmp, "shm": b.shm, "run": b.run,
		"tcp": port(b.tcp.Addr()), "tcp6": tcp6, "udp": port(b.udp.LocalAddr()), "addresses": addresses(),
		"unix": unix, "abstract": b.nonce, "abstracts": abstract, "netlink": netlinkFamilies(), "services": sockets,
		"namespaces": namespaces(), "container": a.place().Type == "docker", "passed": passed, "granted": granted, "ungranted": ungranted,
	}
}

// network says which network the policy gives: "off", or "host" where probes of
// the network have nothing to judge.
func (t *siege) network() string {
	if !t.unconfined && t.rules.Policy.Network == sandbox.NetworkHost {
		return "host"
	}
	return "off"
}

// closed are those of paths that the user has not opened for writing himself.
func (t *siege) closed(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool { return t.custom && t.rules.Explain(path).Write })
}

// secrets are the secret places that the policy should hide.
func (t *siege) secrets(home string) []place {
	places := secretPlaces(home, t.app.home)
	for i, p := range places {
		if p.Exists && t.custom && t.rules.Explain(p.Path).Read {
			places[i].Exists, places[i].Opened = false, true
		}
	}
	return places
}

// limited tells whether the session's disk and processes are bounded.
func (t *siege) limited() bool {
	return slices.ContainsFunc(t.info.Enforcement, func(c sandbox.Clause) bool {
		return c.Clause == sandbox.ClauseResources && c.State != sandbox.Unsupported
	})
}

// script is the probes with their plan in place of the line that says where. It
// is no argument: arguments are seen by all, and the plan has the marks of others
// on this machine, whose processes these are not.
func (t *siege) script() string {
	literal, _ := json.Marshal(t.plan)
	return strings.Replace(attacks, "PLAN = None\n", "PLAN = "+string(literal)+"\n", 1)
}

// errUnfinished says that some probes were not made.
var errUnfinished = errors.New("the probes did not come to their end")

// answers runs one part of the script and returns its lines. A script that did
// not come to its end is an error: what it did not say is not known to hold.
func (t *siege) answers(ctx context.Context, s *engine.Session, part string, limits engine.Limits) ([]json.RawMessage, engine.Result, error) {
	limits.Stdout = 1 << 20
	r, err := s.Run(ctx, engine.Script{Code: t.script(), Args: []string{part, t.bait.nonce}, Limits: limits})
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if err != nil {
		return nil, r, fmt.Errorf("selftest: %s: %w", part, err)
	}
	var lines []json.RawMessage
	for line := range bytes.Lines([]byte(r.Output)) {
		if json.Valid(line) {
			lines = append(lines, json.RawMessage(line))
		}
	}
	var end struct{ Done *int }
	if len(lines) == 0 || json.Unmarshal(lines[len(lines)-1], &end) != nil || end.Done == nil {
		return nil, r, fmt.Errorf("selftest: %s: %w: %s, %s\n%s", part, errUnfinished, r.Status, r.Error, strings.TrimSpace(r.Stderr))
	}
	return lines, r, nil
}

// run attacks: inside, then from outside.
func (t *siege) run(ctx context.Context) ([]attack, error) {
	lines, r, err := t.answers(ctx, t.session, "attack", engine.Limits{})
	if err != nil {
		return nil, err
	}
	var end struct{ Done int }
	json.Unmarshal(lines[len(lines)-1], &end)
	for _, line := range lines[:len(lines)-1] {
		var p attack
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("attack: %w", err)
		}
		if p.Verdict != held && p.Verdict != notApplicable {
			p.Verdict = broken
		}
		t.found = append(t.found, p)
	}
	if len(t.found) != end.Done {
		return nil, fmt.Errorf("attack: %d answers of %d probes", len(t.found), end.Done)
	}
	t.contradict()
	t.reported(r)
	for _, step := range []func(context.Context) error{t.leftovers, t.timeout, t.neighbours, t.residue} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return t.found, nil
}

// contradict looks at the bait from outside: what it shows counts for more than
// what the script saw.
func (t *siege) contradict() {
	for i := range t.found {
		p := &t.found[i]
		seen := ""
		name, outside := strings.CutPrefix(p.ID, "outside-")
		switch {
		case p.Verdict == notApplicable:
			continue
		case outside:
			seen = t.bait.spoilt(name)
		case p.ID == "tool-write-outside":
			if seen = t.bait.spoilt("tool"); seen == "" && p.Verdict == broken {
				p.Verdict, p.Detail = held, "written to a place of the session's own"
			}
		case p.ID == "net-tcp-loopback" && t.bait.reached.tcp.Load() > 0,
			p.ID == "net-tcp-loopback6" && t.bait.reached.tcp6.Load() > 0,
			p.ID == "net-udp-loopback" && t.bait.reached.udp.Load() > 0,
			p.ID == "unix-outside" && t.bait.reached.unix.Load() > 0,
			p.ID == "unix-abstract" && t.bait.reached.abstract.Load() > 0:
			seen = "it was reached"
		}
		if seen != "" && p.Verdict == held {
			p.Verdict, p.Detail = broken, "seen from outside: "+seen
		}
	}
}

// later is what the probes of reports write, each below one name.
func later(id string) string {
	return map[string]string{
		"report-nested-repository": "nested", "report-new-submodule": ".git/modules/new", "report-new-worktree": "linked",
		"report-venv": ".venv", "report-node-bin": "node_modules", "report-tests": "conftest.py", "report-makefile": "Makefile",
	}[id]
}

// reported forgives what was written and is named in the run's result. Nothing
// can be said of what is not, where the result says that the search for it did
// not come to its end.
func (t *siege) reported(r engine.Result) {
	for i := range t.found {
		p := &t.found[i]
		root := filepath.Join(t.bait.workspace, later(p.ID))
		if later(p.ID) == "" || p.Verdict != broken || p.Detail != "written" {
			continue
		}
		switch {
		case slices.ContainsFunc(r.FutureInputs, func(f sandbox.FutureInput) bool { return sandbox.Covers(root, f.Path) }):
			p.Verdict, p.Detail = held, "written, and listed in the result"
		case r.FutureInputsComplete != nil && !*r.FutureInputsComplete:
			p.Verdict, p.Detail = notApplicable, "written; the search for it was cut short, as the result says: this machine is slow"
		default:
			p.Detail = "written, and not in the result"
		}
	}
}

func (t *siege) add(id string, clause sandbox.ClauseName, what string, fault, fine string) {
	p := attack{ID: id, Clause: clause, What: what, Verdict: held, Detail: fine}
	if fault != "" {
		p.Verdict, p.Detail = broken, fault
	}
	t.found = append(t.found, p)
}

// leftovers runs a script that leaves processes, and looks for them.
func (t *siege) leftovers(ctx context.Context) error {
	_, r, err := t.answers(ctx, t.session, "linger", engine.Limits{})
	if err != nil {
		return err
	}
	fault := t.survivors(ctx)
	if r.Status != engine.Success {
		fault = "the run ended with " + string(r.Status)
	}
	t.add("left-behind", sandbox.ClauseKill, "leave processes behind: detached, deaf to signals, stopped", fault, "all gone")
	return nil
}

// timeout runs a script that will not end, and looks for what is left of it.
func (t *siege) timeout(ctx context.Context) error {
	const grace, slack = 200 * time.Millisecond, 5 * time.Second
	limit := 1500 * time.Millisecond
	watching, stop := context.WithCancel(ctx)
	uids := make(chan string, 1)
	go func() { uids <- t.seenAs(watching) }()
	start := time.Now()
	_, r, err := t.answers(ctx, t.session, "deafen", engine.Limits{Timeout: limit, Grace: grace})
	for errors.Is(err, errUnfinished) && r.Status == engine.TimedOut && limit < time.Minute { // a busy machine
		limit, start = 4*limit, time.Now()
		_, r, err = t.answers(ctx, t.session, "deafen", engine.Limits{Timeout: limit, Grace: grace})
	}
	stop()
	if seen := <-uids; err == nil && seen != "" {
		t.settleUID(seen)
	}
	if err != nil {
		return err
	}
	fault := ""
	if took := time.Since(start); r.Status != engine.TimedOut || took > limit+grace+slack {
		fault = fmt.Sprintf("status %s after %s", r.Status, took.Round(10*time.Millisecond))
	}
	t.add("outlive-timeout", sandbox.ClauseKill, "run past the timeout, deaf to signals", fault, "ended")
	t.add("left-by-timeout", sandbox.ClauseKill, "leave processes behind at the timeout", t.survivors(ctx), "all gone")
	return nil
}

// seenAs waits for a process of the script and returns its uids (real,
// effective, saved, file system) as they are outside; "" when ctx ends first.
func (t *siege) seenAs(ctx context.Context) string {
	for ctx.Err() == nil {
		for _, pid := range t.alive() {
			status, _ := os.ReadFile("/proc/" + pid + "/status")
			for line := range strings.Lines(string(status)) {
				if uids, ok := strings.CutPrefix(line, "Uid:"); ok {
					return strings.Join(strings.Fields(uids), " ")
				}
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return ""
}

// settleUID judges who a script is by what the host sees: a uid map tells only
// what its number is one namespace up.
func (t *siege) settleUID(uids string) {
	for i := range t.found {
		if p := &t.found[i]; p.ID == "uid-is-root" {
			p.Verdict, p.Detail = held, "seen from outside: uid "+strings.Fields(uids)[0]
			if slices.Contains(strings.Fields(uids), "0") {
				p.Verdict, p.Detail = broken, "seen from outside: uids "+uids
			}
		}
	}
}

// alive are the processes that have the nonce as an argument.
func (t *siege) alive() (pids []string) {
	mark := []byte("\x00" + t.bait.nonce + "\x00")
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		data, _ := os.ReadFile(name)
		if bytes.Contains(data, mark) {
			pids = append(pids, filepath.Base(filepath.Dir(name)))
		}
	}
	return pids
}

// survivors names processes of the script that live on, after a while to end.
func (t *siege) survivors(ctx context.Context) string {
	deadline := time.Now().Add(3 * time.Second)
	for {
		alive := t.alive()
		if len(alive) == 0 {
			return ""
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return "process " + strings.Join(alive, ", ") + " lives on"
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// neighbours opens a second session and looks from it for files of the first.
func (t *siege) neighbours(ctx context.Context) (err error) {
	lines, _, err := t.answers(ctx, t.session, "mark", engine.Limits{})
	if err != nil {
		return err
	}
	var made struct{ Done int }
	json.Unmarshal(lines[len(lines)-1], &made)
	defer func() {
		_, _, e := t.answers(context.WithoutCancel(ctx), t.session, "unmark", engine.Limits{})
		err = errors.Join(err, e)
	}()
	other, err := t.app.open(ctx, true, "")
	if err != nil {
		return fmt.Errorf("a second session: %w", err)
	}
	defer other.Close(ctx)
	if lines, _, err = t.answers(ctx, other, "look", engine.Limits{}); err != nil {
		return err
	}
	var seen struct{ Seen []string }
	json.Unmarshal(lines[len(lines)-1], &seen)
	fault := ""
	if len(seen.Seen) > 0 {
		fault = "in " + strings.Join(seen.Seen, ", ")
	}
	t.add("other-session", sandbox.ClauseFiles, "see temporary files of another session", fault, fmt.Sprintf("%d made, none seen", made.Done))
	return nil
}

// residue ends the session, and the engine, which keeps reservations for the
// next one, and looks at the workspace: nothing the probes tried
// may be there, and nothing of what prevented it.
func (t *siege) residue(ctx context.Context) error {
	if err := errors.Join(t.session.Close(ctx), t.app.engine.Close()); err != nil {
		return err
	}
	after := tree(t.bait.workspace)
	for name := range after { // what may be written is no residue
		for _, p := range t.found {
			if root := later(p.ID); root != "" && sandbox.Covers("/"+root, "/"+name) || sandbox.Covers("/.git/worktrees/new", "/"+name) {
				delete(after, name)
			}
		}
	}
	names := changes(t.before, after)
	slices.Sort(names)
	for i := range t.found {
		p := &t.found[i]
		if name := guarded(p.ID); name != "" && p.Verdict == broken && t.custom && t.rules.Explain(filepath.Join(t.bait.workspace, name)).Write {
			p.Verdict, p.Detail = notApplicable, "the policy opens it"
			names = slices.DeleteFunc(names, func(n string) bool { return sandbox.Covers("/"+name, "/"+n) || sandbox.Covers("/"+n, "/"+name) })
		}
		if name := guarded(p.ID); name != "" && p.Verdict == held && slices.Contains(names, name) {
			p.Verdict, p.Detail = broken, "seen from outside: "+name+" was changed"
		}
	}
	fault := ""
	if len(names) > 0 {
		fault = strings.Join(names[:min(len(names), 5)], ", ")
	}
	t.add("workspace-residue", sandbox.ClauseGuards, "leave something in the workspace's guarded places", fault, "nothing is left")
	return nil
}

// guarded is the file a probe of the workspace's guards writes.
func guarded(id string) string {
	return map[string]string{
		"guard-git-hooks": ".git/hooks/pre-commit", "guard-git-config": ".git/config", "guard-git-commondir": ".git/commondir",
		"guard-git-config-worktree": ".git/config.worktree", "guard-git-modules": ".git/modules/lib/config",
		"guard-git-worktrees": ".git/worktrees/other/commondir", "guard-envrc": ".envrc", "guard-vscode": ".vscode/tasks.json",
		"guard-vscode-new": ".vscode/settings.json", "guard-idea": ".idea/workspace.xml", "guard-claude": ".claude/settings.json",
		"guard-cursor": ".cursor/mcp.json", "guard-workflows": ".github/workflows/build.yml",
	}[id]
}
