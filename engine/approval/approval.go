package approval

import (
	"slices"
	"strings"
)

// Verdict is what a rule says about a command. Greater is stricter.
type Verdict int

// The verdicts.
const (
	Allow  Verdict = iota // nothing to say
	Ask                   // a person should see it first
	Forbid                // never, whoever asks
)

func (v Verdict) String() string {
	switch v {
	case Ask:
		return "ask"
	case Forbid:
		return "forbid"
	}
	return "allow"
}

// Match is one rule that one part of a command met.
type Match struct {
	Rule        string // stable key: "delete-system", "power", …
	Description string // what the rule is about, for people
	Verdict     Verdict
	Text        string // the part that met it, as the shell would see it
}

// Options are the facts about the place a command is going to run in.
type Options struct {
	// Home is the user's home directory there; "" when it is not known.
	// ~ and $HOME are protected either way.
	Home string
	// SudoPassword says that the user gave a password for sudo, so that
	// sudo -S is not a guess.
	SudoPassword bool
}

// Command judges a command line for bash or sh. Every match is reported, in
// the order of the command, each only once; none means Allow.
func Command(cmd string, opt Options) []Match { return Parse(cmd).Judge(opt) }

// Judge applies all rules.
func (s *Script) Judge(opt Options) []Match {
	type key struct{ rule, text string }
	var matches []Match
	seen := map[key]bool{}
	add := func(m Match) {
		if k := (key{m.Rule, m.Text}); !seen[k] {
			seen[k] = true
			matches = append(matches, m)
		}
	}
	for i := range s.Calls {
		for _, r := range hardline {
			if r.call != nil && r.call(&s.Calls[i], opt) {
				add(Match{r.id, r.description, r.verdict, s.Calls[i].Text()})
			}
		}
	}
	for _, target := range s.Writes {
		for _, r := range hardline {
			if r.write != nil && r.write(target) {
				add(Match{r.id, r.description, r.verdict, "> " + readable(target)})
			}
		}
	}
	for _, name := range s.forkBombs {
		add(Match{ruleForkBomb, "fork bomb: a function that keeps starting itself", Forbid, name})
	}
	for _, what := range s.unclear {
		add(Match{ruleUnclear, "only a running shell can tell what this does", Ask, what})
	}
	return matches
}

// Worst is the strictest verdict among matches.
func Worst(matches []Match) Verdict {
	worst := Allow
	for _, m := range matches {
		worst = max(worst, m.Verdict)
	}
	return worst
}

// Refusal is what to answer to a command with these matches when nobody can
// permit it; "" when none of them forbids.
func Refusal(matches []Match) string {
	var about []string
	guess := false
	for _, m := range matches {
		switch {
		case m.Verdict != Forbid:
		case m.Rule == ruleSudoStdin:
			guess = true
		case !slices.Contains(about, m.Description):
			about = append(about, m.Description)
		}
	}
	switch {
	case len(about) > 0:
		return "BLOCKED (hardline): " + strings.Join(about, "; ") +
			". No setting and no approval permits this command here. If it has to be done, the user must do it, outside of this tool."
	case guess:
		return "BLOCKED: sudo password guessing is not allowed: `sudo -S` reads a password from its input, and none is configured (SUDO_PASSWORD)." +
			" Do not retry with other passwords; ask the user to configure one, or to run the command."
	}
	return ""
}
