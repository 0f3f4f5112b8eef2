package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// The profiles, besides policy files.
const (
	Sealed    = "sealed"    // reads the system and the interpreter, writes scratch, no network
	Workspace = "workspace" // reads all but secret places, writes the work dir and private caches
	Open      = "open"      // no confinement
)

// Context is what a policy is resolved against. The package looks at nothing
// else but the file system.
type Context struct {
	Home       string   // the user's home, absolute; required but for open
	Homes      []string // further homes a script could reach: see Homes
	HermesHome string   // $HERMES_HOME, "" if there is none
	StateDirs  []string // other places of the engine's state, which no writable tree may contain
	WorkDir    string   // absolute, exists; required but for open
	CacheDir   string   // where private caches are made; "" means XDG_CACHE_HOME where no script may write it, else ~/.cache
	Environ    []string // the engine's: PATH, VIRTUAL_ENV, DOCKER_HOST …
	Python     string   // code_execution.python, "" if unset

	Open     []string // guards to open
	DenyRead []string // hidden besides; absolute, ~/… or below the work dir
}

// Plan is a resolved policy with what a person wants to know about it.
type Plan struct {
	Policy sandbox.Policy
	Env    []string // NAME=value, to set in the box: where private caches are
	Notes  []string // what holds otherwise than one might expect, and why

	guards  map[sandbox.Rule]string
	workdir string
	belongs func(place string) error // why a place cannot be given to be written
}

// Guard names the guard that a deny rule of the plan belongs to; "" when the
// user denied it.
func (p Plan) Guard(r sandbox.Rule) string { return p.guards[r] }

// Resolve makes the policy called name: sealed, workspace, open, or the path of
// a policy file, which has a slash or ends in .yaml or .yml. env is what to set
// in the box's environment. Errors wrap sandbox.ErrPolicy.
func Resolve(name string, c Context) (p sandbox.Policy, env []string, err error) {
	plan, err := Make(name, c)
	return plan.Policy, plan.Env, err
}

