package engine

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/hermes-exec/hermes-exec/sandbox"
)

// Denial is something the policy kept a run from. Every field is one line
// without control characters.
type Denial struct {
	What   string `json:"what"`   // `write "/etc/hosts"`
	Clause string `json:"clause"` // `files: nothing allows it`, `files: deny_write "/w/.envrc"`, `network: off`
	Hint   string `json:"hint"`   // how the user allows it
}

const (
	maxDenials     = 5
	maxLookups     = 32                     // links followed for one result
	denialPatience = 500 * time.Millisecond // for all of them
)

// judge decides which complaints of a run are the policy's doing.
type judge struct {
	policy  sandbox.Policy
	info    sandbox.Info
	files   sandbox.Files
	redact  func(string) string
	explain func(name string) string // nil without
	hidden  string                   // the work dir that scripts were to start in, when the policy hides it
	outline bool                     // the policy has no paths: the box is elsewhere, and only there are they known

	lookups int
	found   []Denial
}

// complaints are those of what a run printed, the calls' among them. A script
// that copes with an error, or prints what a program told it, was denied no less:
// neither its exit code nor the stream says anything.
func (p *place) complaints(stderr, stdout, dir string, calls []complaint) []complaint {
	if p.session.spec.Policy.Unconfined {
		return nil
	}
	stdout = stdout[max(0, len(stdout)-maxPrinted):]
	list := slices.Concat(complaints(stderr, dir), calls, complaints(stdout, dir))
	if hidden := p.hiddenWorkDir(); hidden != "" {
		for _, c := range slices.Concat(complaints(stderr, hidden), complaints(stdout, hidden)) {
			if c.trouble == troubleMissing { // what is there is another's trouble
				list = append(list, c)
			}
		}
	}
	return list
}

// hiddenWorkDir is the work dir that gave way to scratch because the policy hides
// it: a name that was meant to be in it is missing. "" if scripts are where they
// were to be.
func (p *place) hiddenWorkDir() string {
	s := p.session
	dir := path.Clean(s.spec.WorkDir)
	if s.mode != Project || s.elsewhere || !path.IsAbs(dir) || p.info.WorkDir != p.info.ScratchDir || s.spec.Policy.Access(dir).Read {
		return ""
	}
	return dir
}

// denials names at most maxDenials things that the policy really denies.
func (p *place) denials(ctx context.Context, list []complaint) []Denial {
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialPatience)
	defer cancel()
	s := p.session
	j := judge{policy: s.spec.Policy, info: p.info, files: p.box.Files(), redact: s.engine.redact, explain: s.explain, hidden: p.hiddenWorkDir(), outline: s.elsewhere}
	return j.decide(ctx, list)
}

func (j *judge) decide(ctx context.Context, list []complaint) []Denial {
	if j.policy.Unconfined {
		return nil
	}
	for _, c := range list {
		if len(j.found) == maxDenials {
			break
		}
		if c.trouble == troubleNetwork {
			if j.policy.Network == sandbox.NetworkOff {
				j.add(Denial{"network access", "network: off", "--policy workspace, or a policy file with network: host"})
			}
			continue
		}
		if j.outline {
			continue
		}
		name, ok := j.real(ctx, c.path)
		if !ok {
			continue
		}
		what, rule, ok := j.decideFile(ctx, c.trouble, name)
		if !ok && strings.HasSuffix(name, ".lock") { // git writes a lock, then renames it
			name = strings.TrimSuffix(name, ".lock")
			what, rule, ok = j.decideFile(ctx, c.trouble, name)
		}
		if ok {
			j.add(Denial{what + " " + j.quote(name), "files: " + j.ruleText(rule), j.hint(what, name, rule)})
		}
	}
	return j.found
}

func (j *judge) add(d Denial) {
	same := func(o Denial) bool { return o.What == d.What && o.Clause == d.Clause }
	if !slices.ContainsFunc(j.found, same) {
		j.found = append(j.found, d)
	}
}

// real follows the links of a name as the box does. What is hidden cannot be
// followed: it is judged by its name.
func (j *judge) real(ctx context.Context, name string) (string, bool) {
	if len(name) > maxPath || strings.ContainsRune(name, 0) || j.lookups >= maxLookups {
		return "", false
	}
	j.lookups++
	clean := path.Clean(name)
	if j.policy.Access(clean).ReadRule.Clause != "deny_read" {
		if real, err := j.files.Resolve(ctx, name); err == nil {
			clean = path.Clean(real)
		}
	}
	return clean, !sandbox.Covers(j.info.ScratchDir, clean)
}

// The words of Denial.What.
const (
	toUse   = "use" // read, or write: an error does not tell
	toWrite = "write"
	toMove  = "rename or remove"
)

