package envfilter

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Options say what is let through beyond the allow-list. The zero value is the
// strictest filter: the one for scripts.
type Options struct {
	// Passthrough holds names the user lets through: configuration, flags,
	// what a skill declares. A name is exact and case counts. "NAME_*" opens
	// every variable that starts with NAME_, except those whose name says that
	// they hold a secret: these have to be named in full.
	Passthrough []string

	// Declared holds names that registered tools need for themselves. They
	// never pass, whatever Passthrough says.
	Declared []string

	// Wide is for a terminal that a model calls: everything passes but what
	// the rules provider, declared, engine, injection, loader and settings
	// drop. The user's own credentials (AWS_ACCESS_KEY_ID, DATABASE_URL) do
	// pass, as they would in the user's shell.
	Wide bool
}

// The rules a Decision can name. They are stable: programs may match on them.
const (
	RuleMalformed   = "malformed"
	RuleProvider    = "provider"
	RuleDeclared    = "declared"
	RuleEngine      = "engine"
	RuleInjection   = "injection"
	RuleLoader      = "loader"
	RulePassthrough = "passthrough"
	RuleSettings    = "settings"
	RuleTimezone    = "timezone"
	RuleWide        = "wide"
	RuleSecret      = "secret"
	RuleListed      = "listed"
	RuleProxy       = "proxy" // a proxy whose value cannot be read safely
	RulePath        = "path"  // PATH without one absolute directory
	RuleUnlisted    = "unlisted"
)

// Decision is the answer for one variable.
type Decision struct {
	Name    string // "" stands for all entries without a usable name
	Value   string // what passes; "" when dropped
	Pass    bool
	Rule    string // one of the Rule constants
	Reason  string // one sentence for people; never holds a value
	Changed bool   // the value is not the one that came in
}

// Filter decides for every entry of environ, in the form of os.Environ. The
// result is sorted by name and has one Decision for each name; where a name
// comes twice, the last entry counts. Filter is pure and safe for concurrent
// use, and filtering its own result again with the same options passes the
// same variables.
func Filter(environ []string, opt Options) []Decision {
	values := make(map[string]string, len(environ))
	malformed := 0
	for _, e := range environ {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !printable(name) {
			malformed++
			continue
		}
		values[name] = value
	}
	out := make([]Decision, 0, len(values)+1)
	if malformed > 0 {
		out = append(out, Decision{Rule: RuleMalformed, Reason: strconv.Itoa(malformed) +
			" entries are not NAME=value with a printable name."})
	}
	r := newRules(opt, values)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, r.decide(name, values[name]))
	}
	return out
}

// Environ returns what passes as NAME=value, in the order of ds.
func Environ(ds []Decision) []string {
	out := make([]string, 0, len(ds))
	for _, d := range ds {
		if d.Pass {
			out = append(out, d.Name+"="+d.Value)
		}
	}
	return out
}

// rules are Options and the tables, made ready for look-up.
type rules struct {
	wide      bool
	named     map[string]bool   // passthrough, exact
	families  []string          // passthrough, NAME_
	declared  map[string]bool   // upper case
	provider  map[string]string // upper case → what it opens
	injection map[string]vector // upper case
	keyed     map[string]bool   // upper case
	listed    map[string]string // name → reason
	words     words
}

// newRules takes from the long tables only the names that occur in environ.
func newRules(opt Options, environ map[string]string) *rules {
	occurs := make(map[string]bool, len(environ))
	for name := range environ {
		occurs[strings.ToUpper(name)] = true
	}
	r := &rules{
		wide:      opt.Wide,
		named:     make(map[string]bool, len(opt.Passthrough)),
		declared:  make(map[string]bool, len(opt.Declared)),
		provider:  map[string]string{},
		injection: map[string]vector{},
		keyed:     set(keyed),
		listed:    map[string]string{},
		words:     newWords(),
	}
	for _, p := range opt.Passthrough {
		p = strings.TrimSpace(p)
		if family, ok := strings.CutSuffix(p, "*"); ok {
			// "*" and "A*" would open too much; a family ends in an underscore.
			if len(family) > 2 && strings.HasSuffix(family, "_") && !strings.Contains(family, "*") {
				r.families = append(r.families, family)
			}
			continue
		}
		r.named[p] = true
	}
	for _, d := range opt.Declared {
		r.declared[strings.ToUpper(strings.TrimSpace(d))] = true
	}
	for _, g := range credentials {
		for name := range strings.FieldsSeq(g.names) {
			if occurs[name] {
				r.provider[name] = g.what
			}
		}
	}
	for _, a := range allowed {
		for name := range strings.FieldsSeq(a.names) {
			r.listed[name] = a.reason
		}
	}
	for _, v := range vectors {
		for name := range strings.FieldsSeq(v.names) {
			if occurs[name] {
				r.injection[name] = v
			}
		}
	}
	return r
}