// IsFile tells whether a policy's name is that of a file.
func IsFile(name string) bool {
	return strings.ContainsRune(name, '/') || strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Make is Resolve with the reasons kept.
func Make(name string, c Context) (Plan, error) {
	profile, err := Load(name)
	if err != nil {
		return Plan{}, err
	}
	return MakeProfile(profile, c)
}

// MakeProfile is Make for a profile that was loaded elsewhere. Its guards to
// open and places to hide are added to the context's.
func MakeProfile(profile sandbox.Profile, c Context) (Plan, error) {
	name := profile.Name
	c.Open = slices.Concat(c.Open, profile.OpenGuards)
	c.DenyRead = slices.Concat(c.DenyRead, profile.DenyRead)
	spec, err := specOf(profile)
	if err != nil {
		return Plan{}, err
	}
	if name == Open {
		if len(c.DenyRead) > 0 {
			return Plan{}, refuse("policy open cannot keep code_execution.deny_read: it confines nothing; remove one of the two")
		}
		return Plan{Policy: sandbox.Policy{Name: Open, Unconfined: true}}, nil
	}
	b, err := newBuilder(c, spec.openGuards)
	if err != nil {
		return Plan{}, err
	}
	b.policy.Name = name
	switch spec.extends {
	case Sealed:
		b.sealed()
	case Workspace:
		b.workspace()
	}
	if IsFile(name) {
		if err := b.apply(spec); err != nil {
			return Plan{}, err
		}
	}
	if err := b.denyConfigured(c.DenyRead); err != nil {
		return Plan{}, err
	}
	return b.finish()
}

// refusal is an error that wraps sandbox.ErrPolicy without saying so twice.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return sandbox.ErrPolicy }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// builder gathers a policy.
type builder struct {
	c       Context
	table   []Guard
	links   resolver
	git     gitKnown // of repositories
	workdir string   // real
	homes   []string // real
	caches  string   // the caches of all work dirs
	private string   // those of this one
	pythons []string // trees of interpreters
	needs   []string // what must stay readable: interpreters, work dir, caches
	open    map[string]bool

	policy sandbox.Policy
	env    []string
	notes  []string
	named  []named // allowed by name in a policy file
	ways   []way   // how denied places were named, each once
	known  map[way]bool
	guards map[sandbox.Rule]string
}

// named is an allowed place with where the user named it.
type named struct{ where, path string }

func newBuilder(c Context, openGuards []string) (*builder, error) {
	b := &builder{c: c, table: Guards(), guards: make(map[sandbox.Rule]string, 400), known: make(map[way]bool, 400), open: map[string]bool{}}
	for _, name := range slices.Concat(c.Open, openGuards) {
		if !slices.ContainsFunc(b.table, func(g Guard) bool { return g.Name == name && !g.Fixed }) {
			return nil, refuse("open_guards: there is no guard %q to open; there are %s", clip(name), strings.Join(guardNames(), ", "))
		}
		b.open[name] = true
	}
	for _, dir := range slices.Concat([]string{c.Home}, c.Homes) {
		if dir != "" && filepath.IsAbs(dir) {
			b.homes = appendNew(b.homes, b.links.real(dir))
		}
	}
	if !filepath.IsAbs(c.Home) {
		return nil, refuse("policy: the home directory is not known, so its secret places cannot be hidden; set HOME")
	}
	for _, dir := range append([]string{c.HermesHome}, c.StateDirs...) {
		if dir != "" && !filepath.IsAbs(dir) {
			return nil, refuse("policy: the engine's own state %q is not an absolute path, so it could not be kept out", dir)
		}
	}
	if !filepath.IsAbs(c.WorkDir) {
		return nil, refuse("policy: the work dir %q is not an absolute path", c.WorkDir)
	}
	b.workdir = b.links.real(c.WorkDir)
	b.caches = b.cacheDir()
	if err := b.checkTree(c.WorkDir); err != nil {
		return nil, refuse("policy: the work dir %v (--workdir)", err)
	}
	if info, err := os.Stat(b.workdir); err != nil || !info.IsDir() {
		return nil, refuse("policy: the work dir %s is not a directory", c.WorkDir)
	}
	b.private = b.privateDir()
	var named []string
	b.pythons, named = b.interpreters()
	b.needs = slices.Concat([]string{b.workdir, b.private}, named)
	b.needs = append(b.needs, b.homes...) // a profile's home is in $HERMES_HOME
	return b, nil
}

// finish closes the guards and puts the lists in order.
func (b *builder) finish() (Plan, error) {
	b.hideSecrets()
	for _, tree := range b.policy.Write {
		if err := b.guardTree(tree); err != nil {
			return Plan{}, err
		}
	}
	if err := b.checkWays(); err != nil {
		return Plan{}, err
	}
	p := &b.policy
	// What is denied does not come in by an interpreter's tree inside it.
	p.Read = slices.DeleteFunc(p.Read, func(name string) bool {
		return slices.Contains(b.pythons, name) && !slices.ContainsFunc(b.named, func(n named) bool { return n.path == name }) &&
			slices.ContainsFunc(p.DenyRead, func(deny string) bool { return sandbox.Covers(deny, name) })
	})
	p.Read, p.Write, p.Private = compact(p.Read), compact(p.Write), compact(p.Private)
	// A deny outside of what is allowed says nothing and would cost a look.
	allowed := slices.Concat(p.Read, p.Write, p.Private)
	p.DenyRead = compact(within(p.DenyRead, allowed))
	p.DenyWrite = compact(within(p.DenyWrite, slices.Concat(p.Write, p.Private)))
	slices.Sort(p.BestEffort)
	p.BestEffort = slices.Compact(p.BestEffort)
	plan := Plan{Policy: *p, Env: b.env, Notes: b.notes, guards: b.guards, workdir: b.workdir}
	plan.belongs = func(place string) error { // what there is may have changed since
		later := builder{c: b.c, homes: b.homes}
		return later.belongs(place)
	}

	for _, tree := range slices.Concat([]named{{"the work dir", b.workdir}}, b.named) {
		a := p.Access(tree.path)
		rule := a.ReadRule
		if a.Read && slices.Contains(p.Write, tree.path) && !a.Write && plan.Guard(a.WriteRule) != "" {
			rule = a.WriteRule
		} else if rule.Clause != "deny_read" {
			continue
		}
		how := "remove one of the two"
		if g := plan.Guard(rule); g != "" && !fixedGuard(g) {
			how = fmt.Sprintf("open_guards: [%s] opens it", g)
		} else if g != "" {
			how = "nothing opens it"
		}
		return Plan{}, refuse("policy %s: %s is %s, which is closed by %s: deny beats allow; %s", p.Name, tree.where, tree.path, rule, how)
	}
	return plan, nil
}

// denyRead hides a place and what it leads to.
func (b *builder) denyRead(guard, place string) {
	b.policy.DenyRead = append(b.policy.DenyRead, b.deny("deny_read", guard, place)...)
}

// denyWrite makes a place and what it leads to read-only.
func (b *builder) denyWrite(guard, place string) {
	b.policy.DenyWrite = append(b.policy.DenyWrite, b.deny("deny_write", guard, place)...)
}

// deny is what a place stands for, and keeps why it is denied and how it was named.
func (b *builder) deny(clause, guard, place string) []string {
	names := b.links.both(place)
	w := way{clause, guard, place, names[len(names)-1]}
	if b.known[w] {
		return nil
	}
	for _, name := range names {
		b.remember(clause, name, guard)
	}
	b.known[w] = true
	b.ways = append(b.ways, w)
	return names
}

// remember keeps the guard of a rule; what the user denies himself is no guard's.
func (b *builder) remember(clause, name, guard string) {
	rule := sandbox.Rule{Clause: clause, Path: name}
	if old, ok := b.guards[rule]; ok && old == "" {
		return
	}
	b.guards[rule] = guard
}

func (b *builder) note(format string, args ...any) {
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

// within keeps the places that lie in, or contain, one of the trees.
func within(places, trees []string) (kept []string) {
	for _, place := range places {
		if slices.ContainsFunc(trees, func(tree string) bool {
			return sandbox.Covers(tree, place) || sandbox.Covers(place, tree)
		}) {
			kept = append(kept, place)
		}
	}
	return kept
}

// compact sorts a list and drops what another entry covers. Of trees that may be
// read one is kept that brings back a part of a directory the box has its own
// of, which / does not.
func compact(list []string) (kept []string) {
	slices.SortFunc(list, byElement)
	var last [2]string // the last entry kept, and the last that none of Own hides
	for _, name := range list {
		own := hiddenBy(name)
		tree := last[1]
		if own != "" && hiddenBy(last[0]) == own {
			tree = last[0]
		} else if own != "" {
			tree = ""
		}
		if tree != "" && sandbox.Covers(tree, name) {
			continue
		}
		kept = append(kept, name)
		if last[0] = name; own == "" {
			last[1] = name
		}
	}
	return kept
}

// hiddenBy is the directory of the box's own that a place lies below, "" if none.
func hiddenBy(name string) string {
	for _, own := range sandbox.Own() {
		if name != own && sandbox.Covers(own, name) {
			return own
		}
	}
	return ""
}

// byElement orders paths so that a tree comes right before what is in it.
func byElement(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}

func appendNew(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// clip shortens foreign text for an error.
func clip(s string) string {
	const limit = 80
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
