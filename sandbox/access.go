package sandbox

import (
	"path"
	"strings"
)

// Access is what a policy gives a box of one path of the host, and by which
// rules.
type Access struct {
	Read, Write         bool
	ReadRule, WriteRule Rule // the zero Rule: nothing allows it
}

// Rule is one entry of a policy.
type Rule struct {
	Clause string `json:"rule"` // the policy file's key: read, write, deny_read, deny_write; also private, own, unconfined, not_clean
	Path   string `json:"path,omitempty"`
}

// String gives the rule as a person reads it: "deny_read /home/u/.ssh".
func (r Rule) String() string {
	switch r.Clause {
	case "":
		return "nothing allows it"
	case "own":
		return "the box has its own " + r.Path
	case "unconfined":
		return "no confinement"
	case "not_clean":
		return "not a clean absolute path"
	}
	return r.Clause + " " + r.Path
}

// Own lists the directories that a confined box has of its own: what the host
// has there is not seen, but for trees below that the policy names.
func Own() []string { return []string{"/dev", "/proc", "/run", "/tmp", "/var/tmp"} }

// Access tells what a box under p would get of a path of the host. It is
// lexical: name is absolute and clean, and the caller has followed its links.
// Deny beats allow, whichever is the more specific; the rule named is the
// longest that matches.
func (p Policy) Access(name string) Access {
	none := func(r Rule) Access { return Access{ReadRule: r, WriteRule: r} }
	switch {
	case p.Unconfined:
		r := Rule{Clause: "unconfined"}
		return Access{true, true, r, r}
	case !path.IsAbs(name) || path.Clean(name) != name || strings.ContainsRune(name, 0):
		return none(Rule{Clause: "not_clean"})
	}
	if hidden := covering(name, "deny_read", p.DenyRead); hidden.Clause != "" {
		return none(hidden)
	}
	// The host's tree is not seen below one of the box's own, unless an entry
	// below it brings a part back.
	var own string
	for _, dir := range Own() {
		if Covers(dir, name) {
			own = dir
		}
	}
	seen := func(list []string) []string {
		if own == "" {
			return list
		}
		var below []string
		for _, entry := range list {
			if entry != own && Covers(own, entry) {
				below = append(below, entry)
			}
		}
		return below
	}
	write := longest(covering(name, "write", seen(p.Write)), covering(name, "private", seen(p.Private)))
	read := longest(covering(name, "read", seen(p.Read)), write)
	nothing := Rule{}
	if own != "" {
		nothing = Rule{"own", own}
	}
	a := none(nothing)
	if read.Clause != "" {
		a.Read, a.ReadRule = true, read
	}
	if write.Clause == "" {
		return a
	}
	a.Write, a.WriteRule = true, write
	if closed := covering(name, "deny_write", p.DenyWrite); closed.Clause != "" {
		a.Write, a.WriteRule = false, closed
	}
	return a
}

// Covers tells whether name is tree or lies below it. Both are absolute and
// clean.
func Covers(tree, name string) bool {
	rest, ok := strings.CutPrefix(name, tree)
	return ok && (rest == "" || rest[0] == '/' || tree == "/")
}

// covering is the longest entry of a list that covers name.
func covering(name, clause string, list []string) (r Rule) {
	for _, entry := range list {
		if Covers(entry, name) && len(entry) > len(r.Path) {
			r = Rule{clause, entry}
		}
	}
	return r
}

func longest(a, b Rule) Rule {
	if len(b.Path) > len(a.Path) {
		return b
	}
	return a
}