func (r *rules) decide(name, value string) Decision {
	upper := strings.ToUpper(name)
	drop := func(rule, reason string) Decision {
		return Decision{Name: name, Rule: rule, Reason: reason}
	}
	reason := r.listed[name]
	named := r.named[name]
	asked := ""
	if named {
		asked = " A passthrough does not open it."
	}

	if strings.IndexByte(value, 0) >= 0 {
		return drop(RuleMalformed, "The value holds a NUL byte.")
	}
	if what := r.credentialOf(upper); what != "" {
		return drop(RuleProvider, "A credential or address of "+what+" stays with the engine."+asked)
	}
	if r.declared[upper] {
		return drop(RuleDeclared, "A registered tool needs it, so it stays with the engine."+asked)
	}
	if isEngineName(upper) && reason == "" {
		return drop(RuleEngine, "HERMES_ variables belong to the engine."+asked)
	}
	if class, soft := r.injects(upper, value); class != "" && (!soft || !named) {
		if soft {
			return drop(RuleLoader, "It changes "+class+"; name it in a passthrough if it is meant.")
		}
		return drop(RuleInjection, "It changes "+class+", which can run code nobody asked for."+asked)
	}

	if named {
		return r.pass(name, value, RulePassthrough, "Named by a passthrough.", false)
	}
	secret := r.words.secret(upper)
	for _, f := range r.families {
		if secret == "" && strings.HasPrefix(name, f) {
			return r.pass(name, value, RulePassthrough, "Opened by the passthrough "+f+"*.", true)
		}
	}
	if strings.HasPrefix(upper, "TERMINAL_") {
		return drop(RuleSettings, "TERMINAL_ variables are settings of the engine.")
	}
	if r.wide {
		return r.pass(name, value, RuleWide, "A terminal gets all that is not blocked.", true)
	}
	switch {
	case name == "TZ":
		return drop(RuleTimezone, "The engine sets the time zone.")
	case secret != "":
		return drop(RuleSecret, "The name says that it holds a secret ("+secret+").")
	case reason != "":
		return r.pass(name, value, RuleListed, reason, true)
	}
	return drop(RuleUnlisted, "It is not on the list of what passes.")
}

// pass lets name through; clean removes what must not travel in a proxy.
func (r *rules) pass(name, value, rule, reason string, clean bool) Decision {
	d := Decision{Name: name, Value: value, Pass: true, Rule: rule, Reason: reason}
	switch {
	case isPath(name):
		d.Value = cleanPath(value)
		if d.Value == "" {
			return Decision{Name: name, Rule: RulePath, Reason: "It has no entry that is an absolute directory."}
		}
		if d.Value != value {
			d.Changed = true
			d.Reason += " Entries that depend on the working directory were removed."
		}
	case clean && isProxy(name):
		v, ok := cleanProxy(name, value, r.listed[name] != "")
		if !ok {
			return Decision{Name: name, Rule: RuleProxy,
				Reason: "It is a proxy that may hold a password and cannot be read safely; a passthrough lets it through as it is."}
		}
		if v != value {
			d.Value, d.Changed = v, true
			d.Reason += " User and password were removed; a passthrough keeps them."
		}
	}
	return d
}

// printable says whether name can be a name at all: names are printed, so no
// control or invalid bytes.
func printable(name string) bool {
	if name == "" || !utf8.ValidString(name) {
		return false
	}
	return strings.IndexFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) < 0
}

// isEngineName covers the reference's _HERMES_FORCE_X too.
func isEngineName(upper string) bool {
	return strings.HasPrefix(strings.TrimLeft(upper, "_"), "HERMES_")
}