// decideFile tells whether the policy explains a trouble with a path; plain
// file permissions, a file that is not there, a busy device are none of its.
func (j *judge) decideFile(ctx context.Context, t trouble, name string) (what string, rule sandbox.Rule, ok bool) {
	a := j.policy.Access(name)
	if a.Read && a.WriteRule.Clause == "own" {
		a.WriteRule = sandbox.Rule{} // below a tree of the box's own, but the host's
	}
	if !a.Read && a.ReadRule.Clause == "own" && j.hidden != "" && sandbox.Covers(j.hidden, name) {
		a.ReadRule = sandbox.Rule{} // the work dir is the policy's to bring in
	}
	read := !a.Read && j.isDenial(a.ReadRule)
	write := !a.Write && j.isDenial(a.WriteRule)
	switch t {
	case troubleMissing:
		return toUse, a.ReadRule, read
	case troubleDenied:
		if read {
			return toUse, a.ReadRule, true
		}
		// With a file tree of its own a box answers EROFS to what the policy
		// closes: EACCES then is the file's own mode.
		write = write && j.info.Rung != sandbox.RungNamespaces && j.modeAllows(ctx, name)
		return toWrite, a.WriteRule, write
	case troubleFixed:
		return toWrite, a.WriteRule, write
	case troublePinned:
		if write && a.WriteRule.Clause == "deny_write" {
			return toWrite, a.WriteRule, true
		}
		for _, entry := range j.policy.DenyWrite {
			if entry != name && sandbox.Covers(name, entry) && name != "/" {
				return toMove, sandbox.Rule{Clause: "deny_write", Path: entry}, true
			}
		}
	case troubleTaken: // an empty directory stands where nothing may be made
		if write && a.WriteRule == (sandbox.Rule{Clause: "deny_write", Path: name}) {
			entries, err := j.files.ReadDir(ctx, name)
			return toWrite, a.WriteRule, err == nil && len(entries) == 0
		}
	}
	return "", sandbox.Rule{}, false
}

// isDenial leaves out the trees a box has of its own: what is refused there the
// policy's paths do not explain.
func (j *judge) isDenial(r sandbox.Rule) bool {
	return r.Clause == "" || r.Clause == "deny_read" || r.Clause == "deny_write"
}

// modeAllows tells whether the mode of a file, or of the directory it would be
// in, lets the box's user write: if not, no policy is needed to refuse it.
func (j *judge) modeAllows(ctx context.Context, name string) bool {
	info, err := j.files.Stat(ctx, name)
	if err != nil {
		if info, err = j.files.Stat(ctx, path.Dir(name)); err != nil {
			return false
		}
	}
	const ownerWrites, othersWrite fs.FileMode = 0o200, 0o002
	return info.Mode()&othersWrite != 0 || info.Mode()&ownerWrites != 0 && ownedBy(info, j.info.UID)
}

func (j *judge) ruleText(r sandbox.Rule) string {
	if r.Path == "" {
		return r.String()
	}
	return r.Clause + " " + j.quote(r.Path)
}

func (j *judge) hint(what, name string, rule sandbox.Rule) string {
	if j.explain != nil {
		asked := name
		switch {
		case what == toMove:
			asked = rule.Path
		case j.hidden != "" && rule.Clause == "" && sandbox.Covers(j.hidden, name):
			asked = j.hidden // a file of it alone would not bring the script there
		}
		if hint := oneLine(j.redact(j.explain(asked)), maxHint); hint != "" {
			return hint
		}
	}
	switch rule.Clause {
	case "":
		if what == toUse {
			return fmt.Sprintf("a policy file with read: [%s], or write: and its directory if it is to be changed; or --policy open", j.quote(name))
		}
		return "a policy file with write: and the directory it is in, or --policy open"
	case "deny_read":
		return "its guard in code_execution.open_guards, or out of deny_read: hermes-exec policy explain " + j.quote(name) + " names it"
	}
	return "its guard in code_execution.open_guards, or out of deny_write: hermes-exec policy explain " + j.quote(rule.Path) + " names it"
}

// The most characters of one path and of a hint that are shown.
const (
	maxShownPath = 200
	maxHint      = 600
)

// quote makes a name that a script chose fit to be shown.
func (j *judge) quote(name string) string {
	name = j.redact(name)
	if short := clip(name, maxShownPath); short != name {
		return strconv.Quote(short) + "…"
	}
	return strconv.Quote(name)
}

// oneLine escapes what cannot be printed and bounds the rest.
func oneLine(text string, limit int) string {
	var b strings.Builder
	for _, r := range clip(text, limit) {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}
